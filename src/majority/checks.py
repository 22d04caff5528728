"""What `majority check` says of any source."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .sources import LabelledSet, is_own_source, load
from .sources.own.checking import Check, check


def check_source(source: str | Path, image_size: int | None = None, features: tuple[str, ...] | None = None) -> Check:
    """Of bags of one's own everything is read and checked; a labelled set was checked when it loads."""
    if is_own_source(source):
        return check(Path(source).expanduser(), image_size, features)
    return Check(_summary(load(source, image_size, features)))


def _summary(labelled: LabelledSet) -> dict[str, str]:
    counts = np.bincount(labelled.labels, minlength=len(labelled.classes))
    shape = "x".join(map(str, labelled.store.shape[1:]))
    groups = "none" if labelled.groups is None else f"{len(np.unique(labelled.groups)):,}"
    return {
        "instances": f"{len(labelled.labels):,} of {shape}, each with its class: bags are made of them",
        "classes": ", ".join(f"{name} {count:,}" for name, count in zip(labelled.classes, counts, strict=True)),
        "groups": groups,
    }
