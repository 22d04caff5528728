"""Any .npz file in MedMNIST's layout: train_images, train_labels, and optionally test_*; val_* is not used.

Vectors have the same layout, with train_features in place of train_images.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...files import check_expansion
from .array_checks import check_images, check_vectors, describe_array, flatten_column, number_labels
from .labelled import LabelledSet

LAYOUT = (
    "MedMNIST's layout is train_images and train_labels, and optionally test_images and test_labels; for vectors "
    "train_features and test_features in place of the images"
)
GROUP_NAMES = ("patients", "groups")


def load_npz(path: Path, name: str | None = None, classes: tuple[str, ...] | None = None) -> LabelledSet:
    """The training and test instances of a file together; `{split}_patients` or `{split}_groups` become the groups.

    Without `classes`, the classes are the sorted label values.
    """
    arrays = _read_arrays(path)
    kind = "features" if "train_features" in arrays and "train_images" not in arrays else "images"
    splits = ["train", "test"] if {f"test_{kind}", "test_labels"} & arrays.keys() else ["train"]
    store = np.concatenate(_instances(path, arrays, splits, kind))
    sizes = [len(arrays[f"{split}_{kind}"]) for split in splits]
    labels = np.concatenate([_labels(path, arrays, split, n) for split, n in zip(splits, sizes, strict=True)])
    if classes is None:
        labels, classes = number_labels(path, labels)
    elif labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= len(classes):
        raise InputError(f"{path} has labels outside 0 to {len(classes) - 1}: it is not {name}; download it again")
    return LabelledSet(name or path.stem, store, labels, classes, groups=_groups(path, arrays, splits, sizes))


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
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
        raise InputError(
            f"{path} cannot be read as an .npz file ({error}): "
            "it is damaged, or has another format; download it or save it (numpy.savez) again"
        ) from error
    for key in arrays:
        if not isinstance(arrays[key], np.ndarray):
            raise InputError(f"{path}: {key} is not an array: save it again with numpy.savez")
    return arrays


def _get(path: Path, arrays: dict[str, np.ndarray], key: str) -> np.ndarray:
    if key not in arrays:
        raise InputError(f"{path} has no array {key}: {LAYOUT}")
    return arrays[key]


def _instances(path: Path, arrays: dict[str, np.ndarray], splits: list[str], kind: str) -> list[np.ndarray]:
    parts = []
    for split in splits:
        values = _get(path, arrays, f"{split}_{kind}")
        if kind == "images":
            values = values[..., None] if values.ndim == 3 else values  # grey: (n, h, w) -> (n, h, w, 1)
            check_images(path, f"{split}_images", values)
        else:
            check_vectors(path, f"{split}_features", values)
        parts.append(values)
    shapes = [values.shape[1:] for values in parts]
    if shapes[0] != shapes[-1]:
        raise InputError(
            f"{path}: train_{kind} are {shapes[0]} each, test_{kind} {shapes[-1]}: give all {kind} the same shape"
        )
    return parts


def _labels(path: Path, arrays: dict[str, np.ndarray], split: str, count: int) -> np.ndarray:
    key = f"{split}_labels"
    return _numbers_or_text(path, key, _get(path, arrays, key), count)


def _groups(path: Path, arrays: dict[str, np.ndarray], splits: list[str], counts: list[int]) -> np.ndarray | None:
    for kind in GROUP_NAMES:
        keys = [f"{split}_{kind}" for split in splits]
        if not set(keys) & arrays.keys():
            continue
        for key in keys:
            if key not in arrays:
                raise InputError(f"{path} has no array {key}: give the {kind} of every split, or of none")
        parts = [_numbers_or_text(path, key, arrays[key], count) for key, count in zip(keys, counts, strict=True)]
        return np.concatenate(parts)
    return None


def _numbers_or_text(path: Path, key: str, values: np.ndarray, count: int) -> np.ndarray:
    if values.dtype.kind not in "iuU":
        raise InputError(f"{path}: {key} have {describe_array(values)}: save integers or text")
    values = flatten_column(path, key, values, count)
    return values if values.dtype.kind == "U" else values.astype(np.int64)
