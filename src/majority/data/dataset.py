"""BagDataset and collate_bags: bags for a DataLoader of PyTorch, in a training loop of your own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from ..errors import InputError
from .bags import Bags


class BagItem(NamedTuple):
    """One bag."""

    instances: Tensor  # (size, ...)
    label: Tensor  # () the class, -1 if there is none; or (C,) which classes may have won
    runner_up: Tensor | None  # () -1 if it is not known; None: no bag has one
    weights: Tensor | None  # (size,); None: all instances count the same


class BagBatch(NamedTuple):
    """Some bags, as losses take them."""

    instances: Tensor  # (n, ...)
    bag_ids: Tensor  # (n,) the number in the batch of each instance's bag
    labels: Tensor  # (b,) classes, -1 where there is none; or (b, C), if some bag of the dataset has several labels
    runner_up: Tensor | None = None  # (b,)
    weights: Tensor | None = None  # (n,)

    def to(self, device: torch.device | str, non_blocking: bool = False) -> BagBatch:
        """The same batch on another device."""
        given = {name: part for name, part in self._asdict().items() if part is not None}
        return BagBatch(**{name: part.to(device, non_blocking=non_blocking) for name, part in given.items()})


class BagDataset(Dataset[BagItem]):
    """Bags as a dataset whose items are bags; it has no instance labels.

    Images come with the channels first, as floating-point numbers in 0..1 or, with ``dtype=torch.uint8``, as stored.
    ``transform`` changes each instance: an image (c, h, w) or a vector (d,). Stores on disk are read bag by bag.

    >>> from torch.utils.data import DataLoader
    >>> bags = Bags.from_lists([np.zeros((2, 4)), np.ones((3, 4))], labels=["a", "b"])
    >>> batch = next(iter(DataLoader(BagDataset(bags), batch_size=2, collate_fn=collate_bags)))
    >>> batch.instances.shape, batch.bag_ids.tolist(), batch.labels.tolist()
    (torch.Size([5, 4]), [0, 0, 1, 1, 1], [0, 1])
    """

    def __init__(
        self, bags: Bags, dtype: torch.dtype = torch.float32, transform: Callable[[Tensor], Tensor] | None = None
    ):
        self.images = bags.store.ndim == 4
        if not (dtype.is_floating_point or (self.images and dtype == torch.uint8)):
            raise InputError(f"BagDataset: dtype is {dtype}: give a floating-point type, or torch.uint8 for images")
        self.bags, self.dtype, self.transform = bags.without_instance_labels(), dtype, transform
        labels = bags.bag_labels
        self.labels = torch.from_numpy(labels.allowed if labels.several.any() else labels.winners)
        self.runner_up = None if labels.runner_up is None else torch.from_numpy(labels.seconds)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        self.weights = None if bags.weights is None else torch.from_numpy(bags.weights).to(wide)

    def __len__(self) -> int:
        return len(self.bags)

    def __getitem__(self, number: int) -> BagItem:
        number = range(len(self))[number]
        start, end = self.bags.offsets[number : number + 2]
        runner_up = None if self.runner_up is None else self.runner_up[number]
        weights = None if self.weights is None else self.weights[start:end]
        return BagItem(self._instances(number), self.labels[number], runner_up, weights)

    def _instances(self, number: int) -> Tensor:
        instances = torch.from_numpy(np.array(self.bags.bag(number)))  # a copy: a store may be read-only
        if self.images:
            instances = instances.permute(0, 3, 1, 2)
        if self.dtype.is_floating_point:
            instances = instances.to(self.dtype)
            if self.images:
                instances /= 255
        return instances if self.transform is None else torch.stack([self.transform(each) for each in instances])


def collate_bags(items: Sequence[BagItem]) -> BagBatch:
    """The batch of these bags, for ``DataLoader(..., collate_fn=collate_bags)``.

    >>> import numpy as np
    >>> from majority import Bags
    >>> bags = Bags.from_lists([np.zeros((2, 3)), np.ones((1, 3))], labels=["oak", "pine"])
    >>> dataset = BagDataset(bags)
    >>> batch = collate_bags([dataset[0], dataset[1]])
    >>> batch.bag_ids.tolist(), batch.labels.tolist()
    ([0, 0, 1], [0, 1])
    """
    instances, labels, runners_up, weights = zip(*items, strict=True)
    sizes = torch.tensor([len(bag) for bag in instances])
    return BagBatch(
        torch.cat(instances),
        torch.repeat_interleave(torch.arange(len(items)), sizes),
        torch.stack(labels),
        None if runners_up[0] is None else torch.stack(runners_up),
        None if weights[0] is None else torch.cat(weights),
    )
