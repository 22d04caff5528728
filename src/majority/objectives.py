"""Objectives: what a training step minimises. The default is the method's own loss of the bags' labels."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from .batches import Batch
from .functional import contrastive_losses
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
