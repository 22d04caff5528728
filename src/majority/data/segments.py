"""Segments: how packed rows fall into bags, and per-bag sums, means, maxima and softmaxes of them."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import torch
from torch import Tensor


def to_device(values: np.ndarray, device: torch.device) -> Tensor:
    """On the device; the host does not wait for it."""
    tensor = torch.from_numpy(values)
    if device.type == "cuda":
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


class Segments:
    """Consecutive runs of rows, one run a bag.

    Where all bags have one size, every operation is a plain reduction over a (bags, size, ...) view;
    otherwise rows are scattered by their bag number. Both ways give the same results.

    >>> rows = torch.tensor([[1.0], [2.0], [5.0]])
    >>> Segments([2, 1]).sum(rows).tolist()
    [[3.0], [5.0]]

    With `keep`, only the rows that it marks are aggregated; a bag needs at least one of them.

    >>> Segments([2, 1], keep=torch.tensor([False, True, True])).mean(rows).tolist()
    [[2.0], [5.0]]
    """

    def __init__(self, sizes, on_device: Tensor | None = None, keep: Tensor | None = None):
        """Sizes as numbers; `on_device`, the same as a tensor where the rows lie (None: on the CPU)."""
        sizes = np.asarray(sizes, dtype=np.int64)
        if sizes.ndim != 1 or len(sizes) == 0 or sizes.min() < 1:
            raise ValueError(f"segments need at least one size and sizes from 1 up, got {sizes.tolist()[:10]}")
        self.n = int(sizes.sum())
        self.size = int(sizes[0]) if sizes.min() == sizes.max() else None  # the one size, or None where ragged
        self.host_sizes = sizes  # (b,) read without waiting for the device
        self.sizes = torch.from_numpy(sizes) if on_device is None else on_device  # (b,)
        self.keep = keep if keep is None else self._rows(keep)  # (n,) which rows are aggregated; None: all

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def ids(self) -> Tensor:  # (n,) the bag of each row
        bags = torch.arange(len(self), device=self.sizes.device)
        return torch.repeat_interleave(bags, self.sizes, output_size=self.n)

    @cached_property
    def counted(self) -> Tensor:  # (b,) the rows of each bag that are aggregated
        return self.sizes if self.keep is None else self.sum(torch.ones_like(self.keep, dtype=self.sizes.dtype))

    @cached_property
    def by_size(self) -> tuple[list[tuple[int, int]], Tensor | None]:
        """Groups of equally large bags, (bags, size) each, and the order of rows (n,) that brings them together (None:
        as they are).

        >>> groups, order = Segments([2, 1, 2]).by_size
        >>> groups, order.tolist()
        ([(1, 1), (2, 2)], [2, 0, 1, 3, 4])
        """
        if self.size is not None:
            return [(len(self), self.size)], None
        order = np.argsort(np.repeat(self.host_sizes, self.host_sizes), kind="stable")  # keeps each bag's rows together
        sizes, bags = np.unique(self.host_sizes, return_counts=True)
        return list(zip(bags.tolist(), sizes.tolist(), strict=True)), to_device(order, self.sizes.device)

    def kept(self, values: Tensor, otherwise: float) -> Tensor:
        """(n, ...) -> (n, ...): another value in the rows that are not aggregated."""
        if self.keep is None:
            return values
        return self._rows(values).masked_fill(~self._column(self.keep, values), otherwise)

    def _rows(self, values: Tensor) -> Tensor:
        if len(values) != self.n:
            raise ValueError(f"{len(values)} rows do not fit segments of {self.n} rows")
        return values

    def _grouped(self, values: Tensor) -> Tensor:  # (b, size, ...), a view
        return self._rows(values).unflatten(0, (len(self), self.size))

    def _column(self, values: Tensor, like: Tensor) -> Tensor:
        return values.view(-1, *[1] * (like.ndim - 1))

    def spread(self, values: Tensor) -> Tensor:
        """(b, ...) -> (n, ...): each bag's value on all its rows."""
        if len(values) != len(self):
            raise ValueError(f"{len(values)} values do not fit {len(self)} segments")
        if self.size is not None:
            return values.unsqueeze(1).expand(-1, self.size, *values.shape[1:]).flatten(0, 1)
        return values.index_select(0, self.ids)

    def sum(self, values: Tensor) -> Tensor:
        """(n, ...) -> (b, ...)"""
        values = self.kept(values, 0)
        if self.size is not None:
            return self._grouped(values).sum(dim=1)
        total = values.new_zeros(len(self), *values.shape[1:])
        return total.index_add(0, self.ids, self._rows(values))

    def mean(self, values: Tensor) -> Tensor:
        """(n, ...) -> (b, ...)"""
        return self.sum(values) / self._column(self.counted, values).to(values.dtype)

    def max(self, values: Tensor) -> Tensor:
        """(n, ...) -> (b, ...); the gradient is shared among equal maxima."""
        values = self.kept(values, -torch.inf)
        if self.size is not None:
            return self._grouped(values).amax(dim=1)
        ids = self._column(self.ids, values).expand_as(self._rows(values))
        lowest = values.new_full((len(self), *values.shape[1:]), -torch.inf)
        return lowest.scatter_reduce(0, ids, values, "amax", include_self=False)

    def logsumexp(self, values: Tensor) -> Tensor:
        """(n, ...) -> (b, ...)"""
        values = self.kept(values, -torch.inf)  # before exp, whose gradient could be infinite in the other rows
        if self.size is not None:
            return self._grouped(values).logsumexp(dim=1)
        top = self.max(values.detach())
        top = torch.where(top.isfinite(), top, 0.0)
        return top + self.sum((values - self.spread(top)).exp()).log()

    def softmax(self, values: Tensor) -> Tensor:
        """(n, ...) -> (n, ...), summing to one within each bag; 0 in rows that are not aggregated."""
        values = self.kept(values, -torch.inf)
        if self.size is not None:
            return self._grouped(values).softmax(dim=1).flatten(0, 1)
        exponents = (values - self.spread(self.max(values.detach()))).exp()
        return exponents / self.spread(self.sum(exponents))

    def gram(self, values: Tensor) -> Tensor:
        """(n, C) -> (b, C, C): per bag, the sum of the outer products, without an (n, C, C) tensor."""
        values = self.kept(values, 0)
        if self.size is not None:
            grouped = self._grouped(values)
            return grouped.mT @ grouped
        return torch.stack([self.sum(values * values[:, c : c + 1]) for c in range(values.shape[1])], dim=1)
