"""Whether a step of training fits into memory: Linux kills what takes too much of it, without a word.

Counted are the instances and what the network keeps of each. A head that compares instances with each other takes more,
and a container may have less than the machine tells.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

from ..data.bags import Bags
from ..model import Model
from .settings import Settings

BACKWARD_FACTOR = 1.2  # times what is kept for the backward pass, as that pass takes some; 1.1 to 1.2 were measured
GIB = 2**30
CURE = (
    "take fewer bags a step (--batch-bags, or --set census.start.batch_bags=N in that stage), a part of large bags "
    "(--max-instances), or smaller images (--image-size)"
)


def memory_warning(model: Model, train: Bags, settings: Settings) -> str | None:
    """What to say where the largest step on a CPU takes more memory than is free."""
    needed, free = step_bytes(model, train, settings), free_bytes()
    if free is None or needed < free:
        return None
    most = largest_step(train, settings)
    gib = f"about {needed / GIB:,.1f} GiB of memory, and {free / GIB:,.1f} GiB are free"
    return f"a step of {most:,} instances takes {gib}, so that the run may be killed: {CURE}"


def out_of_memory_message(train: Bags, settings: Settings, device: torch.device) -> str:
    """What to say where a step has failed for want of memory."""
    where = "the GPU" if device.type == "cuda" else "this machine"
    steps = f"steps of {settings.batch_bags} bags, up to {largest_step(train, settings):,} instances"
    return f"{where} has too little memory for {steps} of shape {train.store.shape[1:]}: {CURE}"


def largest_step(train: Bags, settings: Settings) -> int:
    """Of how many instances it may be."""
    sizes = np.minimum(train.sizes, settings.max_instances or train.sizes.max())
    return int(np.sort(sizes)[-settings.batch_bags :].sum())


def step_bytes(model: Model, train: Bags, settings: Settings) -> float:
    """Of the largest step, about: for every instance its own, and what each of a few more takes."""
    few, more = (_kept(model, train, number) for number in (2, 6))
    own = train.store.dtype.itemsize * np.prod(train.store.shape[1:])
    return (own + BACKWARD_FACTOR * (more - few) / 4) * largest_step(train, settings)


def _kept(model: Model, train: Bags, number: int) -> int:
    """Bytes that the network keeps for the backward pass of so many instances."""
    kept = {}

    def note(tensor: torch.Tensor) -> torch.Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    model = copy.deepcopy(model).train()
    instances = torch.from_numpy(train.store[np.resize(train.index, number)])
    with torch.random.fork_rng(devices=[]), saved_tensors_hooks(note, lambda tensor: tensor):
        features = note(model.features(instances))  # which the head keeps; held, so that no place is used again
    del features
    return sum(kept.values())


def free_bytes() -> int | None:
    """None where the system does not tell."""
    try:
        told = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return told and int(told[1]) * 1024
