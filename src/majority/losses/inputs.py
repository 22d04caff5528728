"""The checks of what a loss is given."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..data.targets import Target
from ..errors import InputError


class Inputs(NamedTuple):
    """See `BagLoss`."""

    logits: Tensor
    bag_ids: Tensor
    labels: Tensor
    weights: Tensor | None = None
    runner_up: Tensor | None = None


def check_inputs(given: Inputs, values: bool = False) -> None:
    """Refuse wrong shapes and types; and wrong values on a CPU, or if `values` is set, as a GPU must be waited for.

    Values are not read while `torch.compile` traces: a compiled step cannot raise errors about them.
    """
    logits, _, labels, weights, runner_up = given
    tensors = {name: tensor for name, tensor in given._asdict().items() if tensor is not None}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InputError(f"{name} is of type {type(tensor).__name__}: give a tensor")
        if tensor.device != logits.device:
            raise InputError(f"{name} is on {tensor.device} and logits on {logits.device}: move them to one device")
    is_scores = logits.ndim == 2 and logits.is_floating_point() and 0 not in logits.shape
    _refuse_unless(is_scores, "logits", logits, "floating-point numbers of shape (instances, classes)")
    n, classes = logits.shape
    is_ids = _is_whole(given.bag_ids) and given.bag_ids.shape == (n,)
    _refuse_unless(is_ids, "bag_ids", given.bag_ids, f"whole numbers, one per instance, of shape ({n},)")
    is_mask = labels.ndim == 2 and not labels.is_floating_point() and labels.shape[1] == classes
    is_labels = len(labels) > 0 and (is_mask or (labels.ndim == 1 and _is_whole(labels)))
    _refuse_unless(is_labels, "labels", labels, f"a class number per bag, or a mask (bags, {classes})")
    if weights is not None:
        _refuse_unless(weights.shape == (n,), "weights", weights, f"one per instance, of shape ({n},)")
    if runner_up is not None:
        is_second = _is_whole(runner_up) and runner_up.shape == labels.shape[:1]
        _refuse_unless(is_second, "runner_up", runner_up, f"one class number per bag, of shape ({len(labels)},)")
    if may_read(logits, values):
        _check_values(given)


def may_read(tensor: Tensor, check: bool) -> bool:
    """Whether values are checked: reading those on a GPU takes a wait, and compiled code cannot read any."""
    return not torch.compiler.is_compiling() and (check or tensor.device.type == "cpu")


def names_class(labels: Tensor, runner_up: Tensor | None, number: int) -> bool:
    """Whether a label or a runner-up names this class."""
    named = (labels == number).any() if labels.ndim == 1 else labels[:, number].any()
    return bool(named if runner_up is None else named | (runner_up == number).any())


def _refuse_unless(right: bool, name: str, tensor: Tensor, needed: str) -> None:
    if not right:
        found = f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
        raise InputError(f"{name} is {found}: give {needed}")


def _is_whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _check_values(given: Inputs) -> None:
    logits, bag_ids, labels, weights, runner_up = given
    bags, classes = len(labels), logits.shape[1]
    _check_range("bag_ids", bag_ids, 0, bags)
    empty = torch.ones(bags, dtype=torch.bool, device=logits.device).index_fill(0, bag_ids.long(), False)
    if empty.any():
        raise InputError(f"bag {_first(empty)} of {bags} is empty: give at least one instance per label")
    if labels.ndim == 1:
        _check_range("labels", labels, -1, classes)
    if runner_up is not None:
        _check_range("runner_up", runner_up, -1, classes)
        target = Target.of(labels, classes)
        second = runner_up >= 0
        if (second & (target.allows(runner_up.clamp(min=0)) | (target.allowed.sum(dim=1) != 1))).any():
            raise InputError("runner_up names the winner, or its bag has not one label: name the second of one winner")
    if logits.isnan().any():
        raise InputError(f"logits hold NaN in row {_first(logits.isnan().any(dim=1))}: look at the network")
    if weights is not None and not ((weights > 0) & weights.isfinite()).all():
        raise InputError("weights hold a number that is not above 0 and finite: leave that instance out")


def _check_range(name: str, numbers: Tensor, low: int, end: int) -> None:
    outside = (numbers < low) | (numbers >= end)
    if outside.any():
        none = "-1 (none) or " if low < 0 else ""
        raise InputError(f"{name}[{_first(outside)}] is {int(numbers[outside][0])}: give {none}0 to {end - 1}")


def _first(rows: Tensor) -> int:  # (n,) -> the first True
    return int(rows.int().argmax())
