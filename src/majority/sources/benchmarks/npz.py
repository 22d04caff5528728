"""Any .npz file in MedMNIST's layout: train_images, train_labels, and optionally test_*; val_* is not used."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from ...errors import InputError
from ...files import check_expansion
from .array_checks import check_images, describe_array, flatten_column, number_labels
from .labelled import LabelledSet

LAYOUT = "MedMNIST's layout is train_images and train_labels, and optionally test_images and test_labels"
GROUP_NAMES = ("patients", "groups")


def load_npz(path: Path, name: str | None = None, classes: tuple[str, ...] | None = None) -> LabelledSet:
    """The training and test images of a file together; `{split}_patients` or `{split}_groups` become the groups.

    Without `classes`, the classes are the sorted label values.
    """
    arrays = _read_arrays(path)
    splits = ["train", "test"] if {"test_images", "test_labels"} & arrays.keys() else ["train"]
    images = np.concatenate(_images(path, arrays, splits))
    labels = np.concatenate([_labels(path, arrays, split) for split in splits])
    if classes is None:
        labels, classes = number_labels(path, labels)
    elif labels.dtype.kind not in "iu" or labels.min() < 0 or labels.max() >= len(classes):
        raise InputError(f"{path} has labels outside 0 to {len(classes) - 1}: it is not {name}; download it again")
    return LabelledSet(name or path.stem, images, labels, classes, groups=_groups(path, arrays, splits))


def _read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays that are used; object arrays, which need pickle, are refused."""
    wanted = {f"{s}_{what}" for s in ("train", "test") for what in ("images", "labels", *GROUP_NAMES)}
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


def _images(path: Path, arrays: dict[str, np.ndarray], splits: list[str]) -> list[np.ndarray]:
    parts = []
    for split in splits:
        images = _get(path, arrays, f"{split}_images")
        images = images[..., None] if images.ndim == 3 else images  # grey: (n, h, w) -> (n, h, w, 1)
        check_images(path, f"{split}_images", images)
        parts.append(images)
    shapes = [images.shape[1:] for images in parts]
    if shapes[0] != shapes[-1]:
        raise InputError(
            f"{path}: train_images are {shapes[0]} each, test_images {shapes[-1]}: give all images the same shape"
        )
    return parts


def _labels(path: Path, arrays: dict[str, np.ndarray], split: str) -> np.ndarray:
    key = f"{split}_labels"
    return _numbers_or_text(path, key, _get(path, arrays, key), len(arrays[f"{split}_images"]))


def _groups(path: Path, arrays: dict[str, np.ndarray], splits: list[str]) -> np.ndarray | None:
    for kind in GROUP_NAMES:
        keys = [f"{split}_{kind}" for split in splits]
        if not set(keys) & arrays.keys():
            continue
        for key in keys:
            if key not in arrays:
                raise InputError(f"{path} has no array {key}: give the {kind} of every split, or of none")
        counts = [len(arrays[f"{split}_images"]) for split in splits]
        parts = [_numbers_or_text(path, key, arrays[key], count) for key, count in zip(keys, counts, strict=True)]
        return np.concatenate(parts)
    return None


def _numbers_or_text(path: Path, key: str, values: np.ndarray, count: int) -> np.ndarray:
    if values.dtype.kind not in "iuU":
        raise InputError(f"{path}: {key} have {describe_array(values)}: save integers or text")
    values = flatten_column(path, key, values, count)
    return values if values.dtype.kind == "U" else values.astype(np.int64)
