"""Batches: bags on a device. A store in memory is moved there once, and a batch gathered by index, there.

Bags whose store stays on disk: see streams.py, which also chooses between the two.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .bags import Bags
from .segments import Segments, to_device


class Target(NamedTuple):
    """What a loss may see. Instance labels are None unless the head says that it sees them."""

    labels: Tensor  # (b,)
    instance_labels: Tensor | None = None  # (n,)
    soft_labels: Tensor | None = None  # (n, C) probabilities that an earlier model gave; None: there are none


class Batch(NamedTuple):
    bags: np.ndarray  # (b,) which
    store: Tensor  # (N, ...)
    index: Tensor  # (n,) positions in the store
    segments: Segments
    target: Target

    @property
    def instances(self) -> Tensor:  # (n, ...) as stored
        return self.store[self.index]

    def pieces(self, instances: int) -> Iterator[Tensor]:
        """The same, at most so many at a time."""
        return (self.store[index] for index in self.index.split(instances))


class BagLoader:
    """Bags as a model meets them. Where their instances come from is for `_cut` to say."""

    def __init__(
        self, bags: Bags, device: torch.device, keep: np.ndarray | None = None, soft_labels: np.ndarray | None = None
    ):
        """Of each position of the bags' index: whether it is aggregated (None: all are), soft_labels about its class."""
        self.bags, self.device, self.keep, self.soft_labels = bags, device, keep, soft_labels

    def shuffled(
        self, batch_bags: int, rng: np.random.Generator, max_instances: int | None = None, bags: int | None = None
    ) -> Iterable[Batch]:
        """One epoch: every bag once (or so many `bags` of them), in a random order; of bags larger than
        `max_instances` a random part."""
        order = rng.permutation(len(self.bags))[:bags]
        positions, sizes = self.bags.positions(order), self.bags.sizes[order]
        if max_instances is not None and sizes.max() > max_instances:
            kept = None if self.keep is None else self.keep[positions]
            positions, sizes = _random_parts(positions, sizes, max_instances, rng, kept)
        bounds = [*range(0, len(order), batch_bags), len(order)]
        return self._cut(order, positions, sizes, bounds)

    def in_order(self, instances: int) -> Iterable[Batch]:
        """All bags as they stand, as many whole bags a batch as stay within `instances` (at least one)."""
        offsets, bounds = self.bags.offsets, [0]
        while bounds[-1] < len(self.bags):
            limit = np.searchsorted(offsets, offsets[bounds[-1]] + instances, side="right") - 1
            bounds.append(max(int(limit), bounds[-1] + 1))
        positions = np.arange(len(self.bags.index))
        return self._cut(np.arange(len(self.bags)), positions, self.bags.sizes, bounds, instances)

    def _cut(
        self,
        which: np.ndarray,  # (b,) bags
        positions: np.ndarray,  # (n,) of their instances in the bags' index
        sizes: np.ndarray,  # (b,) instances of each
        bounds: list[int],  # where, among these bags, one batch ends and the next begins
        piece: int | None = None,  # instances that will be asked for at a time; None: a whole batch
    ) -> Iterable[Batch]:
        raise NotImplementedError

    def _described(self, which, positions, sizes, bounds) -> Iterator[tuple[slice, np.ndarray, Segments, Target]]:
        """Of each batch its place in `positions`, its bags, their segments and labels.

        Everything moves to the device at once; the batches are views of it.
        """
        labels, lengths = self._there(self.bags.labels[which]), self._there(sizes)
        truth, soft_labels, keep = (
            None if of_positions is None else self._there(of_positions[positions])
            for of_positions in (self.bags.instance_labels, self.soft_labels, self.keep)
        )
        part = lambda values, rows: None if values is None else values[rows]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        for a, b in pairwise(bounds):
            rows = slice(starts[a], starts[b])
            target = Target(labels[a:b], part(truth, rows), part(soft_labels, rows))
            segments = Segments(sizes[a:b], lengths[a:b], part(keep, rows))
            yield rows, which[a:b], segments, target

    def _there(self, values: np.ndarray) -> Tensor:
        return to_device(values, self.device)


class ResidentLoader(BagLoader):
    """Bags whose instances lie on the device."""

    def __init__(
        self, bags: Bags, device: torch.device, *of_positions: np.ndarray | None, beside: BagLoader | None = None
    ):
        super().__init__(bags, device, *of_positions)
        shared = isinstance(beside, ResidentLoader) and beside.bags.store is bags.store
        self.store = beside.store if shared else as_tensor(bags.store).to(device)

    def _cut(self, which, positions, sizes, bounds, piece=None) -> list[Batch]:
        index = self._there(self.bags.index[positions])
        described = self._described(which, positions, sizes, bounds)
        return [Batch(bags, self.store, index[rows], segments, target) for rows, bags, segments, target in described]


def as_tensor(store: np.ndarray) -> Tensor:
    """A view of the store (a mapped file stays on disk)."""
    if min(store.strides) < 0:  # an array turned round, which torch does not take
        store = store.copy()
    with warnings.catch_warnings():  # of arrays that must not be written to: nothing here writes
        warnings.filterwarnings("ignore", "The given NumPy array is not writable")
        return torch.from_numpy(store)


def _random_parts(
    positions, sizes, limit: int, rng: np.random.Generator, keep: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A random `limit` of each bag's positions (all of a smaller bag's), bag after bag.

    Where only those that `keep` (n,) marks are aggregated, a part that would have none of them gets one.
    """
    bag, starts = np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes
    draws = rng.random(len(positions))
    if keep is not None:
        first = np.minimum.reduceat(np.where(keep, draws, 1), starts)  # (b,) of those it marks, who comes first
        draws[keep & (draws == np.repeat(first, sizes))] = 0
    order = np.argsort(bag + draws, kind="stable")  # shuffled within each bag
    rank = np.arange(len(positions)) - np.repeat(starts, sizes)
    return positions[order[rank < np.repeat(np.minimum(sizes, limit), sizes)]], np.minimum(sizes, limit)
