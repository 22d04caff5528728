"""Sources: labelled sets to make benchmark bags of (by name, or a file), and bags of one's own (table or folder)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import InputError, unknown_name
from .base import Parts, Source
from .benchmarks import cifar, digits, medmnist, svhn
from .benchmarks.catalogue import NamedSource
from .benchmarks.fetch import find
from .benchmarks.labelled import LabelledSet
from .benchmarks.npz import load_npz
from .benchmarks.published import PUBLISHED
from .custom import CustomBags, ReadOptions, as_pixel_size, is_custom

if TYPE_CHECKING:
    from .custom.load import Check

__all__ = [
    "CustomBags",
    "LabelledSet",
    "Parts",
    "Source",
    "SourceInfo",
    "check_source",
    "describe",
    "is_custom_source",
    "load",
    "names",
]

SOURCES = {source.name: source for family in (digits, cifar, svhn, medmnist) for source in family.SOURCES}
READERS = {".npz": load_npz, ".mat": svhn.load_mat}


@dataclass(frozen=True)
class SourceInfo:
    """A named source, whether its files are on this machine, and where they are or come from."""

    name: str
    here: bool
    where: str
    classes: tuple[str, ...]
    instances: int
    shape: tuple[int, ...]  # of one instance
    licence: str


def names() -> list[str]:
    """Names that `load` knows.

    >>> names()[:3]
    ['digits', 'cifar10', 'svhn']
    """
    return list(SOURCES)


def load(
    name_or_path: str | Path, image_size: int | None = None, features: Sequence[str] | None = None
) -> Source:
    """A labelled set by name, or by the path of a .npz (MedMNIST's layout) or .mat (SVHN's layout) file;
    bags of one's own by the path of a manifest (.csv, .parquet) or of a folder of feature files.

    The files of a named set are looked for in the folder that MAJORITY_DATA names, then in the user
    cache; absent ones are downloaded into the cache from their authors' addresses.

    `image_size` (pixels a side) and `features` (names of columns) are for manifests.

    >>> load("digits").store.shape
    (1797, 8, 8, 1)
    """
    if is_custom_source(name_or_path):
        from .custom.load import load_custom

        wish = ReadOptions(image_size=as_pixel_size(image_size), features=tuple(features) if features else None)
        return load_custom(Path(name_or_path).expanduser(), wish)
    if image_size or features:
        given = "an image size" if image_size else "features"
        raise InputError(f"{given} given for {name_or_path}: only a manifest of your own takes it; leave it out")
    if name_or_path in SOURCES:
        return SOURCES[name_or_path].load()
    path = Path(name_or_path).expanduser()
    suffix = path.suffix.lower()
    looks_like_path = isinstance(name_or_path, Path) or path.name != name_or_path or suffix in READERS
    if not os.path.exists(path):
        raise InputError(f"there is no file {path}: check the path") if looks_like_path else _unknown(name_or_path)
    if suffix not in READERS or not path.is_file():
        raise InputError(
            f"{path} is not a file that ends in .npz, .mat, .csv or .parquet: give one, a folder of feature files, "
            f"or a name ({', '.join(SOURCES)})"
        )
    return READERS[suffix](path)


def is_custom_source(name_or_path: str | Path) -> bool:
    """Whether it is a manifest or a folder, whose bags are taken as they are."""
    return name_or_path not in SOURCES and is_custom(Path(name_or_path).expanduser())


def describe() -> list[SourceInfo]:
    """Every named source, without reading any data.

    >>> describe()[0].name, describe()[0].here
    ('digits', True)
    """
    return [_describe(source) for source in SOURCES.values()]


def _describe(source: NamedSource) -> SourceInfo:
    here, where = _place(source)
    return SourceInfo(source.name, here, where, source.classes, source.instances, source.shape, source.licence)


def _place(source: NamedSource) -> tuple[bool, str]:
    if not source.files:
        return True, "inside scikit-learn"
    paths = [find(name) for name in source.files]
    if all(paths):
        return True, str(paths[0] if len(paths) == 1 else paths[0].parent)
    archive = source.archive and find(source.archive)
    return bool(archive), str(archive or PUBLISHED[source.archive or source.files[0]].url)


def _unknown(name: str) -> InputError:
    if name in medmnist.LEFT_OUT:
        return InputError(f"{name} is not offered, as {medmnist.LEFT_OUT[name]}: give one of {', '.join(SOURCES)}")
    kinds = ", or a path to .npz, .mat, .csv or .parquet, or a folder of feature files"
    return unknown_name("source", name, SOURCES, kinds)


def check_source(source: str | Path, image_size: int | None = None, features: tuple[str, ...] | None = None) -> Check:
    """Of bags of one's own everything is read and checked; a labelled set was checked when it loads."""
    from .custom.load import Check
    from .custom.load import check as check_custom

    if is_custom_source(source):
        return check_custom(Path(source).expanduser(), image_size, features)
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
