"""Weights as safetensors files, never pickle."""

from __future__ import annotations

from pathlib import Path

from safetensors.torch import save
from torch import Tensor

from ..files import write_atomically

Weights = dict[str, Tensor]


def write_weights(path: Path, weights: Weights, notes: dict[str, str] | None = None) -> None:
    """Write weights and notes to one file. Weights that share memory are written once for each name."""
    copies = {name: value.to("cpu", copy=True).contiguous() for name, value in weights.items()}
    write_atomically(path, lambda place: place.write_bytes(save(copies, notes)))
