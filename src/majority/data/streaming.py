"""Batches of bags whose store is not on the device: the next batch is read while the model works on this one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from .bags import Bags
from .batches import BagLoader, Batch, BatchInfo, Layout, ResidentLoader, as_tensor
from .device import as_supported
from .stores import RowsOnDisk

Job = TypeVar("Job")
Result = TypeVar("Result")


def make_loader(
    bags: Bags,
    device: torch.device,
    *,
    keep: np.ndarray | None = None,
    soft_labels: np.ndarray | None = None,
    share_store_with: BagLoader | None = None,
) -> BagLoader:
    """Return a loader for many epochs: resident on the device, or streamed to it if the store is on disk.

    A store that the bags have in common with the loader `share_store_with` is copied to the device only once.
    """
    if isinstance(bags.store, RowsOnDisk):
        return StreamedLoader(bags, device, keep=keep, soft_labels=soft_labels)
    return ResidentLoader(bags, device, keep=keep, soft_labels=soft_labels, share_store_with=share_store_with)


def stream_loader(bags: Bags, device: torch.device) -> BagLoader:
    """Return a loader for one pass: to a GPU it streams from memory too, so that only a batch takes memory there."""
    return StreamedLoader(bags, device) if device.type == "cuda" else make_loader(bags, device)


class StreamedBatch(Batch):
    """A batch that is read as it is used. If it takes several reads, its pieces can be taken only once."""

    def __init__(self, info: BatchInfo, reads: Iterator[Tensor], hold: bool):
        self.bags, self.segments, self.target, self.parts = info.bags, info.segments, info.target, info.parts
        self._reads, self._hold = reads, hold

    @cached_property
    def instances(self) -> Tensor:
        reads = list(self._reads)
        return reads[0] if len(reads) == 1 else torch.cat(reads)

    def pieces(self, max_instances: int) -> Iterator[Tensor]:
        reads = [self.instances] if self._hold else self._reads
        return (piece for read in reads for piece in torch.split(read, max_instances))


class StreamedLoader(BagLoader):
    """Bags whose instances are read batch by batch, from disk or from memory.

    Memory holds the current batch and the next one: whole batches in training (`batch_bags` and `max_instances` limit
    them), and otherwise pieces of the `max_instances` given to `in_order`.
    """

    def __init__(
        self,
        bags: Bags,
        device: torch.device,
        *,
        keep: np.ndarray | None = None,
        soft_labels: np.ndarray | None = None,
    ):
        super().__init__(bags, device, keep=keep, soft_labels=soft_labels)
        self.rows = bags.store
        self.in_memory = as_tensor(self.rows) if isinstance(self.rows, np.ndarray) else None

    def _make_batches(self, layout: Layout, piece: int | None = None) -> Iterator[StreamedBatch]:
        infos = list(self._describe_batches(layout))
        pieces = [list(_split_rows(info.rows, piece)) for info in infos]
        reads = prefetch(self._read, (self.bags.index[layout.positions[rows]] for parts in pieces for rows in parts))
        for info, parts in zip(infos, pieces, strict=True):
            reads_of_batch = map(self._copy_to_device, islice(reads, len(parts)))
            yield StreamedBatch(info, reads_of_batch, hold=len(parts) == 1)
            for _ in reads_of_batch:  # skip what was not used: the next batch comes after it
                pass

    def _read(self, index: np.ndarray) -> Tensor:
        if self.device.type != "cuda":
            return torch.from_numpy(self.rows[index])
        if self.in_memory is None:
            return torch.from_numpy(self.rows[index]).pin_memory()
        rows = torch.empty((len(index), *self.in_memory.shape[1:]), dtype=self.in_memory.dtype, pin_memory=True)
        return torch.index_select(self.in_memory, 0, torch.from_numpy(index), out=rows)

    def _copy_to_device(self, rows: Tensor) -> Tensor:
        return as_supported(rows, self.device).to(self.device, non_blocking=self.device.type == "cuda")


def prefetch(function: Callable[[Job], Result], jobs: Iterable[Job]) -> Iterator[Result]:
    """Yield function(job) for each job in turn. The next one is computed in a thread while this one is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="majority-read") as background:
        waiting: Future[Result] | None = None
        for job in jobs:
            following = background.submit(function, job)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def _split_rows(rows: slice, piece: int | None) -> Iterator[slice]:
    step = piece or rows.stop - rows.start
    return (slice(start, min(start + step, rows.stop)) for start in range(rows.start, rows.stop, step))
