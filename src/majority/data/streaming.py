"""Batches of bags whose store is not on the device: the next one is read while the model works on this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from .bags import Bags
from .batches import BagLoader, ResidentLoader, Target, as_tensor
from .segments import Segments
from .stores import RowsOnDisk


def make_loader(
    bags: Bags, device: torch.device, *of_positions: np.ndarray | None, beside: BagLoader | None = None
) -> BagLoader:
    """Bags ready for batches: resident on the device, or streamed to it where their store is on disk.

    A store that they share with those `beside` them is there once.
    """
    if isinstance(bags.store, RowsOnDisk):
        return StreamedLoader(bags, device, *of_positions)
    return ResidentLoader(bags, device, *of_positions, beside=beside)


def stream_loader(bags: Bags, device: torch.device) -> BagLoader:
    """Bags for one pass: streamed to a GPU also from memory, so that the batch bounds what is held there."""
    return StreamedLoader(bags, device) if device.type == "cuda" else make_loader(bags, device)


class StreamedBatch:
    """A `Batch` that is read as it is used. One of several reads is not held: its pieces can be taken once."""

    def __init__(self, bags: np.ndarray, segments: Segments, target: Target, reads: Iterator[Tensor], hold: bool):
        self.bags, self.segments, self.target, self._reads, self._hold = bags, segments, target, reads, hold

    @cached_property
    def instances(self) -> Tensor:  # (n, ...) as stored
        reads = list(self._reads)
        return reads[0] if len(reads) == 1 else torch.cat(reads)

    def pieces(self, instances: int) -> Iterator[Tensor]:
        """The same, at most so many at a time."""
        return (piece for read in ([self.instances] if self._hold else self._reads) for piece in read.split(instances))


class StreamedLoader(BagLoader):
    """Bags whose instances are read batch by batch, from disk or from memory.

    In memory are the batch in use and the next one, whole when training (`batch_bags` and `max_instances` bound
    it), and in pieces of the `instances` that `in_order` was asked for otherwise.
    """

    def __init__(self, bags: Bags, device: torch.device, *of_positions: np.ndarray | None):
        super().__init__(bags, device, *of_positions)
        self.rows = bags.store
        self.held = as_tensor(self.rows) if isinstance(self.rows, np.ndarray) else None  # in memory

    def _cut(self, which, positions, sizes, bounds, piece=None) -> Iterator[StreamedBatch]:
        batches = list(self._described(which, positions, sizes, bounds))
        cuts = [list(_pieces(rows, piece)) for rows, *_ in batches]
        reads = prefetch(self._read, (self.bags.index[positions[part]] for parts in cuts for part in parts))
        for (_, *about), parts in zip(batches, cuts, strict=True):
            own = (rows.to(self.device, non_blocking=True) for rows in islice(reads, len(parts)))
            yield StreamedBatch(*about, own, hold=len(parts) == 1)
            for _ in own:  # what was not used makes way for the next batch
                pass

    def _read(self, index: np.ndarray) -> Tensor:
        if self.device.type != "cuda":
            return torch.from_numpy(self.rows[index])
        if self.held is None:
            return torch.from_numpy(self.rows[index]).pin_memory()
        rows = torch.empty((len(index), *self.held.shape[1:]), dtype=self.held.dtype, pin_memory=True)
        return torch.index_select(self.held, 0, torch.from_numpy(index), out=rows)


def prefetch(function: Callable, jobs: Iterable) -> Iterator:
    """function(job) of each job in turn, worked out in the background while the one before is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="majority-read") as background:
        waiting = None
        for job in jobs:
            following = background.submit(function, job)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def _pieces(rows: slice, piece: int | None) -> Iterator[slice]:
    step = piece or rows.stop - rows.start
    return (slice(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step))
