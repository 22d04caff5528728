"""How many threads a training on a CPU uses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..data.bags import Bags
from ..model import Model
from .memory import largest_step
from .settings import Settings

SMALL_STEP = 200_000_000  # multiply-adds: threads wait for each other longer than they would compute


@contextmanager
def enough_threads(model: Model, train: Bags, settings: Settings, device: torch.device) -> Iterator[None]:
    """Use one thread for small steps on vectors, and as many as torch has otherwise.

    Threads that share tiny operations spend their time waiting. On a machine that other programs keep busy, that
    multiplies the time of a training.
    """
    threads = torch.get_num_threads()
    if device.type == "cpu" and not model.spec.images and multiply_adds(model, train, settings) < SMALL_STEP:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def multiply_adds(model: Model, train: Bags, settings: Settings) -> int:
    """Of one forward pass of the largest step, for a network that uses each weight once per instance."""
    return largest_step(train, settings) * sum(weight.numel() for weight in model.parameters())
