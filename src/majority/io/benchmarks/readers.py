"""Files of labelled instances: .npz in MedMNIST's layout, with images or vectors, and .mat in that of SVHN."""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError
from ...files import check_expansion
from .labelled import LabelledSet

LAYOUT = (
    "MedMNIST's layout is train_images and train_labels, and optionally test_images and test_labels; for vectors "
    "train_features and test_features in place of the images; patients or groups of every split, or of none"
)
GROUP_NAMES = ("patients", "groups")


def load_npz(path: Path, name: str | None = None, classes: tuple[str, ...] | None = None) -> LabelledSet:
    """The training and test instances of a file together; `{split}_patients` or `{split}_groups` become the groups, and
    val_* is not used.

    Without `classes`, the classes are the sorted label values.
    """
    arrays = _try_to_read(path, _read_npz)
    kind = "features" if "train_features" in arrays and "train_images" not in arrays else "images"
    splits = ["train", "test"] if {f"test_{kind}", "test_labels"} & arrays.keys() else ["train"]
    given = [what for what in GROUP_NAMES if any(f"{split}_{what}" in arrays for split in splits)][:1]
    for key in [f"{split}_{what}" for split in splits for what in (kind, "labels", *given)]:
        if key not in arrays:
            raise InputError(f"{path} has no array {key}: {LAYOUT}")
    parts = [_instances(path, f"{split}_{kind}", arrays[f"{split}_{kind}"]) for split in splits]
    if len({part.shape[1:] for part in parts}) > 1:
        shapes = " and ".join(str(part.shape[1:]) for part in parts)
        raise InputError(f"{path}: train_{kind} and test_{kind} have shapes {shapes}: give all the same shape")

    def column(what: str) -> np.ndarray:
        names = [f"{split}_{what}" for split in splits]
        return np.concatenate([_column(path, n, arrays[n], len(part)) for n, part in zip(names, parts, strict=True)])

    labels = column("labels")
    if classes is None:
        labels, classes = _number(path, labels)
    groups = column(given[0]) if given else None
    return LabelledSet(name or path.stem, np.concatenate(parts), labels, classes, groups=groups)


def load_mat(path: Path) -> LabelledSet:
    """One .mat file in SVHN's layout; the classes are the digits that occur in it."""
    images, digits = read_mat(path)
    return LabelledSet(path.stem, images, *_number(path, digits))


def read_mat(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """X (h, w, 3, n) and y (n, 1), with 10 for the digit 0, as images (n, h, w, 3) and digits (n,)."""
    content = _try_to_read(path, _read_mat)
    if not {"X", "y"} <= content.keys():
        raise InputError(f"{path} has no X or no y: SVHN's layout is X (h, w, 3, n) and y (n, 1)")
    images = _instances(path, "the images X", np.moveaxis(content["X"], -1, 0))
    digits = _column(path, "the labels y", content["y"], len(images))
    if digits.min() < 1 or digits.max() > 10:
        raise InputError(f"{path}: y has values outside 1 to 10: SVHN's labels are 1 to 10, with 10 for the digit 0")
    return np.ascontiguousarray(images), digits % 10


def _try_to_read(path: Path, read: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
    try:
        return read(path)
    except InputError:
        raise
    except Exception as error:  # numpy, zipfile, zlib and scipy raise different exceptions for a damaged file
        cure = "it is damaged, or has another format; download it or save it again"
        raise InputError(f"{path} cannot be read as {path.suffix} file ({error}): {cure}") from error


def _read_npz(path: Path) -> dict[str, Any]:
    """The arrays that are used; object arrays, which need pickle, are refused."""
    wanted = {f"{s}_{what}" for s in ("train", "test") for what in ("images", "features", "labels", *GROUP_NAMES)}
    with zipfile.ZipFile(path) as members:
        sizes = {member.filename.removesuffix(".npy"): member.file_size for member in members.infolist()}
    check_expansion(path, sum(sizes.get(name, 0) for name in wanted))
    with np.load(path, allow_pickle=False) as content:
        return {key: np.asarray(content[key]) for key in sorted(wanted & {*content.files})}


def _read_mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat, whosmat

    shapes = {name: shape for name, shape, _ in whosmat(path)}
    check_expansion(path, sum(math.prod(shapes.get(name, (0,))) for name in ("X", "y")))
    return {name: np.asarray(values) for name, values in loadmat(path, variable_names=("X", "y")).items()}


def _instances(path: Path, what: str, values: np.ndarray) -> np.ndarray:
    values = values[..., None] if values.dtype == np.uint8 and values.ndim == 3 else values  # grey
    images = values.dtype == np.uint8 and values.ndim == 4 and values.shape[3] in (1, 3)
    vectors = values.dtype.kind == "f" and values.ndim == 2
    if 0 in values.shape or not (vectors if what.endswith("features") else images):
        raise InputError(
            f"{path}: {what} have dtype {values.dtype} and shape {values.shape}: save at least one: 8-bit (uint8) "
            "images with 1 or 3 channels, or floating-point vectors as features"
        )
    return values


def _column(path: Path, what: str, values: np.ndarray, count: int) -> np.ndarray:
    """(n,), (n, 1) or (1, n) integers or text -> (n,), one per instance."""
    if values.dtype.kind == "f" and (values % 1 == 0).all():  # as MATLAB saves integers
        values = values.astype(np.int64)
    if values.dtype.kind not in "iuU" or values.size != count or max(values.shape, default=0) != count:
        raise InputError(
            f"{path}: {what} have dtype {values.dtype} and shape {values.shape}: save exactly one integer or text for "
            f"each of the {count} instances"
        )
    return values.reshape(count) if values.dtype.kind == "U" else values.reshape(count).astype(np.int64)


def _number(path: Path, values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    """Label values of any type -> class numbers from 0, and the class names in the order of the values."""
    found, labels = np.unique(values, return_inverse=True)
    if len(found) < 2:
        raise InputError(f"{path} has only the class {found[0]}: give instances of at least two classes")
    return labels, tuple(str(value) for value in found)
