"""Objectives: what a training step minimises. The default is the method's own loss of the bags' labels."""

from __future__ import annotations

from copy import deepcopy
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..backbones.norm import BatchNorm1d
from ..data.batches import Batch
from ..model import Augmentation, Model, in_float32
from .contrastive import contrastive_losses, mixed_contrastive_losses


class Objective(nn.Module):
    """What it holds itself (a projection, a mean of weights) is trained, captured and saved beside the model."""

    uses_head: ClassVar[bool] = True  # False: it has no use for labels, whatever the method
    learns_soft_labels: ClassVar[bool] = False  # True: `fit` needs them
    of_instances: ClassVar[bool] = False  # True: bags are of one instance each
    keeps_last: ClassVar[bool] = False  # True: the last epoch wins, whatever the validation bags' loss

    def losses(self, model: Model, batch: Batch, augment: Augmentation | None) -> tuple[Tensor, Tensor]:
        """(b,) one loss a bag, (b,) whether the bag's class was predicted. `augment` draws anew at each call."""
        raise NotImplementedError

    def after_step(self, model: Model) -> None:
        """What follows the optimizer's step."""

    def product(self, model: Model) -> Model:
        """The model that is validated, and whose best weights are kept."""
        return model


class BagLoss(Objective):
    """The method's own loss."""

    def losses(self, model: Model, batch: Batch, augment: Augmentation | None) -> tuple[Tensor, Tensor]:
        output = model(batch.instances, batch.segments, augment)
        with in_float32(output.bag_log_probs):
            losses = model.head.losses(output, batch.segments, batch.target)
        return losses, output.bag_log_probs.argmax(dim=1) == batch.target.labels


class Contrastive(Objective):
    """Two views of an instance know each other among those of all others: no label is used.

    Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020; without the
    positive pair in the denominator, Yeh et al., "Decoupled Contrastive Learning", ECCV 2022. Where first views are
    mixed with those of other instances, up to `mixed` of them, they are to know the second views of both among those of
    all: Lee et al., "i-Mix: A Domain-Agnostic Strategy for Contrastive Representation Learning", ICLR 2021. The
    projection is left behind.
    """

    uses_head, of_instances = False, True

    def __init__(
        self, features: int, temperature: float = 0.2, mixed: float = 0.0, width: int = 512, dimensions: int = 128
    ):
        super().__init__()
        self.temperature, self.mixed = temperature, mixed
        self.projection = nn.Sequential(
            nn.Linear(features, width, bias=False), BatchNorm1d(width), nn.ReLU(), nn.Linear(width, dimensions)
        )

    def losses(self, model: Model, batch: Batch, augment: Augmentation | None) -> tuple[Tensor, Tensor]:
        first, second = (model.normalise(batch.instances, augment) for _ in range(2))
        if self.mixed:
            first, other, share = mix(first, self.mixed)
        projected = self.projection(model.backbone(torch.cat([first, second]))).float()
        with in_float32(projected):
            first, second = projected.chunk(2)
            if self.mixed:
                return mixed_contrastive_losses(first, second, other, share, self.temperature)
            return contrastive_losses(first, second, self.temperature)


class Averaged(BagLoss):
    """The method's own loss; what is validated and kept is the running mean of the model's weights.

    Its first steps count in full: the mean is over all steps until there are 1 / (1 - momentum) of them.
    """

    def __init__(self, model: Model, momentum: float = 0.99):
        super().__init__()
        self.momentum = momentum
        self.mean = deepcopy(model).requires_grad_(False)
        self.register_buffer("steps", torch.tensor(0.0))

    def product(self, model: Model) -> Model:
        return self.mean

    @torch.no_grad()
    def after_step(self, model: Model) -> None:
        self.steps += 1
        new = (1 / self.steps).clamp(min=1 - self.momentum)
        held = lambda network: [*network.parameters(), *network.buffers()]  # what is shared counts once
        for kept, now in zip(held(self.mean), held(model), strict=True):
            if kept.is_floating_point():
                kept.lerp_(now, new.to(kept.dtype))
            else:
                kept.copy_(now)


class Distill(Averaged):
    """Given soft_labels about every instance are learned, and no bag label is; its running mean is kept, as above.

    Instances are mixed with others of the step, up to `mixed` of them, and their soft_labels with them (Zhang et al.,
    "mixup: Beyond Empirical Risk Minimization", ICLR 2018): where soft_labels are wrong, that is harder to learn by heart.
    The last epoch wins: soft_labels are another aim than bags' labels, and on images the lowest loss of bags was often the
    first epoch's.
    """

    learns_soft_labels = keeps_last = True

    def __init__(self, model: Model, momentum: float = 0.99, mixed: float = 0.5):
        super().__init__(model, momentum)
        self.mixed = mixed

    def losses(self, model: Model, batch: Batch, augment: Augmentation | None) -> tuple[Tensor, Tensor]:
        seen, soft_labels = model.normalise(batch.instances, augment), batch.target.soft_labels
        if self.mixed:
            seen, other, share = mix(seen, self.mixed)
            soft_labels = soft_labels.lerp(soft_labels[other], share.unsqueeze(1))
        output = model.aggregate(model.backbone(seen).float(), batch.segments)
        with in_float32(output.bag_log_probs):
            losses = batch.segments.mean(-(soft_labels * output.instance_log_probs).sum(dim=1))
        return losses, output.bag_log_probs.argmax(dim=1) == batch.target.labels


def mix(seen: Tensor, most: float) -> tuple[Tensor, Tensor, Tensor]:
    """n instances, each with up to `most` of another in it; (n,) which other; (n,) how much of it."""
    other = torch.rand(len(seen), device=seen.device).argsort()
    share = most * torch.rand(len(seen), device=seen.device)
    return seen.lerp(seen[other], share.view(-1, *[1] * (seen.ndim - 1)).to(seen.dtype)), other, share
