"""One training in several processes: the process group and everything that goes over it.

`majority train` joins the group that torchrun starts; `fit` and `train` in Python use the group of their caller. Every
process has the same model and all bags, and takes its part of the bags of every step. The first process, of rank 0, has
the files. Without a group, or with a group of one process, every function here returns at once.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from types import MethodType
from typing import Any, TypeVar

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor, nn

from ..data.bags import Bags
from ..data.device import choose_device, is_out_of_memory
from ..errors import InputError, TrainingError
from ..nn.backbones.norm import BatchNorm1d, BatchNorm2d

PATIENCE = timedelta(days=1)  # of a process that waits for another: the first one may evaluate for hours
NORMS = (BatchNorm1d.forward, BatchNorm2d.forward, nn.BatchNorm1d.forward)  # others keep their own code
LOST = "another process of this training was ended or has failed: repeat the same command to continue"

Result = TypeVar("Result")


def size() -> int:
    """The number of processes."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    return dist.get_rank() if size() > 1 else 0


def is_first() -> bool:
    """Whether this process is the one that writes files and prints."""
    return rank() == 0


def local_rank() -> int:
    """The number of this process on its machine."""
    return int(os.environ.get("LOCAL_RANK", rank()))


@contextmanager
def join_torchrun(device: str) -> Iterator[None]:
    """Within the context, the processes that torchrun started are one group, each on its own GPU if there are enough.

    All processes have an error of the input, and the first one raises it. A process that was not started by torchrun
    does nothing.
    """
    if not (dist.is_available() and dist.is_torchelastic_launched()):
        yield
        return
    before = signal.signal(signal.SIGTERM, _stop)
    try:
        dist.init_process_group(_choose_backend(device))
        yield
        dist.destroy_process_group()
    except (InputError, OSError):
        if not is_first():
            raise SystemExit(2) from None
        raise
    finally:
        signal.signal(signal.SIGTERM, before)


def _stop(number: int, frame: object) -> None:
    """torchrun ends all processes if one has ended."""
    raise TrainingError(LOST)


def _choose_backend(device: str) -> str:
    """Make a GPU of this machine the current one. NCCL needs a GPU per process; gloo goes over the CPU."""
    if choose_device(device).type != "cuda":
        return "gloo"
    gpus = torch.cuda.device_count()
    if ":" not in device:
        torch.cuda.set_device(local_rank() % gpus)
    shared = ":" in device or int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > gpus
    return "gloo" if shared else "cpu:gloo,cuda:nccl"


@cache
def _control_group(default: Any) -> Any:
    """A group for tensors on a CPU and for other objects. It waits long, and notices at once if a process ends."""
    return dist.new_group(backend="gloo", timeout=PATIENCE)


@contextmanager
def _lost_connections() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        raise TrainingError(LOST) from error


# ---------------------------------------------------------------------- sums and rows of all processes


def total(values: Tensor) -> Tensor:
    """The sum over all processes; gradients go through it."""
    return values if size() == 1 else _Total.apply(values)  # type: ignore[no-untyped-call]  # torch does not annotate it


class _Total(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return _summed(values.clone(memory_format=torch.contiguous_format))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return _summed(gradient.clone(memory_format=torch.contiguous_format))


def gather(rows: Tensor, counts: Sequence[int] | None) -> Tensor:
    """(n, ...) -> (N, ...): the rows of all processes, by rank; gradients go through it. `counts` has the rows of each
    process."""
    if counts is None:
        return rows
    others = (counts[: rank()], counts[rank() + 1 :])
    before, after = (rows.new_zeros(sum(numbers), *rows.shape[1:]) for numbers in others)
    return total(torch.cat([before, rows, after]))


@torch.no_grad()
def add_up(tensors: Sequence[Tensor]) -> None:
    """Replace each tensor by its sum over all processes. All tensors of one dtype are sent together."""
    for dtype in dict.fromkeys(tensor.dtype for tensor in tensors):
        group = [tensor for tensor in tensors if tensor.dtype == dtype]
        flat = _summed(torch.cat([tensor.reshape(-1) for tensor in group]))
        for tensor, values in zip(group, flat.split([tensor.numel() for tensor in group]), strict=True):
            tensor.copy_(values.view_as(tensor))


def _summed(values: Tensor) -> Tensor:
    with _lost_connections():
        dist.all_reduce(values, group=None if values.is_cuda else _control_group(dist.group.WORLD))
    return values


# ---------------------------------------------------------------------- the same in every process


def gather_objects(value: Any) -> list[Any]:
    """The value of each process."""
    values = [None] * size()
    with _lost_connections():
        dist.all_gather_object(values, value, group=_control_group(dist.group.WORLD))
    return values


def from_first(function: Callable[[], Result]) -> Result:
    """Call the function in the first process alone. Every process gets its result, or its error."""
    if size() == 1:
        return function()
    outcome: list[Any] = [None, None]
    if is_first():
        try:
            outcome[0] = function()
        except InputError as error:
            outcome[1] = InputError(str(error))  # that of a file is made of other arguments, and cannot be sent
        except TrainingError as error:
            outcome[1] = error
        except Exception as error:  # of a type that another process may not know
            outcome[1] = TrainingError(f"the first process has failed: {error!r}")
    with _lost_connections():
        dist.broadcast_object_list(outcome, src=0, group=_control_group(dist.group.WORLD))
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def in_turn(function: Callable[[], Result]) -> Result:
    """Call the function in every process: on each machine first in one of them, so that what the function downloads or
    caches is there for the others. An error in one process is raised in all."""
    if size() == 1:
        return function()
    results: list[Result] = []
    for turn in (True, False):
        problem = None
        if (local_rank() == 0) == turn:
            try:
                results.append(function())
            except (InputError, TrainingError, OSError) as error:
                problem = str(error)
        if found := [one for one in gather_objects(problem) if one is not None]:
            raise InputError(found[0])
    return results[0]


def check_same(facts: dict[str, Any]) -> None:
    """Raise an InputError if the processes differ in one of these facts."""
    if size() == 1:
        return
    first, *others = gather_objects(facts)
    for number, other in enumerate(others, start=1):
        for name in sorted(first.keys() | other.keys()):  # all processes name the same one
            one, another = first.get(name), other.get(name)
            if one != another:
                raise InputError(
                    f"the processes of this training differ: {name} is {one} in process 0 and {another} in process "
                    f"{number}: start all of them with the same command, on the same files"
                )


# ---------------------------------------------------------------------- parts of the bags


def own_part(bags: Bags) -> Bags | None:
    """The bags that this process takes in a pass over all of them; None if there are too few."""
    if size() == 1:
        return bags
    numbers = np.array_split(np.arange(len(bags)), size())[rank()]
    return bags.subset(numbers) if len(numbers) else None


# ---------------------------------------------------------------------- batch norm


@contextmanager
def shared_norms(network: nn.Module) -> Iterator[None]:
    """Within the context, batch norms take mean and variance over the whole step. torch's own SyncBatchNorm runs on
    GPUs only."""
    norms: list[Any] = [module for module in network.modules() if type(module).forward in NORMS]
    for norm in norms:
        norm.forward = MethodType(_normalise, norm)  # of one object, for a while
    try:
        yield
    finally:
        for norm in norms:
            del norm.forward


def _normalise(norm: Any, x: Tensor) -> Tensor:
    """(n, channels, ...). One value per channel has no variance: it is normalised with the running statistics."""
    if not norm.training:
        return type(norm).forward(norm, x)
    over, shape = [dim for dim in range(x.ndim) if dim != 1], [1, -1, *[1] * (x.ndim - 2)]
    precise = x.to(torch.promote_types(x.dtype, torch.float32))
    own = precise.new_tensor([x.numel() / x.shape[1]])
    count, sums = total(torch.cat([own, precise.sum(over)])).tensor_split([1])
    mean = sums / count
    variance = total((precise - mean.view(shape)).square().sum(over)) / count
    several = count > 1
    used_mean, used_variance = mean, variance
    if norm.track_running_stats:
        used_mean = torch.where(several, mean, norm.running_mean)
        used_variance = torch.where(several, variance, norm.running_var)
        norm.num_batches_tracked.add_(several.squeeze())
        share = 1 / norm.num_batches_tracked if norm.momentum is None else norm.momentum
        unbiased = variance * count / (count - 1).clamp(min=1)
        with torch.no_grad():
            for running, new in ((norm.running_mean, mean), (norm.running_var, unbiased)):
                running.copy_(torch.where(several, torch.lerp(running, new.to(running.dtype), share), running))
    normalised = (precise - used_mean.view(shape)) * (used_variance + norm.eps).rsqrt().view(shape)
    if norm.affine:
        normalised = normalised * norm.weight.view(shape) + norm.bias.view(shape)
    return normalised.to(x.dtype)
