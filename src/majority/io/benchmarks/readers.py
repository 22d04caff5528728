"""Files of labelled instances: .npz in MedMNIST's layout, with images or vectors, and .mat in that of SVHN."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import zipfile
from collections.abc import Callable, Mapping
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
SHAPES = "print(json.dumps({name: shape for name, shape, _ in whosmat(sys.argv[1])}))"
ARRAYS = "numpy.savez(sys.stdout.buffer, **loadmat(sys.argv[1], variable_names=['X', 'y']))"


def load_npz(path: Path, name: str | None = None, classes: tuple[str, ...] | None = None) -> LabelledSet:
    """The training and test instances of a file together; `{split}_patients` or `{split}_groups` become the groups, and
    val_* is not used.

    Without `classes`, the classes are the sorted label values.
    """
    return assemble(path, _try_to_read(path, _read_npz), name, classes)


def load_mat(path: Path) -> LabelledSet:
    """One .mat file in SVHN's layout; the classes are the digits that occur in it."""
    return assemble(path, read_mat(path))


def assemble(
    path: Path, arrays: Mapping[str, np.ndarray], name: str | None = None, classes: tuple[str, ...] | None = None
) -> LabelledSet:
    """A labelled set of arrays that are named as in MedMNIST's layout."""
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
        found, labels = np.unique(labels, return_inverse=True)
        if len(found) < 2:
            raise InputError(f"{path} has only the class {found[0]}: give instances of at least two classes")
        classes = tuple(map(str, found))
    groups = column(given[0]) if given else None
    return LabelledSet(name or path.stem, np.concatenate(parts), labels, classes, groups=groups)


def read_mat(path: Path, split: str = "train") -> dict[str, np.ndarray]:
    """X (h, w, 3, n) and y (n, 1), with 10 for the digit 0, as images (n, h, w, 3) and digits of this split."""
    content = _try_to_read(path, _read_mat)
    digits = content["y"]
    if not np.isin(digits, range(1, 11)).all():
        raise InputError(f"{path}: y has values that are no integers from 1 to 10: 10 stands for the digit 0")
    return {f"{split}_images": content["X"], f"{split}_labels": digits.astype(np.int64) % 10}


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
    shapes = json.loads(_scipy(SHAPES, path))
    if not {"X", "y"} <= shapes.keys():
        raise InputError(f"{path} has no X or no y: SVHN's layout is X (h, w, 3, n) and y (n, 1)")
    check_expansion(path, sum(math.prod(shapes[name]) for name in ("X", "y")))
    with np.load(io.BytesIO(_scipy(ARRAYS, path))) as content:
        return {"X": np.ascontiguousarray(np.moveaxis(content["X"], -1, 0)), "y": content["y"]}


def _scipy(code: str, path: Path) -> bytes:
    """What the code prints, in a process of its own: SciPy's reader may crash on damaged files."""
    imports = "import sys, json, numpy; from scipy.io import loadmat, whosmat;"
    ended = subprocess.run([sys.executable, "-P", "-c", f"{imports} {code}", path], capture_output=True)
    if ended.returncode:
        lines = ended.stderr.decode(errors="replace").splitlines()
        raise ValueError(lines[-1] if lines else "SciPy's reader crashed")
    return ended.stdout


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
    if values.dtype.kind not in "iuU" or values.size != count or max(values.shape, default=0) != count:
        raise InputError(
            f"{path}: {what} have dtype {values.dtype} and shape {values.shape}: save exactly one integer or text for "
            f"each of the {count} instances"
        )
    return values.reshape(count) if values.dtype.kind == "U" else values.reshape(count).astype(np.int64)
