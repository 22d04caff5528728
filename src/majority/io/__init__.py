"""Sources of bags: labelled sets, from which benchmark bags are made, and bags of your own in a table or a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from ..errors import InputError
from ..files import missing_file, user_path
from ..registry import load_plugins, register
from .base import Parts, Source
from .benchmarks import cifar, digits, medmnist, svhn
from .benchmarks.catalogue import SOURCES, NamedSource, OurSource
from .benchmarks.fetch import find
from .benchmarks.labelled import LabelledSet
from .benchmarks.labelled_files import load_mat, load_npz
from .benchmarks.published import PUBLISHED
from .custom import ColumnNames, CustomBags, ReadOptions, as_pixel_size, is_custom

if TYPE_CHECKING:
    from .custom.load import SourceCheck

__all__ = [
    "SOURCES",
    "CustomBags",
    "LabelledSet",
    "NamedSource",
    "Parts",
    "Source",
    "SourceInfo",
    "check_source",
    "describe",
    "is_custom_source",
    "load",
    "names",
]

for named_source in (*digits.SOURCES, *cifar.SOURCES, *svhn.SOURCES, *medmnist.SOURCES):
    register(named_source)

PURPOSES = ("train", "predict")
LOADERS = {".npz": load_npz, ".mat": load_mat}  # by the suffix of a file of labelled instances


@dataclass(frozen=True)
class SourceInfo:
    """A named source, whether its files are on this machine, and where they are or can be downloaded."""

    name: str
    available: bool
    location: str
    classes: tuple[str, ...]
    instances: int | None
    shape: tuple[int, ...] | None  # of one instance
    licence: str


def names() -> list[str]:
    """The names that `load` knows.

    >>> names()[:3]
    ['digits', 'cifar10', 'svhn']
    """
    load_plugins()
    return list(SOURCES)


@overload
def load(name_or_path: OurSource) -> LabelledSet: ...
@overload
def load(
    name_or_path: str | Path,
    image_size: int | None = None,
    features: Sequence[str] | None = None,
    *,
    bag_column: str | None = None,
    label_column: str | None = None,
    path_column: str | None = None,
    labels: bool = True,
) -> Source: ...
def load(
    name_or_path: str | Path,
    image_size: int | None = None,
    features: Sequence[str] | None = None,
    *,
    bag_column: str | None = None,
    label_column: str | None = None,
    path_column: str | None = None,
    labels: bool = True,
) -> Source:
    """Load a source by its name or path.

    A labelled set has a name, or is a .npz file (MedMNIST's layout) or a .mat file (SVHN's layout). Bags of your own
    are a manifest (.csv, .tsv, .parquet), a folder of feature files, or a folder of images per bag.

    The files of a named set are searched for in the folder that MAJORITY_DATA names, then in the user cache. Missing
    files are downloaded into the cache from their authors' addresses.

    `image_size` (pixels per side) and `features` (names of columns) apply to manifests only. `bag_column`,
    `label_column` (the label of the bag) and `path_column` are the names of these columns in a table of yours. With
    `labels=False`, bags of your own need no labels, and none are read: such bags can be classified, but not trained on.

    >>> load("digits").store.shape
    (1797, 8, 8, 1)
    """
    names = ColumnNames(bag_column, label_column, path_column)
    if is_custom_source(name_or_path):
        from .custom.load import load_custom

        options = ReadOptions(
            labels=labels,
            training=labels,
            image_size=as_pixel_size(image_size),
            features=tuple(features) if features is not None and len(features) else None,
            names=names,
        )
        return load_custom(user_path(name_or_path), options)
    if not labels:
        raise InputError(f"labels=False given for {name_or_path}: it is a labelled set; leave it out")
    return _load_labelled(name_or_path, image_size, features, names)


def is_custom_source(name_or_path: str | Path) -> bool:
    """Whether this is a manifest or a folder, whose bags are used as they are."""
    return is_custom(user_path(name_or_path)) and not _is_registered(name_or_path)


def note_on_name(source: str) -> str | None:
    """A note where a name stands for a named source and for a file or folder; None otherwise."""
    if not os.path.exists(source) or not _is_registered(source):
        return None
    kind = "folder" if os.path.isdir(source) else "file"
    return f"{source} is the built-in data set; for the {kind} of this name write {os.path.join('.', source)}"


def describe() -> list[SourceInfo]:
    """All named sources; no data are read.

    >>> describe()[0].name, describe()[0].available
    ('digits', True)
    """
    load_plugins()
    return [_describe(source) for source in SOURCES.values()]


def check_source(
    source: str | Path,
    image_size: int | None = None,
    features: tuple[str, ...] | None = None,
    *,
    bag_column: str | None = None,
    label_column: str | None = None,
    path_column: str | None = None,
    purpose: str = "train",
) -> SourceCheck:
    """For your own bags, all files are read and checked. A labelled set is loaded, which checks it.

    With the purpose "predict", labels are not read, and no warnings about training are given.
    """
    from .custom.load import SourceCheck
    from .custom.load import check as check_custom

    if purpose not in PURPOSES:
        raise InputError(f"purpose {purpose}: give {' or '.join(PURPOSES)}")
    names = ColumnNames(bag_column, label_column, path_column)
    if is_custom_source(source):
        training = purpose == "train"
        options = ReadOptions(
            labels=training,
            training=training,
            image_size=as_pixel_size(image_size),
            features=features,
            names=names,
        )
        return check_custom(user_path(source), options)
    return SourceCheck(_summary(_load_labelled(source, image_size, features, names)))


def _is_registered(name: str | Path) -> bool:
    if name not in SOURCES:
        load_plugins()
    return name in SOURCES


def _load_labelled(
    name_or_path: str | Path, image_size: int | None, features: Sequence[str] | None, names: ColumnNames
) -> LabelledSet:
    if image_size or (features is not None and len(features)) or names != ColumnNames():
        option = "an image size" if image_size else "features" if features else "the name of a column"
        raise InputError(f"{option} given for {name_or_path}: it applies only to a manifest of your own; leave it out")
    if _is_registered(name_or_path):
        return _load_named(SOURCES[str(name_or_path)])
    path = user_path(name_or_path)
    suffix = path.suffix.lower()
    if not os.path.exists(path):
        if isinstance(name_or_path, Path) or path.name != name_or_path or suffix:
            raise missing_file(path)
        return _load_named(_find(name_or_path))
    if suffix not in LOADERS or not path.is_file():
        raise InputError(
            f"{path} is not a file that ends in .npz, .mat, .csv, .tsv or .parquet: give one (save a spreadsheet as "
            f"CSV), a folder of your bags, or a name ({', '.join(SOURCES)})"
        )
    return LOADERS[suffix](path)


def _find(name: str) -> NamedSource:
    if name in medmnist.LEFT_OUT:
        raise InputError(f"{name} is not offered, because {medmnist.LEFT_OUT[name]}: give one of {', '.join(SOURCES)}")
    return SOURCES.find(name, ", or a path to .npz, .mat, .csv, .tsv or .parquet, or a folder of your bags")


def _load_named(source: NamedSource) -> LabelledSet:
    loaded = source.load()
    if not isinstance(loaded, LabelledSet):
        raise InputError(
            f"the load function of source {source.name} returned an object of type {type(loaded).__name__}: "
            "return a LabelledSet"
        )
    return replace(loaded, kind=source.name)


def _describe(source: NamedSource) -> SourceInfo:
    available, location = _locate(source)
    return SourceInfo(source.name, available, location, source.classes, source.instances, source.shape, source.licence)


def _locate(source: NamedSource) -> tuple[bool, str]:
    if not source.files:
        return True, source.location
    paths = [path for path in map(find, source.files) if path is not None]
    if len(paths) == len(source.files):
        return True, str(paths[0] if len(paths) == 1 else paths[0].parent)
    archive = find(source.archive) if source.archive else None
    return archive is not None, str(archive or PUBLISHED[source.archive or source.files[0]].url)


def _summary(labelled: LabelledSet) -> dict[str, str]:
    counts = np.bincount(labelled.labels, minlength=len(labelled.classes))
    shape = "x".join(map(str, labelled.store.shape[1:]))
    groups = "none" if labelled.groups is None else f"{len(np.unique(labelled.groups)):,}"
    return {
        "instances": f"{len(labelled.labels):,} of {shape}, each with its class: bags are made from them",
        "classes": ", ".join(f"{name} {count:,}" for name, count in zip(labelled.classes, counts, strict=True)),
        "groups": groups,
    }
