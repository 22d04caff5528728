"""What a training step takes of the machine: memory, and threads of a CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

from ..data.bags import Bags
from ..nn.model import Model
from .settings import Settings

SMALL_STEP = 200_000_000  # multiply-adds: threads wait for each other longer than they would compute


def largest_step(train: Bags, settings: Settings) -> int:
    """The number of instances in the largest possible step."""
    return int(np.sort(settings.sizes_in_step(train.sizes))[-settings.batch_bags :].sum())


def out_of_memory_message(train: Bags, settings: Settings, device: torch.device) -> str:
    """The message for a step that has failed because memory ran out."""
    return (
        f"{'the GPU' if device.type == 'cuda' else 'this machine'} has too little memory for steps of "
        f"{settings.batch_bags} bags, up to {largest_step(train, settings):,} instances of shape "
        f"{train.store.shape[1:]}: use fewer bags per step (--batch-bags; for a stage with settings of its own, --set "
        "RECIPE.STAGE.batch_bags=N), a part of large bags (--max-instances), or smaller images (--image-size)"
    )


@contextmanager
def enough_threads(model: Model, train: Bags, settings: Settings, device: torch.device) -> Iterator[None]:
    """Use one thread for small steps on vectors, and as many as torch has otherwise.

    Threads that share tiny operations spend their time waiting. On a machine that other programs keep busy, that
    multiplies the time of a training.
    """
    multiply_adds = largest_step(train, settings) * sum(weight.numel() for weight in model.parameters())
    if device.type != "cpu" or model.spec.images or multiply_adds >= SMALL_STEP:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
