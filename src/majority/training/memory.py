"""What a training step takes of the machine: memory, and threads of a CPU.

Linux kills a process that uses too much memory without a message, so that the memory of a step is estimated: from the
instances and the tensors that the network saves for them. A head that compares instances with each other needs more,
and a container may have less memory than the machine reports.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch
from torch.autograd.graph import saved_tensors_hooks

from ..data.bags import Bags
from ..nn.model import Model
from .settings import Settings

SMALL_STEP = 200_000_000  # multiply-adds: threads wait for each other longer than they would compute
BACKWARD_FACTOR = 1.2  # peak memory of a step by the tensors saved for its backward pass; 1.1 to 1.2 was measured
GIB = 2**30
MEMINFO = Path("/proc/meminfo")
CURE = (
    "use fewer bags per step (--batch-bags; for a stage with settings of its own, --set RECIPE.STAGE.batch_bags=N), a "
    "part of large bags (--max-instances), or smaller images (--image-size)"
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


def largest_step(train: Bags, settings: Settings) -> int:
    """The number of instances in the largest possible step."""
    return int(np.sort(settings.sizes_in_step(train.sizes))[-settings.batch_bags :].sum())


def memory_warning(model: Model, train: Bags, settings: Settings) -> str | None:
    """A warning if the largest step on a CPU needs more memory than is free, as far as the system reports it."""
    found = re.search(r"MemAvailable: +(\d+) kB", MEMINFO.read_text()) if MEMINFO.exists() else None
    if found is None:
        return None
    needed, free = step_bytes(model, train, settings), int(found[1]) * 1024
    if needed < free:
        return None
    memory = f"about {needed / GIB:,.1f} GiB of memory, and {free / GIB:,.1f} GiB are free"
    return f"a step of {largest_step(train, settings):,} instances needs {memory}, so the run may be killed: {CURE}"


def out_of_memory_message(train: Bags, settings: Settings, device: torch.device) -> str:
    """The message for a step that has failed because memory ran out."""
    where = "the GPU" if device.type == "cuda" else "this machine"
    steps = f"steps of {settings.batch_bags} bags, up to {largest_step(train, settings):,} instances"
    return f"{where} has too little memory for {steps} of shape {train.store.shape[1:]}: {CURE}"


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
