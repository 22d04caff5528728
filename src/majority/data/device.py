"""The device that computes, and how many instances go through a network on it at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from ..errors import InputError

BATCH_INSTANCES = 8_192  # instances that go through the network together,
BATCH_PIXELS = BATCH_INSTANCES * 32 * 32  # and of larger images as many as have so many pixels,
CPU_PIXELS = 1024 * 32 * 32  # on a CPU so many: more are slower there, and take gigabytes


def choose_device(name: str = "auto") -> torch.device:
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device {name!r}: take auto, cpu or cuda")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: torch sees no GPU here; take --device cpu or auto")
    return torch.device("cuda" if name != "cpu" and torch.cuda.is_available() else "cpu")


def instances_per_pass(shape: Sequence[int], on_gpu: bool = True) -> int:
    """How many instances of this shape go through the network together.

    >>> at_once((512,)), at_once((28, 28, 3)), at_once((256, 256, 3))
    (8192, 8192, 128)
    """
    pixels = math.prod(shape[:2]) if len(shape) == 3 else 1
    return max(1, min(BATCH_INSTANCES, (BATCH_PIXELS if on_gpu else CPU_PIXELS) // pixels))


def is_out_of_memory(error: RuntimeError) -> bool:
    """A GPU has an error of its own for it, a CPU has not."""
    return isinstance(error, torch.OutOfMemoryError) or "not enough memory" in str(error)
