"""The checks of what a loss is given."""

from __future__ import annotations

import torch
from torch import Tensor

from ..data.targets import Target
from ..errors import InputError


def check_inputs(
    logits: Tensor,
    bag_ids: Tensor,
    labels: Tensor,
    weights: Tensor | None = None,
    runner_up: Tensor | None = None,
    values: bool = False,
) -> None:
    """Refuse wrong shapes and types; and wrong values on a CPU, or if `values` is set, as a GPU must be waited for.

    Values are not read while `torch.compile` traces: a compiled step cannot raise errors about them.
    """
    given = {"logits": logits, "bag_ids": bag_ids, "labels": labels, "weights": weights, "runner_up": runner_up}
    tensors = {name: tensor for name, tensor in given.items() if tensor is not None}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise InputError(f"{name} are of type {type(tensor).__name__}: give a tensor")
    _check_shapes(logits, tensors)
    if may_read(logits, values):
        _check_values(logits, bag_ids, Target.of(labels, logits.shape[1], runner_up), tensors)


def may_read(tensor: Tensor, check: bool) -> bool:
    """Whether values are checked: reading those on a GPU takes a wait, and compiled code cannot read any."""
    return not torch.compiler.is_compiling() and (check or tensor.device.type == "cpu")


def names_class(labels: Tensor, runner_up: Tensor | None, number: int) -> bool:
    """Whether a label or a runner-up names this class."""
    named = (labels == number).any() if labels.ndim == 1 else labels[:, number].any()
    return bool(named if runner_up is None else named | (runner_up == number).any())


def _check_shapes(logits: Tensor, given: dict[str, Tensor]) -> None:
    if logits.ndim != 2 or not logits.is_floating_point() or 0 in logits.shape:
        raise InputError(f"logits are {_describe(logits)}: give floating-point numbers of shape (instances, classes)")
    for name, tensor in given.items():
        if tensor.device != logits.device:
            raise InputError(f"{name} are on {tensor.device} and logits on {logits.device}: move them to one device")
        if name in ("bag_ids", "weights") and tensor.shape != logits.shape[:1]:
            raise InputError(f"{name} are {_describe(tensor)}: give one per instance, of shape ({len(logits)},)")
        if name in ("bag_ids", "runner_up") and not _is_whole(tensor):
            raise InputError(f"{name} are {_describe(tensor)}: give whole numbers")
    labels = given["labels"]
    is_mask = labels.ndim == 2 and not labels.is_floating_point()
    if is_mask and labels.shape[1] != logits.shape[1]:
        raise InputError(f"labels are {_describe(labels)}: give a mask with {logits.shape[1]} columns, one per class")
    if len(labels) == 0 or not (is_mask or (labels.ndim == 1 and _is_whole(labels))):
        raise InputError(f"labels are {_describe(labels)}: give a class number per bag, or a mask (bags, classes)")
    if "runner_up" in given and given["runner_up"].shape != labels.shape[:1]:
        raise InputError(f"runner_up is {_describe(given['runner_up'])}: give one class per bag, ({len(labels)},)")


def _check_values(logits: Tensor, bag_ids: Tensor, target: Target, given: dict[str, Tensor]) -> None:
    bags, classes = target.allowed.shape
    _check_range("bag_ids", bag_ids, 0, bags, "a bag")
    empty = torch.ones(bags, dtype=torch.bool, device=logits.device).index_fill(0, bag_ids.long(), False)
    if empty.any():
        raise InputError(f"bag {int(empty.int().argmax())} of {bags} is empty: give at least one instance per label")
    if given["labels"].ndim == 1:
        _check_range("labels", given["labels"], -1, classes, "a class")
    if target.runner_up is not None:
        _check_range("runner_up", given["runner_up"], -1, classes, "a class")
        wrong = (target.runner_up & target.allowed).any(dim=1) | (target.allowed.sum(dim=1) != 1)
        if (target.runner_up.any(dim=1) & wrong).any():
            raise InputError("runner_up names the winner, or its bag has not one label: name the second of one winner")
    if logits.isnan().any():
        raise InputError(f"logits hold NaN in row {int(logits.isnan().any(dim=1).int().argmax())}: look at the network")
    if "weights" in given and not ((given["weights"] > 0) & given["weights"].isfinite()).all():
        raise InputError("weights hold a number that is not above 0 and finite: leave that instance out")


def _check_range(name: str, numbers: Tensor, low: int, end: int, what: str) -> None:
    outside = (numbers < low) | (numbers >= end)
    if outside.any():
        place = int(outside.int().argmax())
        least = "0" if low == 0 else f"{low} (none), 0"
        raise InputError(f"{name}[{place}] is {int(numbers[place])}: {what} is {least} to {end - 1}")


def _is_whole(tensor: Tensor) -> bool:
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"
