"""Whether a training step fits into memory. Linux kills a process that uses too much memory without a message.

The estimate counts the instances of a step and the tensors that the network saves for them. A head that compares
instances with each other needs more, and a container may have less memory than the machine reports.
"""

from __future__ import annotations

import copy
import re
from pathlib import Path

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

from ..data.bags import Bags
from ..nn.model import Model
from .settings import Settings

BACKWARD_FACTOR = 1.2  # peak memory of a step by the tensors saved for its backward pass; 1.1 to 1.2 was measured
GIB = 2**30
CURE = (
    "use fewer bags per step (--batch-bags; for a stage with settings of its own, --set RECIPE.STAGE.batch_bags=N), a "
    "part of large bags (--max-instances), or smaller images (--image-size)"
)


def memory_warning(model: Model, train: Bags, settings: Settings) -> str | None:
    """A warning if the largest step on a CPU needs more memory than is free."""
    needed, free = step_bytes(model, train, settings), free_bytes()
    if free is None or needed < free:
        return None
    instances = largest_step(train, settings)
    memory = f"about {needed / GIB:,.1f} GiB of memory, and {free / GIB:,.1f} GiB are free"
    return f"a step of {instances:,} instances needs {memory}, so the run may be killed: {CURE}"


def out_of_memory_message(train: Bags, settings: Settings, device: torch.device) -> str:
    """The message for a step that has failed because memory ran out."""
    where = "the GPU" if device.type == "cuda" else "this machine"
    steps = f"steps of {settings.batch_bags} bags, up to {largest_step(train, settings):,} instances"
    return f"{where} has too little memory for {steps} of shape {train.store.shape[1:]}: {CURE}"


def largest_step(train: Bags, settings: Settings) -> int:
    """The number of instances in the largest possible step."""
    return int(np.sort(settings.sizes_in_step(train.sizes))[-settings.batch_bags :].sum())


def step_bytes(model: Model, train: Bags, settings: Settings) -> float:
    """An estimate of the memory that the largest step needs.

    The difference between a step of 6 instances and one of 2 shows what each instance adds.
    """
    model = copy.deepcopy(model).train()
    saved_per_instance = (_saved_bytes(model, train, 6) - _saved_bytes(model, train, 2)) / 4
    instance = train.store.dtype.itemsize * np.prod(train.store.shape[1:])
    return float((instance + BACKWARD_FACTOR * saved_per_instance) * largest_step(train, settings))


def _saved_bytes(model: Model, train: Bags, number: int) -> int:
    """Bytes that the network saves for the backward pass of so many instances."""
    saved: dict[int, int] = {}  # by address

    def record(tensor: torch.Tensor) -> torch.Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor.detach()  # an output that its own operation saves would never be freed

    instances = torch.from_numpy(train.store[np.resize(train.index, number)])
    with torch.random.fork_rng(devices=[]), saved_tensors_hooks(record, lambda tensor: tensor):
        features = model.features(instances)  # held until all is recorded, so that no address is used twice
        record(features)  # the head saves them
    return sum(saved.values())


def free_bytes() -> int | None:
    """Free memory of the machine; None if the system does not report it."""
    try:
        found = re.search(r"MemAvailable: +(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(found[1]) * 1024 if found else None
