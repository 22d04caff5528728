"""Bags of several parts as one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import InputError
from .bags import Bags
from .columns import offsets_of
from .instance_labels import UNKNOWN
from .labels import join_labels


def join(parts: Sequence[Bags]) -> Bags:
    """All bags of the parts, which have the same classes. Names, groups and coordinates are left out.

    A store that all parts share is not copied. Otherwise their instances must be in memory.

    >>> one, two = (Bags.from_lists([np.ones((2, 3))], labels=[0], classes=["a", "b"]) for _ in range(2))
    >>> join([one, two])
    Bags(2 bags of 2, 4 instances of shape (3,), classes: a, b)
    """

    def column(name: str, missing: float) -> np.ndarray | None:
        columns = [getattr(part, name) for part in parts]
        if all(values is None for values in columns):
            return None
        pairs = zip(columns, parts, strict=True)
        return np.concatenate([np.full(len(of.index), missing) if some is None else some for some, of in pairs])

    first = parts[0]
    if all(part.store is first.store for part in parts):
        store, index = first.store, np.concatenate([part.index for part in parts])
    elif all(isinstance(part.store, np.ndarray) for part in parts):
        store = np.concatenate([part.instances() for part in parts])
        index = np.arange(len(store))
    else:
        raise InputError("parts whose instances are in different stores on disk cannot be joined: use one source")
    return first._with(
        store=store,
        index=index,
        offsets=offsets_of(np.concatenate([part.sizes for part in parts])),
        bag_labels=join_labels([part.bag_labels for part in parts]),
        instance_labels=column("instance_labels", UNKNOWN),
        training_labels=column("training_labels", UNKNOWN),
        weights=column("weights", 1.0),
        groups=None,
        coordinates=None,
        names=None,
    )
