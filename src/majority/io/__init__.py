"""Sources of bags: labelled sets, from which benchmark bags are made, and bags of your own in a table or a folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from ..errors import InputError
from ..files import missing_file, user_path
from ..registry import load_plugins
from .base import Parts, Source
from .benchmarks.catalogue import SOURCES, NamedSource
from .benchmarks.labelled import LabelledSet
from .benchmarks.ours import OurSource
from .benchmarks.readers import load_mat, load_npz
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
    "check_source",
    "describe",
    "is_custom_source",
    "load",
    "names",
]

PURPOSES = ("train", "predict")
LOADERS = {".npz": load_npz, ".mat": load_mat}  # by the suffix of a file of labelled instances


def names() -> list[str]:
    """The names that `load` knows.

    >>> names()[:3]
    ['digits', 'cifar10', 'svhn']
    """
    load_plugins()
    return list(SOURCES)


def describe() -> list[NamedSource]:
    """All named sources; no data are read.

    >>> describe()[0].name, describe()[0].locate()
    ('digits', (True, 'inside scikit-learn'))
    """
    load_plugins()
    return list(SOURCES.values())


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

    `image_size`, `features` and names of columns apply to manifests only. With `labels=False`, bags of your own need no
    labels, and none are read: such bags can be classified, but not trained on.

    Args:
        name_or_path: A name of `majority list`, or a file or folder.
        image_size: Pixels per side to which images are resized.
        features: The columns that are features (default: all that can be).
        bag_column: Names the bag (default: bag).
        label_column: Has the label of the bag (default: bag_label).
        path_column: Names the image (default: path).
        labels: Whether bags need labels.

    >>> load("digits").store.shape
    (1797, 8, 8, 1)
    """
    options = _options(labels, image_size, features, ColumnNames(bag_column, label_column, path_column))
    if is_custom_source(name_or_path):
        from .custom.load import load_custom

        return load_custom(user_path(name_or_path), options)
    return _load_labelled(name_or_path, options)


def is_custom_source(name_or_path: str | Path) -> bool:
    """Whether this is a manifest or a folder, whose bags are used as they are."""
    return is_custom(user_path(name_or_path)) and str(name_or_path) not in names()


def note_on_name(source: str) -> str | None:
    """A note where a name stands for a named source and for a file or folder; None otherwise."""
    if not os.path.exists(source) or source not in names():
        return None
    return f"{source} is the built-in data set; for the file or folder of this name write {os.path.join('.', source)}"


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
    from .custom.load import SourceCheck, check

    if purpose not in PURPOSES:
        raise InputError(f"purpose {purpose}: give {' or '.join(PURPOSES)}")
    training, names = purpose == "train", ColumnNames(bag_column, label_column, path_column)
    if is_custom_source(source):
        return check(user_path(source), _options(training, image_size, features, names))
    labelled = _load_labelled(source, _options(True, image_size, features, names))
    counts = np.bincount(labelled.labels, minlength=len(labelled.classes))
    shape = "x".join(map(str, labelled.store.shape[1:]))
    summary = {
        "instances": f"{len(labelled.labels):,} of {shape}, each with its class: bags are made from them",
        "classes": ", ".join(f"{name} {count:,}" for name, count in zip(labelled.classes, counts, strict=True)),
        "groups": "none" if labelled.groups is None else f"{len(np.unique(labelled.groups)):,}",
    }
    return SourceCheck(summary, warnings=[*filter(None, [note_on_name(str(source))])])


def _options(labels: bool, image_size: int | None, features: Sequence[str] | None, names: ColumnNames) -> ReadOptions:
    chosen = None if features is None else tuple(features) or None
    return ReadOptions(labels, training=labels, image_size=as_pixel_size(image_size), features=chosen, names=names)


def _load_labelled(name_or_path: str | Path, options: ReadOptions) -> LabelledSet:
    if options != ReadOptions():
        what = "a size of images, names of columns and labels=False are for bags of your own"
        raise InputError(f"{name_or_path} is a labelled set: {what}: leave them out")
    path, name = user_path(name_or_path), str(name_or_path)
    if name not in names() and path.is_file() and path.suffix.lower() in LOADERS:
        return LOADERS[path.suffix.lower()](path)
    if name not in names() and os.path.exists(path):
        raise InputError(
            f"{path} is not a file that ends in .npz, .mat, .csv, .tsv or .parquet: give one (save a spreadsheet as "
            f"CSV), a folder of your bags, or a name ({', '.join(SOURCES)})"
        )
    if name not in names() and (isinstance(name_or_path, Path) or path.name != name or path.suffix):
        raise missing_file(path)
    source = SOURCES.find(name, ", or a path to .npz, .mat, .csv, .tsv or .parquet, or a folder of your bags")
    loaded = source.load()
    if not isinstance(loaded, LabelledSet):
        found = f"the load function of source {name} returned an object of type {type(loaded).__name__}"
        raise InputError(f"{found}: return a LabelledSet")
    return replace(loaded, kind=name)
