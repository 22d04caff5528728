"""One feature file with one row per instance: its content and its errors. The suffix decides how it is read."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..files import check_expansion
from .columns import as_array

H5_SUFFIXES = (".h5", ".hdf5")
SUFFIXES = (".npy", ".npz", *H5_SUFFIXES, ".pt", ".pth")
FLOATS = tuple(map(np.dtype, ("float16", "float32", "float64")))


class FeatureFileError(InputError):
    """An error in one file, and its cure."""

    def __init__(self, path: Path, what: str, cure: str):
        super().__init__(f"{path} {what}: {cure}")
        self.path, self.what, self.cure = path, what, cure


@dataclass(frozen=True, eq=False)
class FeatureFile:
    path: Path
    rows: int
    width: int
    dtype: np.dtype
    coordinates: np.ndarray | None  # (n, 2)
    offset: int | None = None  # byte offset of the first row in an .npy file whose rows lie one after the other


def lower_suffix(path: str | Path) -> str:
    """Return the suffix that decides how a file is read; capitals do not matter.

    >>> lower_suffix("slide.1.NPY")
    '.npy'
    """
    return Path(path).suffix.lower()


def inspect_feature_file(path: str | Path) -> FeatureFile:
    """Open and check one feature file. `.npz`, `.pt` and `.pth` files are read as a whole.

    A FeatureFileError says what is wrong with the file.
    """
    path = Path(path)
    if lower_suffix(path) not in SUFFIXES or not path.is_file():
        raise FeatureFileError(path, "is no feature file", f"give a regular file, {', '.join(SUFFIXES)}")
    with open_arrays(path) as arrays:
        features, coordinates = arrays["features"], arrays.get("coords")
        shape, dtype = features.shape, features.dtype
        if len(shape) != 2 or 0 in shape:
            raise FeatureFileError(path, f"has features of shape {shape}", "save one row per instance, (n, d)")
        if dtype not in FLOATS:
            raise FeatureFileError(path, f"has features of dtype {dtype}", "save them as float16 or float32")
        if coordinates is not None and (coordinates.dtype.kind not in "iuf" or coordinates.shape != (shape[0], 2)):
            what = f"has {shape[0]} rows and coords of shape {coordinates.shape} and dtype {coordinates.dtype}"
            raise FeatureFileError(path, what, "save one (x, y) per row, as numbers")
        copied = None if coordinates is None else np.array(coordinates)  # a view of a tensor would keep all of it
        offset = features.offset if isinstance(features, np.memmap) and features.flags.c_contiguous else None
        return FeatureFile(path, int(shape[0]), int(shape[1]), np.dtype(dtype), copied, offset)


def check_compatible(file: FeatureFile, first: FeatureFile) -> None:
    if (file.width, file.dtype) != (first.width, first.dtype):
        what = f"has {file.width} features of {file.dtype}, {first.path} has {first.width} of {first.dtype}"
        raise FeatureFileError(file.path, what, "take all files from one feature extractor, in one dtype")


@contextmanager
def open_arrays(path: Path) -> Iterator[dict[str, Any]]:
    """Yield `features`, and `coords` if the file has them. Those of `.npy` and `.h5` files are not in memory."""
    with wrap_read_errors(path):
        suffix = lower_suffix(path)
        if suffix == ".npy":
            yield {"features": np.load(path, mmap_mode="r", allow_pickle=False)}
        elif suffix == ".npz":
            _check_archive(path)
            with np.load(path, allow_pickle=False) as archive:
                yield {name: archive[key] for name, key in _find_keys(path, archive.files).items()}
        elif suffix in H5_SUFFIXES:
            try:
                import h5py
            except ImportError:
                raise InputError(f"{path} needs the package h5py, which is not installed: pip install h5py") from None
            with h5py.File(path, "r") as file:
                links = [name for name in file if not isinstance(file.get(name, getlink=True), h5py.ExternalLink)]
                own = [name for name in links if isinstance(file[name], h5py.Dataset) and _is_in_file(file[name])]
                found = {name: file[key] for name, key in _find_keys(path, own, any_single_name=False).items()}
                for dataset in found.values():
                    check_expansion(path, dataset.size * dataset.dtype.itemsize)
                yield found
        else:
            yield _read_tensors(path)


def _is_in_file(dataset: Any) -> bool:
    """Whether its numbers are in the same file: others are never opened."""
    return not (dataset.external or dataset.is_virtual)


def _read_tensors(path: Path) -> dict[str, np.ndarray]:
    import torch

    if zipfile.is_zipfile(path):  # else the format of old versions, whose numbers are in the file as they are
        _check_archive(path)
    with warnings.catch_warnings(action="ignore"):  # of old formats
        content = torch.load(path, map_location="cpu", weights_only=True)
    content = {"features": content} if isinstance(content, torch.Tensor) else content
    if not isinstance(content, dict):
        what, cure = f"holds a {type(content).__name__}", "save a tensor (n, d) or a dict with 'features'"
        raise FeatureFileError(path, what, cure)
    arrays = {name: torch.as_tensor(content[key]) for name, key in _find_keys(path, list(content)).items()}
    for tensor in arrays.values():
        check_expansion(path, 4 * tensor.numel())  # strides may repeat a few numbers
    return {name: as_array(tensor) for name, tensor in arrays.items()}


@contextmanager
def wrap_read_errors(path: Path) -> Iterator[None]:
    """Turn any error about a damaged file into one clear message; each format raises its own."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = f"damaged, or no {path.suffix} file of plain numbers: {type(error).__name__}"
        raise FeatureFileError(path, f"cannot be read ({reason})", "write the file again or leave it out") from error


def _find_keys(path: Path, keys: Sequence[str], any_single_name: bool = True) -> dict[str, str]:
    """Return which key holds the features (a single array may have any name) and which the coordinates."""
    found = {name: name for name in ("features", "coords") if name in keys}
    if "features" in found:
        return found
    if any_single_name and len(keys) == 1:
        return {"features": keys[0]}
    holds = ", ".join(map(str, keys)) or "nothing"
    raise FeatureFileError(path, f"holds {holds}", "name its array of features 'features'")


def _check_archive(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        check_expansion(path, sum(member.file_size for member in archive.infolist()))
