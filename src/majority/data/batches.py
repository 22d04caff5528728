"""Batches of bags on a device. A store in memory is copied to the device once; batches are gathered there by index.

Bags whose store stays on disk: see streaming.py, which also chooses between the two.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .bags import Bags
from .device import as_supported, to_device
from .instance_labels import UNKNOWN
from .segments import Segments
from .targets import Target

SMALLEST_WEIGHT = 1e-12  # of an instance, relative to the mean of its bag: smaller ones are no float32


class Batch:
    """Some bags, and how to get their instances."""

    bags: np.ndarray  # (b,) their numbers
    segments: Segments
    target: Target
    parts: tuple[int, ...] | None = None  # of a step in several parts: how many of its bags each part has

    @property
    def instances(self) -> Tensor:  # (n, ...) as stored
        raise NotImplementedError

    def pieces(self, max_instances: int) -> Iterator[Tensor]:
        """Yield the instances, at most `max_instances` at a time."""
        raise NotImplementedError


@dataclass(eq=False)
class ResidentBatch(Batch):
    """A batch whose instances are on the device."""

    bags: np.ndarray
    store: Tensor  # (N, ...)
    index: Tensor  # (n,) positions in the store
    segments: Segments
    target: Target
    parts: tuple[int, ...] | None = None

    @property
    def instances(self) -> Tensor:
        return self.store[self.index]

    def pieces(self, max_instances: int) -> Iterator[Tensor]:
        return (self.store[index] for index in torch.split(self.index, max_instances))


class BatchInfo(NamedTuple):
    """What is known of a batch before its instances are read."""

    rows: slice  # its part of the positions
    bags: np.ndarray
    segments: Segments
    target: Target
    parts: tuple[int, ...] | None


class Layout(NamedTuple):
    """Which bags and instances each batch of a pass has."""

    numbers: np.ndarray  # (b,) of the bags
    positions: np.ndarray  # (n,) of their instances in the bags' index
    sizes: np.ndarray  # (b,) instances of each bag
    keep: np.ndarray | None  # (n,) which of the instances are aggregated; None: all
    bounds: list[int]  # where, among these bags, one batch ends and the next begins
    parts: Sequence[tuple[int, ...] | None]  # of each batch: those of `Batch`


class BagLoader:
    """Makes batches of bags. Subclasses decide in `_make_batches` where the instances come from.

    `keep` and `soft_labels` have one entry per position of the bags' index: whether the instance is aggregated (None:
    all are), and the probabilities of its class.
    """

    def __init__(
        self,
        bags: Bags,
        device: torch.device,
        *,
        keep: np.ndarray | None = None,  # (n,) boolean
        soft_labels: np.ndarray | None = None,  # (n, C)
    ):
        self.bags, self.device, self.keep, self.soft_labels = bags, device, keep, soft_labels
        self.training_weights = _training_weights(bags)
        self.weights = _relative_weights(bags)

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
        be. In place of a part without bags comes the first bag of the batch, and `Batch.parts` has a 0.
        """
        order = rng.permutation(len(self.bags))[:bags]
        order = _balanced(order, np.minimum(self.bags.sizes, max_instances or self.bags.sizes.max()), batch_bags, rng)
        positions, sizes = self.bags.positions(order), self.bags.sizes[order]
        if max_instances is not None and sizes.max() > max_instances:
            positions, sizes = _random_parts(positions, sizes, max_instances, rng, _at(self.keep, positions))
        bounds = [*range(0, len(order), batch_bags), len(order)]
        layout = Layout(order, positions, sizes, _at(self.keep, positions), bounds, [None] * (len(bounds) - 1))
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
        layout = Layout(numbers, positions, self.bags.sizes, self.keep, bounds, [None] * (len(bounds) - 1))
        if fill:
            layout = self._filled(layout, max_instances, np.random.default_rng(0))
        return self._make_batches(layout, max_instances)

    def _filled(self, layout: Layout, typical: int, rng: np.random.Generator) -> Layout:
        """Fill each batch up to `filled_size` with random instances. They are appended to its last bag and not kept."""
        _, positions, sizes, keep, bounds, _ = layout
        starts = np.concatenate([[0], np.cumsum(sizes)])[bounds]
        extra = np.array([filled_size(int(size), typical) - int(size) for size in np.diff(starts)])
        where = np.repeat(starts[1:], extra)
        drawn = rng.integers(0, len(self.bags.index), len(where))
        keep = np.ones(len(positions), dtype=bool) if keep is None else keep
        sizes = sizes.copy()
        sizes[np.array(bounds[1:]) - 1] += extra
        positions, keep = np.insert(positions, where, drawn), np.insert(keep, where, False)
        return layout._replace(positions=positions, sizes=sizes, keep=keep)

    def _make_batches(self, layout: Layout, piece: int | None = None) -> Iterable[Batch]:
        """`piece` is the number of instances that will be read at a time; None: a whole batch."""
        raise NotImplementedError

    def _describe_batches(self, layout: Layout) -> Iterator[BatchInfo]:
        """Yield the segments and targets of each batch. They are views of what is copied to the device once."""
        numbers, positions, sizes, keep, bounds, parts = layout

        def on_device(values: np.ndarray | None) -> Tensor | None:
            return None if values is None else to_device(values, self.device)

        def part(values: Tensor | None, rows: slice) -> Tensor | None:
            return None if values is None else values[rows]

        of_bags = self.bags.bag_labels
        allowed, device_sizes = to_device(of_bags.allowed[numbers], self.device), to_device(sizes, self.device)
        runner_up = on_device(_at(of_bags.runner_up, numbers))
        instance_labels = on_device(_at(self.bags.instance_labels, positions))
        training_labels = on_device(_at(self.bags.training_labels, positions))
        training_weights = on_device(_at(self.training_weights, positions))
        soft_labels, device_keep = on_device(_at(self.soft_labels, positions)), on_device(keep)
        weights = on_device(_at(self.weights, positions))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        for (a, b), parts_of_batch in zip(pairwise(bounds), parts, strict=True):
            rows = slice(starts[a], starts[b])
            of_instances = (instance_labels, soft_labels, training_labels, training_weights)
            of_batch = (part(values, rows) for values in of_instances)
            target = Target(allowed[a:b], part(runner_up, slice(a, b)), *of_batch)
            segments = Segments(sizes[a:b], device_sizes[a:b], part(device_keep, rows), part(weights, rows))
            yield BatchInfo(rows, numbers[a:b], segments, target, parts_of_batch)


class ResidentLoader(BagLoader):
    """Bags whose instances are on the device. A store that they have in common with the loader `share_store_with` is
    copied only once."""

    def __init__(
        self,
        bags: Bags,
        device: torch.device,
        *,
        keep: np.ndarray | None = None,
        soft_labels: np.ndarray | None = None,
        share_store_with: BagLoader | None = None,
    ):
        super().__init__(bags, device, keep=keep, soft_labels=soft_labels)
        if isinstance(share_store_with, ResidentLoader) and share_store_with.bags.store is bags.store:
            self.store: Tensor = share_store_with.store
        else:
            assert isinstance(bags.store, np.ndarray)
            self.store = as_supported(as_tensor(bags.store), device).to(device)

    def _make_batches(self, layout: Layout, piece: int | None = None) -> list[ResidentBatch]:
        index = to_device(self.bags.index[layout.positions], self.device)
        infos = self._describe_batches(layout)
        return [
            ResidentBatch(bags, self.store, index[rows], segments, target, parts)
            for rows, bags, segments, target, parts in infos
        ]


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


def _training_weights(bags: Bags) -> np.ndarray | None:  # (n,)
    if bags.training_labels is None:
        return None
    known = bags.training_labels != UNKNOWN
    _, which, bags_of = np.unique(bags.index[known], return_inverse=True, return_counts=True)
    weights = np.zeros(len(bags.index), np.float32)
    weights[known] = 1 / bags_of[which]
    return weights


def _at(values: np.ndarray | None, positions: np.ndarray) -> np.ndarray | None:
    return None if values is None else values[positions]


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
    chosen, bounds, parts = [], [0], []
    for a, b in pairwise(layout.bounds):
        turn, place = np.divmod(np.arange(b - a), n_parts)
        owner = np.where(turn % 2, n_parts - 1 - place, place)  # 0 1 2 2 1 0 0 1 2 ...
        own = np.flatnonzero(owner == part)
        chosen.append(a + (own if len(own) else np.zeros(1, np.int64)))
        bounds.append(bounds[-1] + len(chosen[-1]))
        parts.append(tuple(np.bincount(owner, minlength=n_parts).tolist()))
    bags = np.concatenate(chosen)
    starts, sizes = np.cumsum(layout.sizes) - layout.sizes, layout.sizes[bags]
    rows = np.repeat(starts[bags] - (np.cumsum(sizes) - sizes), sizes) + np.arange(sizes.sum())
    return Layout(layout.numbers[bags], layout.positions[rows], sizes, _at(layout.keep, rows), bounds, parts)


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
