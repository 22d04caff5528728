"""The device that computes, and what differs between devices.

"auto" takes a CUDA GPU if there is one and the CPU otherwise. MPS, Apple's GPU, is used only on request: no result or
time was ever measured on it. There, everything runs eagerly and in float32: MPS has no float64, no pinned memory and no
graphs to capture.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError

BATCH_INSTANCES = 8_192  # the most instances that go through the network together,
BATCH_PIXELS = BATCH_INSTANCES * 32 * 32  # and the most pixels of larger images;
CPU_PIXELS = 1024 * 32 * 32  # on a CPU: more are slower there and take gigabytes
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of glibc's malloc.h
KEPT_BLOCK, KEPT_BYTES = 32 * 2**20, 2**30  # the largest block that glibc keeps; unused memory at the end of the heap


def choose_device(name: str = "auto") -> torch.device:
    """Return the device of this name: auto, cpu, cuda, cuda:N or mps.

    >>> choose_device("cpu")
    device(type='cpu')
    """
    name = str(name)
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if not re.fullmatch(r"cpu|mps|cuda(:[0-9]{1,3})?", name):
        raise InputError(f"device {name!r} is unknown: use auto, cpu, cuda, cuda:N or mps")
    device, on_cuda = torch.device(name), torch.cuda.device_count() if torch.cuda.is_available() else 0
    found = {"cpu": 1, "mps": int(torch.backends.mps.is_available()), "cuda": on_cuda}[device.type]
    if (device.index or 0) >= found:
        raise InputError(f"device {name}: torch finds {found} {device.type} devices on this machine: use cpu or auto")
    return device


def keep_freed_memory() -> None:
    """Keep the memory that a step frees for the next one, in this process, where the C library is glibc.

    Otherwise every block above 128 KiB (the activations of images on a CPU) is returned to the system and cleared again
    in each step. A user's own settings of the allocator are left alone.
    """
    if sys.platform == "linux" and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # other C libraries have none
            mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK)
            mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)


def make_current(device: torch.device) -> AbstractContextManager[object]:
    """Make a GPU the current one: random seeds, streams and captured graphs belong to the current GPU."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def seed_generators(device: torch.device, seed: int) -> None:
    """Seed the generators of the CPU and of this device; torch.manual_seed would seed all GPUs."""
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        default_generator(device).manual_seed(seed)


def default_generator(device: torch.device) -> torch.Generator:
    if device.type == "cuda":
        current = torch.cuda.current_device()  # creates the generators, too
        return torch.cuda.default_generators[current if device.index is None else device.index]
    if device.type == "mps":
        return torch.mps._get_default_mps_generator()  # torch has no public name for it
    return torch.default_generator


def as_supported(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor of a dtype that the device has."""
    return tensor.float() if device.type == "mps" and tensor.dtype == torch.float64 else tensor  # MPS has no float64


def to_device(values: np.ndarray, device: torch.device) -> Tensor:
    """Copy a small array to the device. With a CUDA GPU the host does not wait for the copy."""
    tensor = as_supported(torch.from_numpy(values), device)
    if device.type == "cuda":
        return tensor.pin_memory().to(device, non_blocking=True)
    return tensor.to(device)


def instances_per_pass(shape: Sequence[int], on_gpu: bool = True) -> int:
    """Return how many instances of this shape go through the network together.

    >>> instances_per_pass((512,)), instances_per_pass((28, 28, 3)), instances_per_pass((256, 256, 3))
    (8192, 8192, 128)
    """
    pixels = math.prod(shape[:2]) if len(shape) == 3 else 1
    return max(1, min(BATCH_INSTANCES, (BATCH_PIXELS if on_gpu else CPU_PIXELS) // pixels))


def is_out_of_memory(error: RuntimeError) -> bool:
    """CUDA has its own error for it; the CPU and MPS only say so in the message."""
    messages = "not enough memory", "MPS backend out of memory"
    return isinstance(error, torch.OutOfMemoryError) or any(message in str(error) for message in messages)
