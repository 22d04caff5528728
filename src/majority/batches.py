"""Batches: bags on a device. The store is moved there once; a batch is gathered by index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .bags import Bags
from .methods import Target
from .segments import Segments


class Batch(NamedTuple):
    bags: np.ndarray  # (b,) which
    instances: Tensor  # (n, ...) as stored
    segments: Segments
    target: Target


class ResidentBags:
    """Bags whose instances lie on the device."""

    def __init__(self, bags: Bags, device: torch.device):
        self.bags, self.device = bags, device
        self.store = _resident(bags.store, device)
        self.labels = torch.from_numpy(bags.labels).to(device)
        self.instance_labels = None
        if bags.instance_labels is not None:
            self.instance_labels = torch.from_numpy(bags.instance_labels).to(device)

    def batch(
        self, which: np.ndarray, max_instances: int | None = None, rng: np.random.Generator | None = None
    ) -> Batch:
        """These bags; with `max_instances`, a fresh random part of each bag that is larger."""
        positions, sizes = self.bags.positions(which), self.bags.sizes[which]
        if max_instances is not None and sizes.max() > max_instances:
            positions, sizes = _random_parts(positions, sizes, max_instances, rng)
        where = torch.from_numpy(positions).to(self.device, non_blocking=True)
        index = torch.from_numpy(self.bags.index[positions]).to(self.device, non_blocking=True)
        labels = self.labels[torch.from_numpy(which).to(self.device, non_blocking=True)]
        truth = None if self.instance_labels is None else self.instance_labels[where]
        return Batch(which, self.store[index], Segments(sizes, self.device), Target(labels, truth))

    def shuffled(self, batch_bags: int, rng: np.random.Generator, max_instances: int | None = None) -> Iterator[Batch]:
        """One epoch: every bag once, in a random order."""
        order = rng.permutation(len(self.bags))
        for start in range(0, len(order), batch_bags):
            yield self.batch(order[start : start + batch_bags], max_instances, rng)

    def in_order(self, instances: int) -> Iterator[Batch]:
        """All bags as they stand, as many whole bags a batch as stay within `instances` (at least one)."""
        start = 0
        while start < len(self.bags):
            limit = self.bags.offsets[start] + instances
            stop = max(int(np.searchsorted(self.bags.offsets, limit, side="right")) - 1, start + 1)
            yield self.batch(np.arange(start, stop))
            start = stop


def _resident(store: np.ndarray, device: torch.device) -> Tensor:
    """On the CPU a view of the store, elsewhere a copy on the device."""
    if not store.flags.writeable:  # torch warns of arrays it could write to; nothing here writes
        store = store.view()
        try:
            store.flags.writeable = True
        except ValueError:
            store = store.copy()
    return torch.from_numpy(store).to(device)


def _random_parts(positions, sizes, limit: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Keep a random `limit` of each bag's positions (all of a smaller bag's), bag after bag."""
    bag = np.repeat(np.arange(len(sizes)), sizes)
    order = np.lexsort((rng.random(len(positions)), bag))  # shuffled within each bag
    rank = np.arange(len(positions)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return positions[order[rank < np.repeat(np.minimum(sizes, limit), sizes)]], np.minimum(sizes, limit)
