"""Bags of several parts as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import InputError
from .bags import Bags
from .columns import offsets_of
from .instance_labels import UNKNOWN, none_if_unknown
from .labels import join_labels


def join(parts: Sequence[Bags]) -> Bags:
    """All bags of the parts, which have the same classes. Names, groups and coordinates are left out.

    A store that all parts share is not copied. Otherwise their instances must be in memory.

    >>> one, two = (Bags.from_lists([np.ones((2, 3))], labels=[0], classes=["a", "b"]) for _ in range(2))
    >>> join([one, two])
    Bags(2 bags of 2, 4 instances of shape (3,), classes: a, b)
    """
    first = parts[0]
    if all(part.store is first.store for part in parts):
        store, index = first.store, np.concatenate([part.index for part in parts])
    else:
        arrays = [part.store for part in parts]
        if not all(isinstance(array, np.ndarray) for array in arrays):
            raise InputError("parts whose instances are in different stores on disk cannot be joined: use one source")
        store = np.concatenate([part.instances() for part in parts])
        index = np.arange(len(store))
    return first._with(
        store=store,
        index=index,
        offsets=offsets_of(np.concatenate([part.sizes for part in parts])),
        bag_labels=join_labels([part.bag_labels for part in parts]),
        instance_labels=_join_codes([part.instance_labels for part in parts], parts),
        training_labels=_join_codes([part.training_labels for part in parts], parts),
        weights=_join_weights(parts),
        groups=None,
        coordinates=None,
        names=None,
    )


def _join_codes(codes: Sequence[np.ndarray | None], parts: Sequence[Bags]) -> np.ndarray | None:
    """The classes of all instances; None if none is known."""
    pairs = zip(codes, parts, strict=True)
    return none_if_unknown(
        np.concatenate([np.full(len(part.index), UNKNOWN) if some is None else some for some, part in pairs])
    )


def _join_weights(parts: Sequence[Bags]) -> np.ndarray | None:
    if all(part.weights is None for part in parts):
        return None
    return np.concatenate([np.ones(len(part.index)) if part.weights is None else part.weights for part in parts])
