"""Bags as a folder of .npy files and one bags.json, without pickle."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .bag_checks import check_lengths
from .errors import InputError
from .files import UNFINISHED, locked, not_written
from .store import write_npy
from .truth import number_truth

if TYPE_CHECKING:
    from .bags import Bags

FORMAT = "majority-bags-1"


def save_bags(bags: Bags, folder: str | Path) -> Path:
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder} exists: choose another folder or remove it")
    draft = folder.with_name(f".{folder.name}{UNFINISHED}")
    unfinished = draft / folder.name
    try:
        draft.mkdir(parents=True, exist_ok=True)
        with locked(draft / "lock"):
            try:
                shutil.rmtree(unfinished, ignore_errors=True)  # of a save that was killed
                unfinished.mkdir()
                _write(bags, unfinished)
                unfinished.rename(folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
    except BlockingIOError:
        raise InputError(f"{folder} is being written by another command: wait, or choose another place") from None
    except OSError as error:
        raise not_written(folder, error) from None
    return folder


def _write(bags: Bags, folder: Path) -> None:
    used, index = np.unique(bags.index, return_inverse=True)
    write_npy(folder / "store.npy", bags.store, used)
    arrays = {"index": index, "offsets": bags.offsets, "labels": bags.labels}
    arrays |= {
        "instance_labels": bags.instance_labels,
        "coordinates": bags.coordinates,
        "groups": bags.groups,
        "names": bags.names,
    }
    for name, array in arrays.items():
        if array is not None:
            array = array.astype(str) if array.dtype == object else array
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
    about = {"format": FORMAT, "classes": bags.classes, "true_classes": bags.true_classes}
    if bags.background is not None:
        about["background"] = bags.classes[bags.background]
    (folder / "bags.json").write_text(json.dumps(about, indent=2))


def load_bags(cls: type[Bags], folder: str | Path, in_place: bool) -> Bags:
    folder = Path(folder)
    if not (folder / "bags.json").is_file():
        raise InputError(f"{folder} holds no bags.json: give a folder that Bags.save wrote")
    read = lambda name, mode=None: np.load(folder / f"{name}.npy", mmap_mode=mode, allow_pickle=False)
    try:
        about = json.loads((folder / "bags.json").read_text())
        if about.get("format") == FORMAT:
            there = {name for name in ("instance_labels", "coordinates", "groups", "names") if _holds(folder, name)}
            more = {name: read(name) for name in there - {"instance_labels"}}
            store = read("store", "r" if in_place else None)
            bags = cls(store, read("index"), read("offsets"), read("labels"), about["classes"], **more)
            if "instance_labels" in there:
                bags = _with_truth(bags, read("instance_labels"), tuple(about.get("true_classes", about["classes"])))
            return bags.with_background(about["background"]) if "background" in about else bags
    except (OSError, EOFError, ValueError, KeyError) as error:
        raise InputError(f"{folder} is damaged ({error}): save the bags again") from error
    raise InputError(f"{folder} has format {about.get('format')!r}, this version reads {FORMAT!r}: update majority")


def _holds(folder: Path, name: str) -> bool:
    return (folder / f"{name}.npy").exists()


def _with_truth(bags: Bags, instance_labels: np.ndarray, true_classes: tuple[str, ...]) -> Bags:
    check_lengths({"instance labels": instance_labels}, len(bags.index), "instance")
    codes, _ = number_truth(instance_labels, true_classes, True, bags.describe_instance)
    return bags._with(instance_labels=codes, true_classes=true_classes)
