"""Objectives: what a training step minimises. The default is the method's own loss of the bags' labels."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from .batches import Batch
from .functional import certain, consistent, contrastive_losses
from .model import Augmentation, Model, in_float32
from .norm import BatchNorm1d


class Views(NamedTuple):
    """How a step may look at images; None: as they are."""

    weak: Augmentation | None = None  # the settings' `augment`
    strong: Augmentation | None = None  # the settings' `strong`


class Objective(nn.Module):
    """What it holds itself (a projection, a teacher) is trained, captured and saved beside the model."""

    uses_head: ClassVar[bool] = True  # False: it has no use for labels, whatever the method

    def losses(self, model: Model, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
        """(b,) one loss a bag, (b,) whether the bag's class was predicted."""
        raise NotImplementedError

    def begin_epoch(self, part: float) -> None:
        """`part` of all epochs, 0 to 1, lie behind."""

    def after_step(self, model: Model) -> None:
        """What follows the optimiser's step."""

    def product(self, model: Model) -> Model:
        """The model that is validated, and whose best weights are kept."""
        return model


class BagLoss(Objective):
    """The method's own loss."""

    def losses(self, model: Model, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
        output = model(batch.instances, batch.segments, views.weak)
        with in_float32(output.bag_log_probs):
            losses = model.head.losses(output, batch.segments, batch.target)
        return losses, output.bag_log_probs.argmax(dim=1) == batch.target.labels


class Contrastive(Objective):
    """Two strong views of an instance know each other among those of all others: no label is used.

    Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020; without the
    positive pair in the denominator, Yeh et al., "Decoupled Contrastive Learning", ECCV 2022. The projection is left
    behind; bags are of one instance each.
    """

    uses_head = False

    def __init__(self, features: int, temperature: float = 0.2, width: int = 512, dimensions: int = 128):
        super().__init__()
        self.temperature = temperature
        self.projection = nn.Sequential(
            nn.Linear(features, width, bias=False), BatchNorm1d(width), nn.ReLU(), nn.Linear(width, dimensions)
        )

    def losses(self, model: Model, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
        instances = batch.instances
        both = torch.cat([model.normalise(instances, views.strong) for _ in range(2)])
        projected = self.projection(model.backbone(both)).float()
        with in_float32(projected):
            losses, nearest = contrastive_losses(*projected.chunk(2), self.temperature)
        return losses, nearest


class SelfTraining(Objective):
    """The method's own loss, and what a teacher reads of every instance, made consistent with the bag's label.

    The teacher is a running mean of the model's weights; it looks at weak views, the model learns from strong ones.
    The teacher is what is kept. Its readings are taught as they are or, with a `confidence`, only those that reach it,
    as certain (Sohn et al., "FixMatch", NeurIPS 2020, with a mean teacher and bags in the place of labels).
    """

    def __init__(
        self,
        model: Model,
        momentum: float = 0.99,
        weight: float = 1.0,  # of the teacher's lessons
        rise: tuple[float, float] = (0.0, 0.0),  # parts of all epochs between which that weight rises from 0
        confidence: float | None = None,
    ):
        super().__init__()
        self.momentum, self.weight, self.rise, self.confidence = momentum, weight, rise, confidence
        self.teacher = deepcopy(model).requires_grad_(False)
        self.register_buffer("weight_now", torch.tensor(0.0))

    def begin_epoch(self, part: float) -> None:
        first, last = self.rise
        risen = (part - first) / (last - first) if last > first else float(part >= first)
        self.weight_now.fill_(self.weight * min(max(risen, 0.0), 1.0))

    def product(self, model: Model) -> Model:
        return self.teacher

    def train(self, mode: bool = True) -> SelfTraining:
        super().train(mode)
        self.teacher.eval()
        return self

    def losses(self, model: Model, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
        output = model(batch.instances, batch.segments, views.strong)
        with in_float32(output.bag_log_probs):
            losses = model.head.losses(output, batch.segments, batch.target)
        if self.weight:
            losses = losses + self.weight_now * self._lessons(batch, views, output.instance_log_probs)
        return losses, output.bag_log_probs.argmax(dim=1) == batch.target.labels

    def _lessons(self, batch: Batch, views: Views, log_probs: Tensor) -> Tensor:  # (b,)
        spec = self.teacher.spec
        with torch.no_grad():
            read = self.teacher(batch.instances, batch.segments, views.weak).instance_log_probs
        with in_float32(read):
            background = spec.background and spec.background.index
            taught = consistent(read, batch.segments, batch.target.labels, background).exp()
            if self.confidence is not None:
                taught = certain(taught, self.confidence)
            return batch.segments.mean(-(taught * log_probs).sum(dim=1))

    @torch.no_grad()
    def after_step(self, model: Model) -> None:
        for kept, new in zip(self.teacher.state_dict().values(), model.state_dict().values(), strict=True):
            if kept.is_floating_point():
                kept.lerp_(new, 1 - self.momentum)
            else:
                kept.copy_(new)
