"""Files of labelled instances: .npz in MedMNIST's layout, with images or vectors, and .mat in that of SVHN."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...files import check_expansion
from .labelled import LabelledSet

LAYOUT = (
    "MedMNIST's layout is train_images and train_labels, and optionally test_images and test_labels; for vectors "
    "train_features and test_features in place of the images"
)
GROUP_NAMES = ("patients", "groups")


def load_npz(path: Path, name: str | None = None, classes: tuple[str, ...] | None = None) -> LabelledSet:
    """The training and test instances of a file together; `{split}_patients` or `{split}_groups` become the groups, and
    val_* is not used.

    Without `classes`, the classes are the sorted label values.
    """
    arrays = _read_npz(path)
    kind = "features" if "train_features" in arrays and "train_images" not in arrays else "images"
    splits = ["train", "test"] if {f"test_{kind}", "test_labels"} & arrays.keys() else ["train"]
    parts = {}
    for split in splits:
        found = _get(path, arrays, f"{split}_{kind}")
        grey = kind == "images" and found.ndim == 3
        parts[split] = found[..., None] if grey else found
        _check_instances(path, f"{split}_{kind}", parts[split])
    if len({part.shape[1:] for part in parts.values()}) > 1:
        shapes = ", ".join(f"{split}_{kind} {part.shape[1:]}" for split, part in parts.items())
        raise InputError(f"{path}: {shapes}: give all {kind} the same shape")

    def column(what: str) -> np.ndarray:
        columns = [_column(path, f"{s}_{what}", _get(path, arrays, f"{s}_{what}"), len(parts[s])) for s in splits]
        return np.concatenate(columns)

    labels = column("labels")
    if classes is None:
        labels, classes = _number(path, labels)
    elif labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= len(classes):
        raise InputError(f"{path} has labels outside 0 to {len(classes) - 1}: it is not {name}; download it again")
    given = [what for what in GROUP_NAMES if any(f"{split}_{what}" in arrays for split in splits)]
    groups = column(given[0]) if given else None
    return LabelledSet(name or path.stem, np.concatenate([*parts.values()]), labels, classes, groups=groups)


def load_mat(path: Path) -> LabelledSet:
    """One .mat file in SVHN's layout; the classes are the digits that occur in it."""
    images, digits = read_mat(path)
    labels, classes = _number(path, digits)
    return LabelledSet(path.stem, images, labels, classes)


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """X (h, w, 3, n) and y (n, 1), with 10 for the digit 0, as images (n, h, w, 3) and digits (n,)."""
    from scipy.io import loadmat, whosmat

    try:
        shapes = {name: shape for name, shape, _ in whosmat(path)}
        check_expansion(path, sum(math.prod(shapes.get(name, (0,))) for name in ("X", "y")))
        content = loadmat(path, variable_names=("X", "y"))
    except InputError:
        raise
    except Exception as error:  # SciPy and zlib raise different exceptions for a damaged file
        raise _unreadable(path, error) from error
    missing = [key for key in ("X", "y") if key not in content]
    if missing:
        raise InputError(f"{path} has no {' and no '.join(missing)}: SVHN's layout is X (h, w, 3, n) and y (n, 1)")
    images = np.moveaxis(content["X"], -1, 0)
    _check_instances(path, "the images X", images)
    labels = _flat(path, "the labels y", content["y"], len(images))
    wrong = np.flatnonzero(~np.isin(labels, range(1, 11)))
    if len(wrong):
        raise InputError(
            f"{path}: y[{wrong[0]}] is {labels[wrong[0]]}: SVHN's labels run from 1 to 10, with 10 for the digit 0"
        )
    return np.ascontiguousarray(images), labels.astype(np.int64) % 10


def _read_npz(path: Path) -> dict[str, Any]:
    """The arrays that are used; object arrays, which need pickle, are refused."""
    wanted = {f"{s}_{what}" for s in ("train", "test") for what in ("images", "features", "labels", *GROUP_NAMES)}
    try:
        with zipfile.ZipFile(path) as members:
            sizes = {member.filename.removesuffix(".npy"): member.file_size for member in members.infolist()}
        check_expansion(path, sum(sizes.get(name, 0) for name in wanted))
        with np.load(path, allow_pickle=False) as content:
            arrays = {key: content[key] for key in sorted(wanted & set(content.files))}
    except InputError:
        raise
    except Exception as error:  # numpy, zipfile and zlib raise different exceptions for a damaged file
        raise _unreadable(path, error) from error
    return {key: array for key, array in arrays.items() if isinstance(array, np.ndarray)}


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path} cannot be read as {path.suffix} file ({error}): "
        "it is damaged, or has another format; download it or save it again"
    )


def _get(path: Path, arrays: dict[str, Any], key: str) -> np.ndarray:
    if key not in arrays:
        layout = f"give the {key.partition('_')[2]} of every split, or of none" if key.endswith(GROUP_NAMES) else LAYOUT
        raise InputError(f"{path} has no array {key}: {layout}")
    found: np.ndarray = arrays[key]
    return found


def _check_instances(path: Path, what: str, values: np.ndarray) -> None:
    images = values.dtype == np.uint8 and values.ndim == 4 and values.shape[3] in (1, 3)
    vectors = values.dtype.kind == "f" and values.ndim == 2
    if 0 in values.shape or not (vectors if what.endswith("features") else images):
        raise InputError(
            f"{path}: {what} have dtype {values.dtype} and shape {values.shape}: save at least one: 8-bit (uint8) "
            "images with 1 or 3 channels, or floating-point vectors as features"
        )


def _column(path: Path, what: str, values: np.ndarray, count: int) -> np.ndarray:
    if values.dtype.kind not in "iuU":
        raise InputError(f"{path}: {what} have dtype {values.dtype}: save integers or text")
    values = _flat(path, what, values, count)
    return values if values.dtype.kind == "U" else values.astype(np.int64)


def _flat(path: Path, what: str, values: np.ndarray, count: int) -> np.ndarray:
    """(n,), (n, 1) or (1, n) values -> (n,), one per image."""
    if values.size != count or max(values.shape, default=0) != count:
        raise InputError(
            f"{path}: {what} have shape {values.shape}: save exactly one for each of the {count} instances"
        )
    return values.reshape(count)


def _number(path: Path, values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Label values of any type -> class numbers from 0, and the class names in the order of the values."""
    found, labels = np.unique(values, return_inverse=True)
    if len(found) < 2:
        raise InputError(f"{path} has only the class {found[0]}: give instances of at least two classes")
    return labels, tuple(str(value) for value in found)
