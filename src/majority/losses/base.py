"""BagLoss: what all losses share. The file of a loss holds its formula and nothing else."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ..data.labels import RUNNER_UP, SEVERAL, WINNER
from ..data.segments import Segments
from ..data.targets import Target
from ..errors import InputError
from .functional import winner_log_probs
from .inputs import Inputs, check_inputs

REDUCTIONS = ("mean", "sum", "none")


class BagOutput(NamedTuple):
    instance_log_probs: Tensor  # (n, C)
    bag_log_probs: Tensor  # (b, C)
    bag_scores: Tensor | None = None  # (b, C) unnormalised, for losses that need them


class LearnsFromBags(nn.Module):
    """What a loss or a head says about itself, and what it is told before training."""

    sees_instance_labels: ClassVar[bool] = False  # True only for the reference methods
    uses_weights: ClassVar[bool] = False  # True: the bag prediction is that of weighted instances (`segments.weigh`)
    label_kinds: ClassVar[tuple[str, ...]]  # what labels may name

    PREDICTS: ClassVar[tuple[str, ...]] = ("predict", "count", "aggregate")  # methods that make the prediction of a bag
    COMPARES: ClassVar[tuple[str, ...]] = ("compute", "losses")  # methods that compare it with the label

    def __init_subclass__(cls, **options: Any) -> None:
        """A formula that does not say otherwise follows no weights, and only knows labels that name the winner."""
        super().__init_subclass__(**options)
        own = cls.__dict__.keys()
        if own & {*cls.PREDICTS} and "uses_weights" not in own:
            cls.uses_weights = False
        if own & {*cls.COMPARES} and "label_kinds" not in own:
            cls.label_kinds = (WINNER,)

    def see_labels(self, counts: Tensor, seconds: Tensor) -> None:
        """(C,), (C,): how many training bags have each class as their label, and as their runner-up."""


class BagLoss(LearnsFromBags):
    """How well the logits of instances explain the labels of their bags: ``loss_fn(logits, bag_ids, labels)``.

    logits      (n, C), of any floating type; computed in float32 or wider
    bag_ids     (n,) the number of each instance's bag, from 0, in any order
    labels      (b,) class numbers, -1 where a bag has no label; or a mask (b, C) of the classes that may have won
    weights     (n,) above 0: how much each instance counts in its bag
    runner_up   (b,) the second most common class, -1 where it is not known

    ``reduction`` is "mean" (over the bags with a label), "sum" or "none" (0 for a bag without a label). Shapes and
    types are always checked; values, which take a wait for a GPU, are checked on a CPU or if ``check`` is set.

    A subclass defines `predict`, or `compute`, or both, and says what it can do with labels and weights.
    """

    label_kinds: ClassVar[tuple[str, ...]] = (WINNER, SEVERAL)

    def __init__(self, *, reduction: str = "mean", check: bool = False):
        super().__init__()
        if reduction not in REDUCTIONS:
            raise InputError(f"reduction={reduction!r}: use one of {', '.join(REDUCTIONS)}")
        self.reduction, self.check = reduction, check

    @classmethod
    def for_classes(cls, n_classes: int, **options: Any) -> BagLoss:
        """The loss of a network for so many classes; a loss with a state for each class needs their number."""
        return cls(**options)

    def forward(
        self,
        logits: Tensor,
        bag_ids: Tensor,
        labels: Tensor,
        *,
        weights: Tensor | None = None,
        runner_up: Tensor | None = None,
    ) -> Tensor:
        self._check(Inputs(logits, bag_ids, labels, weights, runner_up))
        segments = Segments.of_ids(bag_ids, len(labels), None if weights is None else at_least_float32(weights))
        with in_float32(logits):
            output = self.predict(at_least_float32(logits), segments)
            losses, known = self.label_losses(output, segments, labels, runner_up)
            losses = torch.where(known, losses, 0.0)
        if self.reduction == "none":
            return losses
        return losses.sum() if self.reduction == "sum" else losses.sum() / known.sum().clamp(min=1)

    def _check(self, given: Inputs) -> None:
        check_inputs(given, values=self.check)
        name = type(self).__name__
        if given.runner_up is not None and RUNNER_UP not in self.label_kinds:
            raise InputError(f"{name} cannot learn from a runner-up: leave it out")
        if given.labels.ndim == 2 and SEVERAL not in self.label_kinds:
            raise InputError(f"{name} cannot learn from a mask of several classes: give one class number per bag")
        if given.weights is not None and not self.uses_weights:
            raise InputError(f"{name} cannot follow the weights of instances: leave them out")

    def predict(self, logits: Tensor, segments: Segments) -> BagOutput:
        """(n, C) logits -> log-probabilities of instances and bags."""
        raise NotImplementedError

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:  # (b,)
        """One loss per bag, each of which has a label: the negative log-likelihood of the label."""
        return -winner_log_probs(output.bag_log_probs, target.allowed)

    def label_losses(
        self, output: BagOutput, segments: Segments, labels: Tensor, runner_up: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """(b,) one loss per bag, and (b,) whether it has a label."""
        target = Target.of(labels, output.bag_log_probs.shape[1], runner_up)
        known = target.known
        anything = target._replace(allowed=target.allowed | ~known.unsqueeze(1))  # keeps losses and gradients finite
        return self.compute(output, segments, anything), known


def at_least_float32(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def in_float32(tensor: Tensor) -> AbstractContextManager[object]:
    """Compute counts and losses in float32 even if the network uses another precision."""
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
