"""A folder of .npy files and one bags.json that holds bags, without pickle. It knows arrays, not `Bags`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import InputError
from ..files import UNFINISHED, open_locked, write_error
from .stores import write_npy

FORMAT, FACTS = "majority-bags-1", "bags.json"
NEEDED = ("store", "index", "offsets", "labels")  # arrays that all bags have


def write_bag_folder(
    folder: str | Path, store, used: np.ndarray, arrays: dict[str, np.ndarray | None], facts: dict
) -> Path:
    """Write the rows `used` of the store, each array that is given, and the facts; the folder appears whole."""
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder} exists: choose another folder or remove it")

    def write(place: Path) -> None:
        write_npy(place / "store.npy", store, used)
        for name, array in arrays.items():
            if array is not None:
                array = array.astype(str) if array.dtype == object else array
                np.save(place / f"{name}.npy", array, allow_pickle=False)
        (place / FACTS).write_text(json.dumps({"format": FORMAT, **facts}, indent=2))

    _write_folder_atomically(folder, write)
    return folder


def read_bag_folder(folder: str | Path, in_place: bool) -> tuple[dict[str, np.ndarray], dict]:
    """The arrays by name, of which the store may stay on disk, and the facts."""
    folder = Path(folder)
    if not (folder / FACTS).is_file():
        raise InputError(f"{folder} holds no {FACTS}: give a folder that Bags.save wrote")
    try:
        facts = json.loads((folder / FACTS).read_text())
        if facts.get("format") == FORMAT:
            mode = lambda path: "r" if in_place and path.stem == "store" else None
            files = {folder / f"{name}.npy" for name in NEEDED} | set(folder.glob("*.npy"))
            return {path.stem: np.load(path, mmap_mode=mode(path), allow_pickle=False) for path in files}, facts
    except (OSError, EOFError, ValueError, AttributeError) as error:
        raise damaged(folder, error) from error
    raise InputError(f"{folder} has format {facts.get('format')!r}, this version reads {FORMAT!r}: update majority")


def damaged(folder: str | Path, error: Exception) -> InputError:
    return InputError(f"{folder} is damaged ({error}): save the bags again")


def _write_folder_atomically(folder: Path, write: Callable[[Path], None]) -> None:
    draft = folder.with_name(f".{folder.name}{UNFINISHED}")
    unfinished = draft / folder.name
    try:
        draft.mkdir(parents=True, exist_ok=True)
        with open_locked(draft / "lock"):
            try:
                shutil.rmtree(unfinished, ignore_errors=True)  # left by a save that was killed
                unfinished.mkdir()
                write(unfinished)
                unfinished.rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except BlockingIOError:
        raise InputError(f"{folder} is being written by another command: wait, or choose another place") from None
    except OSError as error:
        raise write_error(folder, error) from None
