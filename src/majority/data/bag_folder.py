"""A folder of .npy files and one bags.json that stores bags, without pickle. It knows arrays, not `Bags`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError
from ..fields import from_json
from ..files import check_regular, exclusive_draft, read_json, write_error
from .stores import Store, write_npy

FORMAT, FACTS = "majority-bags-1", "bags.json"
REQUIRED_ARRAYS = ("store", "index", "offsets", "labels")
CURE = "save the bags again"
OTHER_ARRAYS = (
    "runners_up",
    "instance_labels",
    "coordinates",
    "groups",
    "names",
    "weights",
)  # other files in the folder are not read


class Facts(NamedTuple):
    """bags.json."""

    format: str
    classes: tuple[str, ...]
    true_classes: tuple[str, ...]
    background: str | None = None


def write_bag_folder(
    folder: str | Path, store: Store, used: np.ndarray, arrays: dict[str, np.ndarray | None], facts: dict[str, Any]
) -> Path:
    """Write the rows `used` of the store, every array that is not None, and the facts.

    The folder appears complete or not at all.
    """
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder} exists: choose another folder or remove it")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_error(folder, error) from None
    with exclusive_draft(folder) as draft:
        try:
            shutil.rmtree(draft, ignore_errors=True)  # left by a save that was killed
            draft.mkdir()
            _write_files(draft, store, used, arrays, facts)
            draft.rename(folder)
        except BaseException:
            shutil.rmtree(draft, ignore_errors=True)
            raise
    return folder


def _write_files(
    folder: Path, store: Store, used: np.ndarray, arrays: dict[str, np.ndarray | None], facts: dict[str, Any]
) -> None:
    write_npy(folder / "store.npy", store, used)
    for name, array in arrays.items():
        if array is not None:
            array = array.astype(str) if array.dtype == object else array
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    (folder / FACTS).write_text(json.dumps({"format": FORMAT, **facts}, indent=2), encoding="utf-8")


def read_bag_folder(folder: str | Path, in_place: bool) -> tuple[dict[str, np.ndarray], Facts]:
    """Return the arrays by name and the facts. With `in_place` the store is a memory map."""
    folder = Path(folder)
    if not (folder / FACTS).is_file():
        raise InputError(f"{folder} holds no {FACTS}: give a folder that Bags.save wrote")
    content = read_json(folder / FACTS, CURE)
    if content.get("format") != FORMAT:
        found = f"{folder} has format {content.get('format')!r}"
        raise InputError(f"{found}, this version reads {FORMAT!r}: update majority")
    facts = from_json(Facts, content, folder / FACTS, CURE)
    names = [*REQUIRED_ARRAYS, *(name for name in OTHER_ARRAYS if (folder / f"{name}.npy").exists())]
    return {name: _read_array(folder / f"{name}.npy", in_place and name == "store") for name in names}, facts


def _read_array(path: Path, in_place: bool) -> np.ndarray:
    check_regular(path)
    try:
        return np.load(path, mmap_mode="r" if in_place else None, allow_pickle=False)
    except Exception as error:  # numpy raises many kinds of errors for a wrong header
        raise damaged_folder(path.parent, f"{path.name}: {error}") from error


def damaged_folder(folder: str | Path, reason: object) -> InputError:
    return InputError(f"{folder} is damaged ({reason}): {CURE}")
