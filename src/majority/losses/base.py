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
        n, bags, name = len(logits), len(labels), type(self).__name__
        unable = {
            "a runner-up": runner_up is not None and RUNNER_UP not in self.label_kinds,
            "a mask of several classes": labels.ndim == 2 and SEVERAL not in self.label_kinds,
            "weights of instances": weights is not None and not self.uses_weights,
        }
        for what, is_given in unable.items():
            if is_given:
                raise InputError(f"{name} cannot learn from {what}: leave it out")
        is_scores = logits.ndim == 2 and logits.is_floating_point()
        refuse_unless(is_scores, "logits", logits, "floating-point numbers of shape (instances, classes)")
        is_ids = is_whole(bag_ids) and bag_ids.shape == (n,)
        refuse_unless(is_ids, "bag_ids", bag_ids, f"whole numbers, one per instance, of shape ({n},)")
        if weights is not None:
            refuse_unless(weights.shape == (n,), "weights", weights, f"one per instance, of shape ({n},)")
        target, may_read = self.read_labels(labels, runner_up, logits.shape[1]), self.may_read(logits)
        if may_read:
            check_range("bag_ids", bag_ids, 0, bags)
        segments = Segments.of_ids(bag_ids, bags, None if weights is None else at_least_float32(weights))
        if may_read and (segments.sizes == 0).any():
            raise InputError(f"bag {first_of(segments.sizes == 0)} of {bags} is empty: give an instance per label")
        if may_read and weights is not None and not ((weights > 0) & weights.isfinite()).all():
            raise InputError("weights hold a number that is not above 0 and finite: leave that instance out")
        known = target.known
        anything = target._replace(allowed=target.allowed | ~known.unsqueeze(1))  # keeps losses and gradients finite
        with in_float32(logits):
            losses = self.compute(self.predict(at_least_float32(logits), segments), segments, anything)
            losses = torch.where(known, losses, 0.0)
        if self.reduction == "none":
            return losses
        return losses.sum() if self.reduction == "sum" else losses.sum() / known.sum().clamp(min=1)

    def may_read(self, tensor: Tensor) -> bool:
        """Whether values are checked: reading those on a GPU takes a wait, and compiled code cannot read any."""
        return not torch.compiler.is_compiling() and (self.check or tensor.device.type == "cpu")

    def read_labels(self, labels: Tensor, runner_up: Tensor | None, classes: int) -> Target:
        """What the labels say, each of which must be possible."""
        is_mask = labels.ndim == 2 and not labels.is_floating_point() and labels.shape[1] == classes
        is_labels = len(labels) > 0 and (is_mask or (labels.ndim == 1 and is_whole(labels)))
        refuse_unless(is_labels, "labels", labels, f"a class number per bag, or a mask (bags, {classes})")
        target, may_read = Target.of(labels, classes, runner_up), self.may_read(labels)
        if may_read and not is_mask:
            check_range("labels", labels, -1, classes)
        if runner_up is not None:
            is_second = is_whole(runner_up) and runner_up.shape == labels.shape[:1]
            refuse_unless(is_second, "runner_up", runner_up, f"one class number per bag, of shape ({len(labels)},)")
            if may_read:
                check_range("runner_up", runner_up, -1, classes)
                wrong = target.allows(runner_up.clamp(min=0)) | (target.allowed.sum(dim=1) != 1)
                if ((runner_up >= 0) & wrong).any():
                    raise InputError("runner_up names the winner, or its bag has not one label: name one winner")
        return target

    def predict(self, logits: Tensor, segments: Segments) -> BagOutput:
        """(n, C) logits -> log-probabilities of instances and bags."""
        raise NotImplementedError

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:  # (b,)
        """One loss per bag, each of which has a label: the negative log-likelihood of the label."""
        return -winner_log_probs(output.bag_log_probs, target.allowed)


def refuse_unless(right: bool, name: str, tensor: Tensor, needed: str) -> None:
    if not right:
        found = f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
        raise InputError(f"{name} is {found}: give {needed}")


def check_range(name: str, numbers: Tensor, low: int, end: int) -> None:
    outside = (numbers < low) | (numbers >= end)
    if outside.any():
        none = "-1 (none) or " if low < 0 else ""
        raise InputError(f"{name}[{first_of(outside)}] is {int(numbers[outside][0])}: give {none}0 to {end - 1}")


def first_of(rows: Tensor) -> int:  # (n,) -> the first True
    return int(rows.int().argmax())


def is_whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def at_least_float32(values: Tensor) -> Tensor:
    return values.to(torch.promote_types(values.dtype, torch.float32))


def in_float32(tensor: Tensor) -> AbstractContextManager[object]:
    """Compute counts and losses in float32 even if the network uses another precision."""
    device = tensor.device.type
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else nullcontext()
