"""Weights as safetensors files, never pickle. What is read back is checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from ..errors import InputError
from ..files import check_regular, write_atomically

Weights = dict[str, Tensor]


def write_weights(path: Path, weights: Weights, notes: dict[str, str] | None = None) -> None:
    """Write weights and notes to one file. Weights that share memory are written once for each name."""
    copies = {name: value.to("cpu", copy=True).contiguous() for name, value in weights.items()}
    write_atomically(path, lambda place: place.write_bytes(save(copies, notes)))


def read_weights(path: Path, cure: str, device: str = "cpu") -> tuple[Weights, dict[str, str]]:
    """The weights and notes of a file. They take no more memory than the file: safetensors checks its header."""
    check_regular(path)
    try:
        with safe_open(path, "pt", device=device) as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, AttributeError, KeyError, TypeError) as error:  # of its header
        raise InputError(f"{path} is not a safetensors file or is damaged ({error}): {cure}") from None


def check_weights(weights: Weights, expected: Mapping[str, Tensor], path: Path, cure: str) -> None:
    """Refuse weights that lack a name, or that have another name, shape or kind of number, or NaN or infinity."""
    for name in [*expected, *weights]:
        if name not in weights or name not in expected:
            what = "has no" if name not in weights else "also has"
            raise InputError(f"{path} does not fit: it {what} {name!r}: {cure}")
    for name, value in weights.items():
        wanted = expected[name]
        same_kind = value.dtype == wanted.dtype or (value.is_floating_point() and wanted.is_floating_point())
        if value.shape != wanted.shape or not same_kind:
            found = f"{tuple(value.shape)} of {value.dtype}, not {tuple(wanted.shape)} of {wanted.dtype}"
            raise InputError(f"{path} does not fit: {name} is {found}: {cure}")
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise InputError(f"{path} is damaged ({name} has NaN or infinity): {cure}")
