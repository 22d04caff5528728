"""One feature file, a row an instance: what it holds, and what is wrong with it. Its ending says how it is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InputError

H5 = (".h5", ".hdf5")
SUFFIXES = (".npy", ".npz", *H5, ".pt", ".pth")
FLOATS = tuple(map(np.dtype, ("float16", "float32", "float64")))


class FeatureFileError(InputError):
    """What is wrong with one file, and its cure."""

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
    offset: int | None = None  # of the first row, where rows lie one after the other in an .npy file


def ending(path: str | Path) -> str:
    """The ending that says how a file is read; it may be in capitals.

    >>> ending("slide.1.NPY")
    '.npy'
    """
    return Path(path).suffix.lower()


def look(path: str | Path) -> FeatureFile:
    """Open one feature file; a FeatureFileError says what is wrong with it. `.npz`, `.pt` and `.pth` are read whole."""
    path = Path(path)
    if ending(path) not in SUFFIXES:
        raise FeatureFileError(path, "is no feature file", f"give {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise FeatureFileError(path, "is not there", "correct its name or leave it out")
    if ending(path) == ".npy":
        with wrap_read_errors(path):
            mapped = np.load(path, mmap_mode="r", allow_pickle=False)
        in_place = isinstance(mapped, np.memmap) and mapped.flags.c_contiguous
        return _checked(path, mapped, None, mapped.offset if in_place else None)
    if ending(path) in H5:
        with with_h5(path) as file:
            return _checked(path, file["features"], file.get("coords"))
    arrays = read_whole(path)
    return _checked(path, arrays["features"], arrays.get("coords"))


def check_alike(file: FeatureFile, first: FeatureFile) -> None:
    if file.width != first.width:
        what = f"has {file.width} features, {first.path} has {first.width}"
        raise FeatureFileError(file.path, what, "take all files from one extractor")
    if file.dtype != first.dtype:
        what = f"has dtype {file.dtype}, {first.path} has {first.dtype}"
        raise FeatureFileError(file.path, what, "convert all files to one dtype")


def read_whole(path: Path) -> dict[str, np.ndarray]:
    """`features`, and `coords` where the file has them, of a file that cannot be read in place."""
    with wrap_read_errors(path):
        if ending(path) == ".npy":
            return {"features": np.load(path, allow_pickle=False)}
        if ending(path) == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                return {name: archive[key] for name, key in _named(path, archive.files).items()}
        import torch

        content = torch.load(path, map_location="cpu", weights_only=True)
        content = {"features": content} if isinstance(content, torch.Tensor) else content
        if not isinstance(content, dict):
            what, cure = f"holds a {type(content).__name__}", "save a tensor (n, d) or a dict with 'features'"
            raise FeatureFileError(path, what, cure)
        return {name: _as_array(content[key]) for name, key in _named(path, list(content)).items()}


@contextmanager
def wrap_read_errors(path: Path) -> Iterator[None]:
    """Whatever a reader raises over a damaged file (each has its own ways) becomes one clear line."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = f"damaged, or no {path.suffix} file of plain numbers: {type(error).__name__}"
        raise FeatureFileError(path, f"cannot be read ({reason})", "write the file again or leave it out") from error


@contextmanager
def with_h5(path: Path) -> Iterator:
    """The open file; it has `features`."""
    try:
        import h5py
    except ImportError:
        what, cure = "needs the package h5py, which is not installed", "pip install h5py"
        raise FeatureFileError(path, what, cure) from None
    with wrap_read_errors(path), h5py.File(path, "r") as file:
        _named(path, [name for name, entry in file.items() if isinstance(entry, h5py.Dataset)], alone=False)
        yield file


def _named(path: Path, keys: list, alone: bool = True) -> dict[str, str]:
    """Which key holds the features (a single array may have any name), and which the coordinates."""
    named = {name: name for name in ("features", "coords") if name in keys}
    if "features" not in named:
        if not (alone and len(keys) == 1):
            holds = ", ".join(map(str, keys)) or "nothing"
            raise FeatureFileError(path, f"holds {holds}", "name its array of features 'features'")
        named = {"features": keys[0]}
    return named


def _as_array(tensor) -> np.ndarray:
    import torch

    tensor = torch.as_tensor(tensor).detach()  # features may have been saved with their gradient
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # numpy has no bfloat16


def _checked(path: Path, features, coordinates, offset: int | None = None) -> FeatureFile:
    shape, dtype = features.shape, features.dtype
    if 0 in shape:
        raise FeatureFileError(path, f"is empty (features of shape {shape})", "fill it or leave it out")
    if len(shape) != 2:
        raise FeatureFileError(path, f"has features of shape {shape}", "save a row an instance, (n, d)")
    if dtype not in FLOATS and dtype.newbyteorder("=") in FLOATS:
        order, plain = "big" if dtype.byteorder == ">" else "little", dtype.newbyteorder("=")
        what = f"has features of dtype {dtype.str}, which is {plain} in {order}-endian order"
        raise FeatureFileError(path, what, f"save them with .astype('{plain}')")
    if dtype not in FLOATS:
        raise FeatureFileError(path, f"has features of dtype {dtype}", "save them as float16 or float32")
    if coordinates is not None and coordinates.shape != (shape[0], 2):
        what = f"has {shape[0]} rows and coords of shape {coordinates.shape}"
        raise FeatureFileError(path, what, "save an (x, y) a row")
    held = None if coordinates is None else np.array(coordinates)  # a view of a tensor would hold the whole file
    return FeatureFile(path, int(shape[0]), int(shape[1]), np.dtype(dtype), held, offset)
