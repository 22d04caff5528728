"""Objectives: what a training step minimises. The default is the method's own loss of the bag labels."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import ClassVar

import torch
from torch import Tensor, nn

from ..data.loader import Batch
from ..data.segments import Segments
from ..data.targets import Target
from ..losses import BagOutput
from ..losses.base import in_float32
from ..losses.functional import pick, right_label_probs, tolerant_losses, winner_log_probs
from ..nn.backbones.norm import BatchNorm1d
from ..nn.model import ImageTransform, Model
from . import distributed


class Objective(nn.Module):
    """Base class. The modules of an objective (a projection, a copy of the model) are trained, captured and saved
    together with the model."""

    uses_head: ClassVar[bool] = True  # False: no labels are used, whatever the method
    uses_bag_labels: ClassVar[bool] = False  # True: bags without a label are left out
    learns_soft_labels: ClassVar[bool] = False  # True: `fit` needs soft_labels
    needs_single_instances: ClassVar[bool] = False  # True: every bag must have one instance
    keeps_last: ClassVar[bool] = False  # True: the last epoch is kept, whatever the validation loss
    remaining_wrong: float = 0.0  # share of the bag labels that is assumed to be wrong

    def losses(self, model: Model, batch: Batch, augment: ImageTransform | None) -> tuple[Tensor, Tensor]:
        """(b,) one loss per bag, and (b,) whether most of its instances are predicted as its class.

        `augment` draws new random numbers at each call.
        """
        raise NotImplementedError

    def val_losses(self, model: Model, output: BagOutput, batch: Batch) -> Tensor:
        """(b,) losses by which epochs are compared. Weights would not do: they favour a model that contradicts all."""
        if self.remaining_wrong == 0:
            return model.head.losses(output, batch.segments, batch.target)
        allowed = batch.target.allowed
        log_probs = winner_log_probs(output.bag_log_probs, allowed)
        return tolerant_losses(log_probs, self.remaining_wrong, model.label_classes, allowed.sum(dim=1))

    def after_step(self, model: Model) -> None:
        """Called after every step of the optimizer."""

    def model_to_keep(self, model: Model) -> Model:
        """The model that is validated, and whose weights of the best epoch are kept."""
        return model


class BagLoss(Objective):
    """The method's own loss, and that of instance labels where the bags have some that training may see."""

    uses_bag_labels = True

    def losses(self, model: Model, batch: Batch, augment: ImageTransform | None) -> tuple[Tensor, Tensor]:
        output = model(batch.instances, batch.segments, augment)
        with in_float32(output.bag_log_probs):
            losses = model.head.losses(output, batch.segments, batch.target)
            if self.remaining_wrong:  # times the probability that the label is right
                allowed = batch.target.allowed
                log_probs = winner_log_probs(output.bag_log_probs.detach(), allowed)
                named = allowed.sum(dim=1)
                losses = losses * right_label_probs(log_probs, self.remaining_wrong, model.label_classes, named)
            if batch.target.training_labels is not None:
                losses = losses + instance_losses(output, batch.segments, batch.target)
        return losses, model.bags_right(output, batch.segments, batch.target)


def instance_losses(output: BagOutput, segments: Segments, target: Target) -> Tensor:
    """(b,) the negative log-likelihood of the training labels of instances, summed over each bag.

    The label of a bag and that of an instance are one observation each. An instance that is in several bags is one too:
    its weight is divided among them. Otherwise a few instances would be memorised at the cost of the bags.
    """
    assert target.training_labels is not None
    assert target.training_weights is not None  # 0 where the label is not known
    log_probs = pick(output.instance_log_probs, target.training_labels.clamp(min=0))
    return -segments.sum(log_probs * target.training_weights)


class Contrastive(Objective):
    """Contrastive learning: two views of an instance should be closer than views of other instances. It uses no labels.

    Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020; without the
    positive pair in the denominator, Yeh et al., "Decoupled Contrastive Learning", ECCV 2022. If `mixed_views` is above
    0, up to this share of each first view is another instance, and it should be close to the second views of both: Lee
    et al., "i-Mix: A Domain-Agnostic Strategy for Contrastive Representation Learning", ICLR 2021. The projection is
    not part of the model.
    """

    uses_head, needs_single_instances = False, True

    def __init__(
        self, features: int, temperature: float = 0.2, mixed_views: float = 0.0, width: int = 512, dimensions: int = 128
    ):
        super().__init__()
        self.temperature, self.mixed_views = temperature, mixed_views
        self.projection = nn.Sequential(
            nn.Linear(features, width, bias=False), BatchNorm1d(width), nn.ReLU(), nn.Linear(width, dimensions)
        )

    def losses(self, model: Model, batch: Batch, augment: ImageTransform | None) -> tuple[Tensor, Tensor]:
        first, second = (model.normalise(batch.instances, augment) for _ in range(2))
        if self.mixed_views:
            first, other, share = mix(first, self.mixed_views)
        projected = self.projection(model.backbone(torch.cat([first, second]))).float()
        with in_float32(projected):
            first, second = projected.chunk(2)
            if self.mixed_views:
                return mixed_contrastive_losses(first, second, other, share, self.temperature, batch.parts)
            return contrastive_losses(first, second, self.temperature, batch.parts)


class Averaged(BagLoss):
    """The method's own loss; the running mean of the model's weights is validated and kept.

    The mean is over all steps until there are 1 / (1 - momentum) of them, and an exponential moving average after that.
    """

    steps: Tensor

    def __init__(self, model: Model, momentum: float = 0.99):
        super().__init__()
        self.momentum = momentum
        self.mean = deepcopy(model).requires_grad_(False)
        self.register_buffer("steps", torch.tensor(0.0))

    def model_to_keep(self, model: Model) -> Model:
        return self.mean

    @torch.no_grad()
    def after_step(self, model: Model) -> None:
        self.steps += 1
        weight = (1 / self.steps).clamp(min=1 - self.momentum)
        for mean, current in zip(_tensors(self.mean), _tensors(model), strict=True):
            if mean.is_floating_point():
                mean.lerp_(current, weight.to(mean.dtype))
            else:
                mean.copy_(current)


class Distill(Averaged):
    """Learns the soft labels of the instances, and no bag labels.

    The running mean of the weights is kept, as in `Averaged`. Instances are mixed with others of the step, up to the
    share `mixup`, and so are their soft labels (Zhang et al., "mixup: Beyond Empirical Risk Minimization", ICLR 2018):
    wrong soft labels are then harder to memorise. The last epoch is kept: soft labels are a different target from bag
    labels, and on images the epoch with the lowest loss of the validation bags was often the first.
    """

    learns_soft_labels = keeps_last = True
    uses_bag_labels = False

    def __init__(self, model: Model, momentum: float = 0.99, mixup: float = 0.5):
        super().__init__(model, momentum)
        self.mixup = mixup

    def losses(self, model: Model, batch: Batch, augment: ImageTransform | None) -> tuple[Tensor, Tensor]:
        instances, soft_labels = model.normalise(batch.instances, augment), batch.target.soft_labels
        assert soft_labels is not None  # `fit` checks it
        if self.mixup:
            instances, other, share = mix(instances, self.mixup)
            soft_labels = soft_labels.lerp(soft_labels[other], share.unsqueeze(1))
        output = model.aggregate(model.backbone(instances).float(), batch.segments)
        with in_float32(output.bag_log_probs):
            losses = batch.segments.mean(-(soft_labels * output.instance_log_probs).sum(dim=1))
        return losses, model.bags_right(output, batch.segments, batch.target)


def mix(instances: Tensor, most: float) -> tuple[Tensor, Tensor, Tensor]:
    """Mix each of n instances with another: the mixed instances, (n,) which other, (n,) its share, up to `most`."""
    other = torch.rand(len(instances), device=instances.device).argsort()
    share = most * torch.rand(len(instances), device=instances.device)
    weights = share.view(-1, *[1] * (instances.ndim - 1)).to(instances.dtype)
    return instances.lerp(instances[other], weights), other, share


def _tensors(model: Model) -> list[Tensor]:
    """All parameters and buffers; a shared one is listed once."""
    return [*model.parameters(), *model.buffers()]


# ---------------------------------------------------------------------- contrastive losses
# In a training of several processes, the other instances are those of all processes: `parts` has the number of
# instances of each.


def contrastive_losses(
    first: Tensor, second: Tensor, temperature: float, parts: Sequence[int] | None = None
) -> tuple[Tensor, Tensor]:
    """Two views (n, d) of n instances -> (n,) losses, the mean over both views, and (n,) whether the second view is
    the nearest neighbour of the first.

    With the cosine similarity s, a loss is -s(pair) / T + log sum exp(s(other) / T) over the views of all other
    instances; the pair itself is not part of the sum. A single instance has no others: its loss is 0.
    """
    n = len(first)
    own, total = _own_numbers(first, parts)
    if total == 1:
        return 0 * (first * second).sum(dim=1), torch.ones(1, dtype=torch.bool, device=first.device)
    views = torch.nn.functional.normalize(torch.cat([first, second]), dim=1)
    all_views = torch.cat([distributed.gather(half, parts) for half in views.chunk(2)])  # (2N, d)
    similarity = views @ all_views.T / temperature  # (2n, 2N)
    pairs = similarity.gather(1, torch.cat([own + total, own]).unsqueeze(1)).squeeze(1)  # (2n,)
    of_column = torch.arange(2 * total, device=views.device) % total
    others = similarity.masked_fill(of_column.unsqueeze(0) == own.repeat(2).unsqueeze(1), -torch.inf)
    losses = others.logsumexp(dim=1) - pairs
    nearest = pairs[:n] > others[:n].amax(dim=1)
    return losses.view(2, n).mean(dim=0), nearest


def mixed_contrastive_losses(
    mixed: Tensor,
    views: Tensor,
    other: Tensor,
    share: Tensor,
    temperature: float,
    parts: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor]:
    """Mixed views (n, d), a `share` (n,) of which is instance `other` (n,), and an unmixed view (n, d) of every
    instance -> (n,) losses and (n,) whether the nearest unmixed view is that of the same instance.

    With the cosine similarity s, the cross-entropy over all n views, whose target has 1 - share for the instance and
    share for the other: -((1 - share) s(same) + share s(other)) / T + log sum exp(s / T).
    """
    mixed, views = (torch.nn.functional.normalize(each, dim=1) for each in (mixed, views))
    own, _ = _own_numbers(views, parts)
    similarity = mixed @ distributed.gather(views, parts).T / temperature  # (n, N)
    same, others = (similarity.gather(1, column.unsqueeze(1)).squeeze(1) for column in (own, own[other]))
    losses = similarity.logsumexp(dim=1) - same.lerp(others, share)
    return losses, same >= similarity.amax(dim=1)


def _own_numbers(views: Tensor, parts: Sequence[int] | None) -> tuple[Tensor, int]:
    """(n,) the numbers of this process's instances among those of all, and how many these are."""
    parts = parts or [len(views)]
    return torch.arange(len(views), device=views.device) + sum(parts[: distributed.rank()]), sum(parts)
