"""How many threads a training on a CPU uses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from ..data.bags import Bags
from ..nn.model import Model
from .memory import largest_step
from .settings import Settings

_lock, _users, _threads_before = threading.Lock(), 0, 1  # trainings that use one thread now

SMALL_STEP = 200_000_000  # multiply-adds: threads wait for each other longer than they would compute


@contextmanager
def enough_threads(model: Model, train: Bags, settings: Settings, device: torch.device) -> Iterator[None]:
    """Use one thread for small steps on vectors, and as many as torch has otherwise.

    Threads that share tiny operations spend their time waiting. On a machine that other programs keep busy, that
    multiplies the time of a training.
    """
    if device.type != "cpu" or model.spec.images or multiply_adds(model, train, settings) >= SMALL_STEP:
        yield
        return
    _change_users(+1)
    try:
        yield
    finally:
        _change_users(-1)


def _change_users(change: int) -> None:
    """torch has one number of threads per process, so that it is restored when the last of several trainings ends."""
    global _users, _threads_before
    with _lock:
        if _users == 0:
            _threads_before = torch.get_num_threads()
        _users += change
        torch.set_num_threads(1 if _users else _threads_before)


def multiply_adds(model: Model, train: Bags, settings: Settings) -> int:
    """Of one forward pass of the largest step, for a network that uses each weight once per instance."""
    return largest_step(train, settings) * sum(weight.numel() for weight in model.parameters())
