"""Objectives: what a training step minimises. The default is the method's own loss of the bags' labels."""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .batches import Batch
from .functional import consistent, contrastive_losses
from .model import Augmentation, Model, in_float32
from .norm import BatchNorm1d


class Views(NamedTuple):
    """How a step may look at images; None: as they are."""

    weak: Augmentation | None = None  # the settings' `augment`
    strong: Augmentation | None = None  # the settings' `strong`


class Objective(nn.Module):
    """What it holds itself (a projection, a teacher) is trained, captured and saved beside the model."""

    def losses(self, model: Model, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
        """(b,) one loss a bag, (b,) whether the bag's class was predicted."""
        raise NotImplementedError

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
    The teacher is what is kept.
    """

    def __init__(self, model: Model, momentum: float = 0.99, weight: float = 1.0, confidence: float = 0.0):
        super().__init__()
        self.momentum, self.weight, self.confidence = momentum, weight, confidence
        self.teacher = deepcopy(model).requires_grad_(False)

    def product(self, model: Model) -> Model:
        return self.teacher

    def train(self, mode: bool = True) -> SelfTraining:
        super().train(mode)
        self.teacher.eval()
        return self

    def losses(self, model: Model, batch: Batch, views: Views) -> tuple[Tensor, Tensor]:
        instances = batch.instances
        with torch.no_grad():
            read = self.teacher(instances, batch.segments, views.weak).instance_log_probs
        output = model(instances, batch.segments, views.strong)
        with in_float32(read):
            taught = consistent(read, batch.segments, batch.target.labels).exp()
            counts = (taught.amax(dim=1) >= self.confidence).float()  # (n,)
            lessons = -(taught * output.instance_log_probs).sum(dim=1) * counts
            losses = model.head.losses(output, batch.segments, batch.target)
            losses = losses + self.weight * batch.segments.mean(lessons)
        return losses, output.bag_log_probs.argmax(dim=1) == batch.target.labels

    @torch.no_grad()
    def after_step(self, model: Model) -> None:
        for kept, new in zip(self.teacher.state_dict().values(), model.state_dict().values(), strict=True):
            if kept.is_floating_point():
                kept.lerp_(new, 1 - self.momentum)
            else:
                kept.copy_(new)
