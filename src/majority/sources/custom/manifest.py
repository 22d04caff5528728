"""A manifest: a CSV or Parquet table, a row an instance, that names images or holds features."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ..image_summary import ImageFileSummary
from .bag_table import check_filled, check_for_training, check_one_each, settle_splits
from .columns import RESERVED, TEXT, note_unused, read_features
from .content import Content
from .findings import Findings, UnreadableError
from .image_warnings import warn_of_changes, warn_of_losses
from .images import ABSENT, first_spellings, load_images, other_capitals
from .names import did_you_mean
from .request import ReadOptions
from .tables import LISTS, as_numbers, as_text, read_table, what_it_holds


def read_manifest(path: Path, wish: ReadOptions, findings: Findings) -> Content:
    frame = read_table(path, TEXT, findings)
    if wish.unlabelled:
        frame, wish = _without_labels(frame, wish)
    instances_alone = not wish.training and "bag_label" not in frame and _known(frame)  # to be measured by
    needed = ["bag", "bag_label"] if wish.labels and not instances_alone else ["bag"]
    for name in needed:
        if name not in frame:
            what = f"there is no column {name}{did_you_mean(name, [name for name in frame if name not in RESERVED])}"
            findings.problem(path, 1, what, _cure(name, wish))
    if "bag" not in frame:
        raise UnreadableError
    if not set(needed) <= set(frame):  # what else is wrong is found all the same
        wish, needed = replace(wish, labels=False), ["bag"]
    images = "path" in frame
    wish.refuse_unfit(path, images=images, columns=not images)
    optional = ["split", "group"] if wish.labels else ["group"]
    used = [*needed, *(name for name in ("path", *optional) if name in frame)]
    check_filled(frame, path, used, findings)
    if wish.labels:
        settle_splits(frame, path, findings)
    compared = frame.assign(path=frame["path"].map(first_spellings(path.parent, frame["path"]))) if images else frame
    agreeing = [name for name in used if name in ("bag_label", "split", "group")]
    check_one_each(frame, path, "bag", agreeing, "a bag has one on all its rows; correct the rows", findings)
    bags = frame.drop_duplicates("bag")[["bag", *agreeing]].rename(columns={"bag_label": "label"})
    if wish.labels:
        if "split" in bags and "group" in bags:
            check_one_each(bags, path, "group", ["split"], "move all bags of a group to one split", findings)
        if wish.training:
            check_for_training(bags, path, findings)
            _check_shared_images(compared, path, findings)
    if images:
        if wish.training:
            note_unused(frame, findings)
        store, index, names, originals = _images(frame, path, wish, findings)
        columns = None
    else:
        store, columns = read_features(frame, path, wish, findings)
        index, names, originals = np.arange(len(frame)), None, None
    _check_duplicates(compared, path, columns, findings)
    which = pd.factorize(frame["bag"])[0]  # bags in the order of their first row
    order = np.argsort(which, kind="stable")
    coordinates = _coordinates(frame, path, findings)
    return Content(
        path,
        bags,
        sizes=np.bincount(which),
        store=store,
        index=index[order],
        instance_labels=frame["label"].to_numpy()[order] if wish.labels and _known(frame) else None,
        coordinates=None if coordinates is None else coordinates[order],
        paths=names,
        columns=columns,
        image_files=originals,
    )


def _without_labels(frame: pd.DataFrame, wish: ReadOptions) -> tuple[pd.DataFrame, ReadOptions]:
    """An empty column is none, and where instances have no labels either, none are looked for."""
    if "bag_label" in frame and (frame["bag_label"] == "").all():
        frame = frame.drop(columns="bag_label")
    return frame, replace(wish, labels="bag_label" in frame or _known(frame))


def _cure(column: str, wish: ReadOptions) -> str:
    cure = "a manifest has the columns bag, bag_label, and path or numbers"
    if column == "bag":
        return cure
    measured = "" if wish.training else "; `majority evaluate` is content with a column label"
    return f"{cure}{measured}; `majority predict` and `majority report` need no labels"


def _known(frame: pd.DataFrame) -> bool:
    return "label" in frame and (frame["label"] != "").any()


def _images(frame: pd.DataFrame, path: Path, wish: ReadOptions, findings: Findings):
    names, first, index = np.unique(frame["path"].to_numpy(str), return_index=True, return_inverse=True)
    store, pictures, faults = load_images(path, names.tolist(), wish.image_size, wish.channels)
    meant = other_capitals(path.parent, (names[i] for i in faults if names[i] and faults[i] == ABSENT))
    for i in sorted(faults, key=lambda i: first[i]):
        if names[i]:  # an empty cell is reported as such
            what, cure = f"{path.parent / names[i]}: {faults[i]}", "mend it or leave it out"
            if faults[i] == ABSENT:
                slashes = "\\" in names[i] and os.sep != "\\"
                cure = "write / between folders, not \\" if slashes else "correct the path (relative to the manifest)"
                cure = f"its name on disk is {meant[names[i]]}: write it so" if names[i] in meant else cure
            findings.problem(path, frame.index[first[i]], what, cure)
    if store is None:
        return store, index, names, None
    seen = [pictures[i] for i in range(len(names))]
    warn_of_changes(names, seen, store.shape[1:], wish, findings)
    warn_of_losses(names, seen, findings)
    return store, index, names, ImageFileSummary.of(seen)


def _coordinates(frame: pd.DataFrame, path: Path, findings: Findings) -> np.ndarray | None:  # (n, 2)
    there = [name for name in ("x", "y") if name in frame]
    if not there:
        return None
    if len(there) == 1:
        findings.problem(path, 1, f"there is a column {there[0]} alone", "give both x and y, or neither")
        return None
    columns, cure = [], "write a number, or remove the columns x and y"
    for name in there:
        if what_it_holds(frame[name]) == LISTS:
            findings.problem(path, None, f"column {name} holds lists", cure)
            return None
        numbers = as_numbers(frame[name])
        for row, cell in as_text(frame[name][~np.isfinite(numbers)]).items():
            findings.problem(path, row, f"{name} is {cell or 'empty'}", cure)
        columns.append(numbers)
    both = np.stack(columns, axis=1)
    return both.astype(np.int64) if np.isfinite(both).all() and (both % 1 == 0).all() else both


def _check_duplicates(frame: pd.DataFrame, path: Path, features: tuple[str, ...] | None, findings: Findings) -> None:
    """An image twice in a bag; without images, rows alike in every cell, as those of few values may well be."""
    images = "path" in frame
    compared = ["bag", "path"] if images else [name for name in frame if what_it_holds(frame[name]) != LISTS]
    if not images:  # most rows are told apart by two features: only the others are compared in every cell
        few = ["bag", *(name for name in compared if name in features)][:3]
        frame = frame[frame.duplicated(few, keep=False)]
    first = frame.groupby(compared, sort=False, dropna=False).ngroup()
    original = dict(zip(first[~first.duplicated()], first.index[~first.duplicated()], strict=True))
    again = frame.index[first.duplicated()]
    if images:
        for row in again:
            what = f"it names the image of row {original[first[row]]}, in the same bag"
            findings.problem(path, row, what, "remove one of the two")
    elif len(again):
        count = "1 row is" if len(again) == 1 else f"{len(again)} rows are"
        findings.warn(
            f"{count} the same as another of the bag in every cell (e.g. row {again[0]} as row "
            f"{original[first[again[0]]]}): each counts; remove what was written twice"
        )


def _check_shared_images(frame: pd.DataFrame, path: Path, findings: Findings) -> None:
    """One image in two splits would be trained on and tested on."""
    if {"path", "split"} <= set(frame):
        check_one_each(frame, path, "path", ["split"], "an image belongs to one split; leave it out of one", findings)
    elif "path" in frame:
        bags = frame.groupby("path")["bag"].nunique()
        if (bags > 1).any():
            count, example = int((bags > 1).sum()), bags.index[bags > 1][0]
            shared = "1 image is" if count == 1 else f"{count} images are"
            findings.warn(
                f"{shared} in two or more bags (e.g. {example}): give a split or group column, "
                "else the same image may be trained and tested on"
            )
