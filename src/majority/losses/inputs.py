"""The checks of what a loss is given."""

from __future__ import annotations

import torch
from torch import Tensor

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
    tensors = {"logits": logits, "bag_ids": bag_ids, "labels": labels, "weights": weights, "runner_up": runner_up}
    given = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    _check_shapes(logits, given)
    if not torch.compiler.is_compiling() and (values or logits.device.type == "cpu"):
        _check_values(logits, bag_ids, labels, given)


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
    if labels.ndim == 2 and labels.shape[1] != logits.shape[1]:
        raise InputError(f"labels are {_describe(labels)}: give a mask with {logits.shape[1]} columns, one per class")
    if len(labels.shape) not in (1, 2) or len(labels) == 0 or (labels.ndim == 1 and not _is_whole(labels)):
        raise InputError(f"labels are {_describe(labels)}: give one class number per bag, or a mask (bags, classes)")
    if "runner_up" in given and given["runner_up"].shape != labels.shape[:1]:
        raise InputError(f"runner_up is {_describe(given['runner_up'])}: give one class per bag, ({len(labels)},)")


def _check_values(logits: Tensor, bag_ids: Tensor, labels: Tensor, given: dict[str, Tensor]) -> None:
    bags, classes = len(labels), logits.shape[1]
    _check_range("bag_ids", bag_ids, 0, bags, "a bag")
    empty = torch.ones(bags, dtype=torch.bool, device=labels.device).index_fill(0, bag_ids.long(), False)
    if empty.any():
        raise InputError(f"bag {int(empty.int().argmax())} of {bags} is empty: give at least one instance per label")
    if labels.ndim == 1:
        _check_range("labels", labels, -1, classes, "a class")
    if "runner_up" in given:
        runner_up = given["runner_up"]
        _check_range("runner_up", runner_up, -1, classes, "a class")
        if labels.ndim == 1 and ((runner_up >= 0) & ((runner_up == labels) | (labels < 0))).any():
            raise InputError("runner_up names the winner, or stands beside no label: name the second most common class")
    if logits.isnan().any():
        raise InputError(f"logits hold NaN in row {int(logits.isnan().any(dim=1).int().argmax())}: look at the network")
    if "weights" in given and not (given["weights"] > 0).all():
        raise InputError("weights hold a number that is not above 0: leave that instance out")


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
