"""Segments: how packed rows are divided into bags, and sums, means, maxima and softmaxes per bag."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .device import to_device


class HostSizesUnknown(RuntimeError):
    """The sizes of bags are known on the device only: in a captured step, which is replayed with other sizes."""


class Segments:
    """Consecutive runs of rows, one run per bag.

    If all bags have the same size, every operation is a plain reduction over a (bags, size, ...) view;
    otherwise rows are scattered by their bag number. Both paths give the same results.

    >>> rows = torch.tensor([[1.0], [2.0], [5.0]])
    >>> Segments([2, 1]).sum(rows).tolist()
    [[3.0], [5.0]]

    With `keep`, only the rows that it marks are aggregated; every bag needs at least one of them.

    >>> Segments([2, 1], keep=torch.tensor([False, True, True])).mean(rows).tolist()
    [[2.0], [5.0]]

    With `weights`, some rows count more than others. Operations do not know them: `weigh` applies them.

    >>> Segments([2, 1], weights=torch.tensor([1.0, 3.0, 9.0])).weigh(rows).tolist()
    [[0.5], [3.0], [5.0]]
    """

    size: int | None = None  # of every bag; None if they differ, or are not known
    _host_sizes: np.ndarray | None = None
    _mixed = False  # whether the rows are in any order, as of ids
    _ids: Tensor | None = None
    _kept_sizes: Tensor | None = None
    _scaled_weights: Tensor | None = None

    def __init__(
        self,
        sizes: Sequence[int] | np.ndarray,
        device_sizes: Tensor | None = None,
        keep: Tensor | None = None,
        weights: Tensor | None = None,
    ):
        """`device_sizes` are the same sizes as a tensor on the device of the rows (None: on the CPU)."""
        sizes = np.asarray(sizes, dtype=np.int64)  # at least 1 each
        self.size = int(sizes[0]) if sizes.min() == sizes.max() else None
        self._host_sizes = sizes
        self._set_rows(
            torch.from_numpy(sizes) if device_sizes is None else device_sizes, int(sizes.sum()), keep, weights
        )

    def _set_rows(self, sizes: Tensor, n: int, keep: Tensor | None, weights: Tensor | None) -> None:
        self.n, self.sizes = n, sizes  # (b,)
        self.keep = keep  # (n,) which rows are aggregated; None: all
        self.weights = weights  # (n,) above 0; None: all are equal

    @classmethod
    def on_device(cls, sizes: Tensor, n: int, keep: Tensor | None = None, weights: Tensor | None = None) -> Segments:
        """Segments of n rows whose sizes are known on the device only, and may differ each time a graph is replayed.

        >>> Segments.on_device(torch.tensor([2, 1]), 3).sum(torch.ones(3, 1)).tolist()
        [[2.0], [1.0]]
        """
        segments = cls.__new__(cls)
        segments._set_rows(sizes, n, keep, weights)
        return segments

    @classmethod
    def of_ids(cls, ids: Tensor, bags: int | None = None, weights: Tensor | None = None) -> Segments:
        """Rows in any order, each with the number of its bag; without the number of bags, the device is waited for.

        >>> Segments.of_ids(torch.tensor([1, 0, 1])).sum(torch.tensor([[1.0], [2.0], [5.0]])).tolist()
        [[2.0], [6.0]]
        """
        ids = ids.long()
        sizes = ids.new_zeros(int(ids.max()) + 1 if bags is None else bags)
        segments = cls.on_device(sizes.index_add(0, ids, torch.ones_like(ids)), len(ids), weights=weights)
        segments._ids, segments._mixed = ids, True
        return segments

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def host_sizes(self) -> np.ndarray:  # (b,) can be read without waiting for the device
        if self._host_sizes is None:
            raise HostSizesUnknown("the sizes of these bags are known on the device only")
        return self._host_sizes

    # Properties are kept by hand: torch.compile cannot trace functools.cached_property of Python 3.11.

    @property
    def ids(self) -> Tensor:  # (n,) the bag of each row
        if self._ids is None:
            bags = torch.arange(len(self), device=self.sizes.device)
            self._ids = torch.repeat_interleave(bags, self.sizes, output_size=self.n)
        return self._ids

    @property
    def kept_sizes(self) -> Tensor:  # (b,) how many rows of each bag are aggregated
        if self._kept_sizes is None:
            kept = None if self.keep is None else torch.ones_like(self.keep, dtype=self.sizes.dtype)
            self._kept_sizes = self.sizes if kept is None else self.sum(kept)
        return self._kept_sizes

    @property
    def scaled_weights(self) -> Tensor | None:  # (n,)
        """The weights, scaled such that those of the aggregated rows of each bag have a mean of 1."""
        if self._scaled_weights is None and self.weights is not None:
            self._scaled_weights = self.weights / self.spread(self.mean(self.weights))
        return self._scaled_weights

    @property
    def by_size(self) -> tuple[list[tuple[int, int]], Tensor | None]:
        """Groups of bags of equal size, as (bags, size), and the order of rows (n,) that sorts rows by group.

        The order is None if there is only one group.

        >>> groups, order = Segments([2, 1, 2]).by_size
        >>> groups, order.tolist()
        ([(1, 1), (2, 2)], [2, 0, 1, 3, 4])
        """
        if self.size is not None:
            return [(len(self), self.size)], None
        if self._mixed:
            host_sizes = self.sizes.cpu().numpy()
            order = (self.sizes[self.ids] * len(self) + self.ids).argsort(stable=True)
        else:
            host_sizes = self.host_sizes
            rows = np.argsort(np.repeat(host_sizes, host_sizes), kind="stable")  # keeps each bag's rows together
            order = to_device(rows, self.sizes.device)
        sizes, bags = np.unique(host_sizes, return_counts=True)
        return list(zip(bags.tolist(), sizes.tolist(), strict=True)), order

    def fill_dropped(self, values: Tensor, fill: float) -> Tensor:
        """(n, ...) -> (n, ...): `fill` in the rows that are not aggregated."""
        if self.keep is None:
            return values
        return values.masked_fill(~self._as_column(self.keep, values), fill)

    def weigh(self, values: Tensor) -> Tensor:
        """(n, ...) -> (n, ...): each row times its scaled weight, so that a sum over a bag is a weighted sum."""
        weights = self.scaled_weights
        return values if weights is None else values * self._as_column(weights, values).to(values.dtype)

    def weigh_logs(self, values: Tensor) -> Tensor:
        """(n, ...) -> (n, ...): the same for logarithms, for `logsumexp`."""
        weights = self.scaled_weights
        return values if weights is None else values + self._as_column(weights.log(), values).to(values.dtype)

    def _grouped(self, values: Tensor, size: int) -> Tensor:  # (b, size, ...), a view
        return values.view(len(self), size, *values.shape[1:])

    def _as_column(self, values: Tensor, like: Tensor) -> Tensor:
        return values.view(-1, *[1] * (like.ndim - 1))

    def spread(self, values: Tensor) -> Tensor:
        """(b, ...) -> (n, ...): the value of each bag on all its rows."""
        if self.size is not None:
            return values.unsqueeze(1).expand(-1, self.size, *values.shape[1:]).flatten(0, 1)
        return values.index_select(0, self.ids)

    def sum(self, values: Tensor) -> Tensor:
        """(n, ...) -> (b, ...)"""
        values = self.fill_dropped(values, 0)
        if self.size is not None:
            return self._grouped(values, self.size).sum(dim=1)
        total = values.new_zeros(len(self), *values.shape[1:])
        return total.index_add(0, self.ids, values)

    def mean(self, values: Tensor) -> Tensor:
        """(n, ...) -> (b, ...)"""
        return self.sum(values) / self._as_column(self.kept_sizes, values).to(values.dtype)

    def max(self, values: Tensor) -> Tensor:
        """(n, ...) -> (b, ...); equal maxima share the gradient."""
        values = self.fill_dropped(values, -torch.inf)
        if self.size is not None:
            return self._grouped(values, self.size).amax(dim=1)
        ids = self._as_column(self.ids, values).expand_as(values)
        lowest = values.new_full((len(self), *values.shape[1:]), -torch.inf)
        return lowest.scatter_reduce(0, ids, values, "amax", include_self=False)

    def logsumexp(self, values: Tensor) -> Tensor:
        """(n, ...) -> (b, ...)"""
        values = self.fill_dropped(values, -torch.inf)  # before exp, whose gradient could be infinite in these rows
        if self.size is not None:
            return self._grouped(values, self.size).logsumexp(dim=1)
        top = self.max(values.detach())
        top = torch.where(top.isfinite(), top, 0.0)
        return top + self.sum((values - self.spread(top)).exp()).log()

    def softmax(self, values: Tensor) -> Tensor:
        """(n, ...) -> (n, ...); sums to one within each bag and is 0 in rows that are not aggregated."""
        values = self.fill_dropped(values, -torch.inf)
        if self.size is not None:
            return self._grouped(values, self.size).softmax(dim=1).flatten(0, 1)
        exponents = (values - self.spread(self.max(values.detach()))).exp()
        return exponents / self.spread(self.sum(exponents))

    def gram(self, values: Tensor) -> Tensor:
        """(n, C) -> (b, C, C): the sum of the outer products per bag, without an (n, C, C) tensor."""
        values = self.fill_dropped(values, 0)
        if self.size is not None:
            grouped = self._grouped(values, self.size)
            return grouped.mT @ grouped
        return torch.stack([self.sum(values * values[:, c : c + 1]) for c in range(values.shape[1])], dim=1)
