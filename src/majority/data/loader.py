"""Batches of bags on a device.

A store in memory is copied to the device once, and batches are gathered there by index. A store on disk is read batch
by batch: the next batch while the model works on this one.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice, pairwise

import numpy as np
import torch
from torch import Tensor

from .bags import Bags
from .columns import take
from .device import as_supported, to_device
from .instance_labels import UNKNOWN
from .segments import Segments
from .targets import Target

SMALLEST_WEIGHT = 1e-12  # of an instance, relative to the mean of its bag: smaller ones are no float32


@dataclass(eq=False)
class Batch:
    """Some bags. Their instances are rows of a store on the device, or are read as they are used."""

    bags: np.ndarray  # (b,) their numbers
    segments: Segments
    target: Target
    parts: tuple[int, ...] | None = None  # of a step of several processes: how many of its bags each has
    store: Tensor | None = None  # (N, ...) on the device; None: `reads` has the instances
    index: Tensor | None = None  # (n,) positions in the store
    reads: Iterable[Tensor] = ()  # if there are several, they can be taken once

    @property
    def instances(self) -> Tensor:  # (n, ...) as stored
        if self.store is not None:
            return self.store[self.index]
        reads = list(self.reads)
        return reads[0] if len(reads) == 1 else torch.cat(reads)

    def pieces(self, max_instances: int) -> Iterator[Tensor]:
        """Yield the instances, at most `max_instances` at a time."""
        if self.store is not None and self.index is not None:
            return (self.store[index] for index in torch.split(self.index, max_instances))
        return (piece for read in self.reads for piece in torch.split(read, max_instances))


@dataclass(frozen=True, eq=False)
class Layout:
    """Which bags and instances each batch of a pass has."""

    numbers: np.ndarray  # (b,) of the bags
    positions: np.ndarray  # (n,) of their instances in the bags' index
    sizes: np.ndarray  # (b,) instances of each bag
    keep: np.ndarray | None  # (n,) which of the instances are aggregated; None: all
    bounds: Sequence[int]  # where, among these bags, one batch ends and the next begins
    parts: Sequence[tuple[int, ...]] = ()  # of each batch: those of `Batch`

    @property
    def starts(self) -> np.ndarray:  # where, among these instances, each batch starts, and the end
        return np.concatenate([[0], np.cumsum(self.sizes)])[self.bounds]


class BagLoader:
    """Makes batches of bags.

    `keep` and `soft_labels` have one entry per position of the bags' index: whether the instance is aggregated (None:
    all are), and the probabilities of its class. A store that the bags have in common with the loader
    `share_store_with` is copied to the device only once. With `stream`, a store in memory is not copied as a whole.
    """

    def __init__(
        self,
        bags: Bags,
        device: torch.device,
        *,
        keep: np.ndarray | None = None,  # (n,) boolean
        soft_labels: np.ndarray | None = None,  # (n, C)
        share_store_with: BagLoader | None = None,
        stream: bool = False,
    ):
        self.bags, self.device, self.keep, self.soft_labels = bags, device, keep, soft_labels
        self.training_weights, self.weights = _training_weights(bags), _relative_weights(bags)
        self.store: Tensor | None = None  # on the device; None: instances are read batch by batch
        if share_store_with is not None and share_store_with.bags.store is bags.store:
            self.store = share_store_with.store
        elif isinstance(bags.store, np.ndarray) and not stream:
            self.store = as_supported(as_tensor(bags.store), device).to(device)

    def shuffled(
        self,
        batch_bags: int,
        rng: np.random.Generator,
        max_instances: int | None = None,
        bags: int | None = None,
        fill: bool = False,
        part: int = 0,
        n_parts: int = 1,
    ) -> Iterable[Batch]:
        """One epoch: every bag once, or `bags` of them, in random order. Batches have about equally many instances.

        Of a bag larger than `max_instances`, a random part is taken. With `fill`, random instances that are not
        aggregated are added to each batch, so that few numbers of instances occur: see `filled_size`.

        If there are several parts, each batch is that part of the whole one: all parts together are what one part would
        be. A batch has at least one bag per part.
        """
        order = rng.permutation(len(self.bags))[:bags]
        order = _balanced(order, np.minimum(self.bags.sizes, max_instances or self.bags.sizes.max()), batch_bags, rng)
        positions, sizes = self.bags.positions(order), self.bags.sizes[order]
        if max_instances is not None and sizes.max() > max_instances:
            positions, sizes = _random_parts(positions, sizes, max_instances, rng, take(self.keep, positions))
        bounds = [*range(0, len(order), batch_bags), len(order)]
        layout = Layout(order, positions, sizes, take(self.keep, positions), bounds)
        if n_parts > 1:
            layout = _part_of(layout, part, n_parts)
        return self._make_batches(self._filled(layout, int(batch_bags * sizes.mean()), rng) if fill else layout)

    def in_order(self, max_instances: int, fill: bool = False) -> Iterable[Batch]:
        """All bags in order. A batch has as many whole bags as fit into `max_instances`, and at least one.

        `fill` is that of `shuffled`.
        """
        offsets, bounds = self.bags.offsets, [0]
        while bounds[-1] < len(self.bags):
            end = np.searchsorted(offsets, offsets[bounds[-1]] + max_instances, side="right") - 1
            bounds.append(max(int(end), bounds[-1] + 1))
        numbers, positions = np.arange(len(self.bags)), np.arange(len(self.bags.index))
        layout = Layout(numbers, positions, self.bags.sizes, self.keep, bounds)
        if fill:
            layout = self._filled(layout, max_instances, np.random.default_rng(0))
        return self._make_batches(layout, max_instances)

    def _filled(self, layout: Layout, typical: int, rng: np.random.Generator) -> Layout:
        """Fill each batch up to `filled_size` with random instances. They are appended to its last bag and not kept."""
        extra = np.array([filled_size(size, typical) - size for size in np.diff(layout.starts).tolist()])
        where = np.repeat(layout.starts[1:], extra)
        drawn = rng.integers(0, len(self.bags.index), len(where))
        keep = np.ones(len(layout.positions), dtype=bool) if layout.keep is None else layout.keep
        sizes = layout.sizes.copy()
        sizes[np.array(layout.bounds[1:]) - 1] += extra
        positions, keep = np.insert(layout.positions, where, drawn), np.insert(keep, where, False)
        return replace(layout, positions=positions, sizes=sizes, keep=keep)

    def _make_batches(self, layout: Layout, piece: int | None = None) -> Iterable[Batch]:
        """`piece` is the number of instances that are read at a time; None: a whole batch."""
        batches = self._without_instances(layout)
        if self.store is None:
            return self._stream(batches, layout, piece)
        index = to_device(self.bags.index[layout.positions], self.device)
        parts = index.split(np.diff(layout.starts).tolist())
        return [replace(batch, store=self.store, index=part) for batch, part in zip(batches, parts, strict=True)]

    def _without_instances(self, layout: Layout) -> list[Batch]:
        """The segments and targets of each batch are views of what is copied to the device once."""
        bags, numbers, positions = self.bags, layout.numbers, layout.positions
        n_bags, n_instances = np.diff(layout.bounds).tolist(), np.diff(layout.starts).tolist()

        def per_batch(values: np.ndarray | None, counts: list[int]) -> Sequence[Tensor | None]:
            return [None] * len(counts) if values is None else to_device(values, self.device).split(counts)

        of_bags = (bags.bag_labels.allowed, bags.bag_labels.runner_up)
        of_instances = (bags.instance_labels, self.soft_labels, bags.training_labels, self.training_weights)
        columns = [per_batch(take(values, numbers), n_bags) for values in of_bags]
        columns += [per_batch(take(values, positions), n_instances) for values in of_instances]
        device_sizes = to_device(layout.sizes, self.device).split(n_bags)
        keep, weights = per_batch(layout.keep, n_instances), per_batch(take(self.weights, positions), n_instances)
        batches = []
        for i, (a, b) in enumerate(pairwise(layout.bounds)):
            segments = Segments(layout.sizes[a:b], device_sizes[i], keep[i], weights[i])
            target = Target._make([*(column[i] for column in columns), None])
            batches.append(Batch(numbers[a:b], segments, target, layout.parts[i] if layout.parts else None))
        return batches

    def _stream(self, batches: list[Batch], layout: Layout, piece: int | None) -> Iterator[Batch]:
        """Memory holds the instances of this batch and of the next one, or `piece` of each."""
        index = [
            [rows[start : start + piece] for start in range(0, len(rows), piece)] if piece else [rows]
            for rows in np.split(self.bags.index[layout.positions], layout.starts[1:-1])
        ]
        all_reads = prefetch(self._read, (rows for of_batch in index for rows in of_batch))
        for batch, of_batch in zip(batches, index, strict=True):
            reads = map(self._copy_to_device, islice(all_reads, len(of_batch)))
            yield replace(batch, reads=list(reads) if len(of_batch) == 1 else reads)
            for _ in reads:  # skip what was not used: the next batch comes after it
                pass

    def _read(self, index: np.ndarray) -> Tensor:
        rows = torch.from_numpy(self.bags.store[index])
        return rows.pin_memory() if self.device.type == "cuda" else rows

    def _copy_to_device(self, rows: Tensor) -> Tensor:
        return as_supported(rows, self.device).to(self.device, non_blocking=self.device.type == "cuda")


def prefetch(read: Callable[[np.ndarray], Tensor], index: Iterable[np.ndarray]) -> Iterator[Tensor]:
    """Yield what is read at each of these positions. The next is read in a thread while this one is in use."""
    with ThreadPoolExecutor(1, thread_name_prefix="majority-read") as background:
        waiting: Future[Tensor] | None = None
        for positions in index:
            following = background.submit(read, positions)
            if waiting is not None:
                yield waiting.result()
            waiting = following
        if waiting is not None:
            yield waiting.result()


def as_tensor(store: np.ndarray) -> Tensor:
    """Return a view of the store (a memory-mapped file stays on disk)."""
    if min(store.strides) < 0:  # torch does not take a reversed array
        store = store.copy()
    with warnings.catch_warnings():  # about read-only arrays: nothing here writes
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(store)


def filled_size(instances: int, typical: int = 1) -> int:
    """The number of instances that a batch is filled up to: the next of 16 per doubling, at most 1/16 more.

    Batches below the typical size are filled in steps of that size, at most 1/16 of it.

    >>> [filled_size(n) for n in (5, 31, 33, 1000, 1025)], filled_size(100, typical=1000)
    ([5, 31, 34, 1024, 1088], 128)
    """
    unit = 1 << max(0, (max(instances, typical) - 1).bit_length() - 5)
    return -(-instances // unit) * unit


def _relative_weights(bags: Bags) -> np.ndarray | None:  # (n,)
    """The weights of the instances, relative to the mean of their bag."""
    if bags.weights is None:
        return None
    means = np.add.reduceat(bags.weights, bags.offsets[:-1]) / bags.sizes
    return np.maximum(bags.weights / np.repeat(means, bags.sizes), SMALLEST_WEIGHT).astype(np.float32)


def _training_weights(bags: Bags) -> np.ndarray | None:  # (n,) 1 / how many bags a labelled instance is in, else 0
    if bags.training_labels is None:
        return None
    known = bags.training_labels != UNKNOWN
    _, which, bags_of = np.unique(bags.index[known], return_inverse=True, return_counts=True)
    weights = np.zeros(len(bags.index), np.float32)
    weights[known] = 1 / bags_of[which]
    return weights


def _balanced(order: np.ndarray, sizes: np.ndarray, batch_bags: int, rng: np.random.Generator) -> np.ndarray:
    """Change the order of bags such that the batches have about equally many instances per bag.

    The bags are sorted by size and cut into as many groups as a batch has bags; a batch gets one random bag of each
    group. `sizes` has the size of every bag. Bags of equal size stay in the given order.
    """
    full, rest = divmod(len(order), batch_bags)
    if full + (rest > 0) == 1 or sizes[order].min() == sizes[order].max():
        return order
    order = order[np.argsort(sizes[order], kind="stable")]
    groups = np.array_split(order, rest) if rest else []  # the last batch, which is smaller, gets one bag of each
    last = np.array([rng.choice(group) for group in groups], dtype=order.dtype)
    order = order[~np.isin(order, last)].reshape(batch_bags, full)
    return np.concatenate([rng.permuted(order, axis=1).T.ravel(), last])


def _part_of(layout: Layout, part: int, n_parts: int) -> Layout:
    """That part of every batch: whole bags, about equally many and, as the bags of a batch are sorted by size, about
    equally large ones."""
    turns = np.concatenate([np.arange(n_parts), np.arange(n_parts)[::-1]])
    owners = [np.resize(turns, b - a) for a, b in pairwise(layout.bounds)]  # 0 1 2 2 1 0 0 1 2 ...
    bags = np.flatnonzero(np.concatenate(owners) == part)
    rows = np.flatnonzero(np.isin(np.repeat(np.arange(len(layout.sizes)), layout.sizes), bags))
    parts = [tuple(np.bincount(owner, minlength=n_parts).tolist()) for owner in owners]
    bounds = np.cumsum([0, *(counts[part] for counts in parts)]).tolist()
    return Layout(
        layout.numbers[bags], layout.positions[rows], layout.sizes[bags], take(layout.keep, rows), bounds, parts
    )


def _random_parts(
    positions: np.ndarray,
    sizes: np.ndarray,
    limit: int,
    rng: np.random.Generator,
    keep: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """Return `limit` random positions of each bag (all of a smaller bag), bag after bag, and the new sizes.

    If only the positions marked in `keep` (n,) are aggregated, a part always has at least one of them.
    """
    bag, starts = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
    draws = rng.random(len(positions))
    if keep is not None:
        first = np.minimum.reduceat(np.where(keep, draws, 1), starts)  # (b,) the lowest draw of those that are marked
        draws[keep & (draws == np.repeat(first, sizes))] = 0
    order = np.argsort(bag + draws, kind="stable")  # shuffled within each bag
    rank = np.arange(len(positions)) - np.repeat(starts, sizes)
    return positions[order[rank < np.repeat(np.minimum(sizes, limit), sizes)]], np.minimum(sizes, limit)
