"""A folder of feature files, one per bag, or of folders of images, one per bag; with a table of the labels."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import pandas as pd

from ...data.feature_files import (
    SUFFIXES,
    FeatureFile,
    FeatureFileError,
    MissingPackageError,
    check_compatible,
    inspect_feature_file,
    lower_suffix,
)
from ...data.stores import FeatureFiles, Store, iterate_chunks
from ...data.validation import LARGEST_FEATURE, non_finite_rows
from ...errors import count_noun
from ...files import UNICODE_FORM
from ..embedding import read_embedding
from ..image_summary import IMAGE_SUFFIXES
from .checks import add_found, read_bags
from .content import Content, Facts
from .findings import Findings, UnreadableError, abbreviate_names, cells, counted
from .names import NUMBERS, did_you_mean, look_alikes
from .options import ReadOptions
from .rows import read_facts, read_rows
from .tables import TEXT_SUFFIXES, read_table

OF_BAGS = ("bag", "label", "second_label", "split", "group")  # columns of the table of labels
OF_INSTANCES = ("bag", "label", "path")
LABELS, INSTANCES = "labels.csv", "instances.csv"
T = TypeVar("T")


# ---------------------------------------------------------------------- feature files


def read_feature_folder(folder: Path, options: ReadOptions, findings: Findings) -> Content:
    options.check_applicable(folder, images=False, columns=False)
    embedding = read_embedding(folder)
    if embedding is not None and not embedding.complete:
        findings.add_problem(folder, None, "some bags are missing", "repeat the `majority embed` command to continue")
        raise UnreadableError
    names = options.block.files if options.block else [path.name for path in find_files(folder, findings)]
    files = {_bag_name(name): folder / name for name in names}
    table, bags = _read_bags(folder, files, options, findings)
    usable = _compatible_files([files[name] for name in bags["bag"] if name in files], findings)
    on_disk = FeatureFiles(usable)
    facts, paths = _read_instances(folder, [_bag_name(file.path) for file in usable], on_disk.sizes, options, findings)
    if facts.coordinates is None:
        facts = facts._replace(coordinates=_attempt(on_disk.coordinates, findings))
    store = on_disk.load_if_small()
    for file, start, end in zip(usable, on_disk.starts[:-1], on_disk.starts[1:], strict=True):
        _check_finite(file, store, np.arange(start, end), findings)
    on_disk.known_finite = True  # otherwise there are problems, and the store is not used
    return Content(
        table,
        bags,
        on_disk.sizes,
        store,
        np.arange(len(on_disk)),
        facts,
        paths,
        numbered_within_bags=True,
        embedding=None if embedding is None else embedding.embedding,
    )


def find_files(folder: Path, findings: Findings) -> list[Path]:
    """The feature files, one per bag."""
    found: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        name = _bag_name(path)
        if lower_suffix(path) not in SUFFIXES or path.name.startswith("."):
            continue
        if not _is_utf8(name):
            shown = os.fsencode(path.name).decode(errors="backslashreplace")
            findings.add_problem(folder, None, f"the name of the file {shown} is not UTF-8", "rename it")
        elif name in found:
            what = f"bag {name} has a second file, {found[name].name}"
            findings.add_problem(path, None, what, "keep one file per bag")
        else:
            found[name] = path
    if not found:
        findings.add_problem(folder, None, "there are no feature files", _no_files_cure(folder))
        raise UnreadableError
    return [*found.values()]


def _bag_name(file: str | Path) -> str:
    return unicodedata.normalize(UNICODE_FORM, Path(file).stem)


def _is_utf8(name: str) -> bool:
    """Whether a name from the operating system can be written into a table."""
    return name.encode(errors="replace").decode() == name


def _no_files_cure(folder: Path) -> str:
    if any(_is_image(path) for path in folder.rglob("*")):
        return (
            "it has images, but not in one folder per bag: move them, or write a CSV with the columns bag, bag_label "
            "and path (docs/how-to/images.md)"
        )
    return f"put {', '.join(SUFFIXES)} files there, one per bag"


def _attempt(read: Callable[[], T], findings: Findings) -> T | None:
    """What a function returns; None if it finds an error in a feature file."""
    try:
        return read()
    except FeatureFileError as error:
        findings.add_problem(error.path, None, error.what, error.cure)
        if isinstance(error, MissingPackageError):  # one problem, however many files need it
            raise UnreadableError from None
        return None


def _compatible_files(paths: Iterable[Path], findings: Findings) -> list[FeatureFile]:
    """The files with the most common width and dtype; the others are problems."""
    inspected = [_attempt(partial(inspect_feature_file, path), findings) for path in paths]
    files = [file for file in inspected if file is not None]
    kinds = [(file.width, file.dtype) for file in files]
    if not files:
        raise UnreadableError
    usual = Counter(kinds).most_common(1)[0][0]
    for file in files:
        _attempt(partial(check_compatible, file, files[kinds.index(usual)]), findings)
    return [file for file, kind in zip(files, kinds, strict=True) if kind == usual]


def _check_finite(file: FeatureFile, store: Store, positions: np.ndarray, findings: Findings) -> None:
    bad = np.concatenate([non_finite_rows(block) for block in iterate_chunks(store, positions)])
    if bad.any():
        rows = "has" if bad.sum() == 1 else f"and {count_noun(bad.sum() - 1, 'more row')} have"
        what = (
            f"row {bad.argmax()} of the features (from 0) {rows} NaN, infinity or a number beyond ±{LARGEST_FEATURE:g}"
        )
        findings.add_problem(file.path, None, what, "extract the features again, or leave these rows out")


def _read_instances(
    folder: Path, bags: list[str], sizes: np.ndarray, options: ReadOptions, findings: Findings
) -> tuple[Facts, np.ndarray | None]:
    """The optional instances.csv of a feature folder: one row per row of the feature files, in their order."""
    path = folder / INSTANCES
    if not path.is_file():
        return Facts(), None
    frame = read_table(path, OF_INSTANCES, findings)
    if "bag" not in frame:
        findings.add_problem(path, 1, "there is no column bag", "name the bag of each row, or remove the file")
        raise UnreadableError
    add_found(look_alikes(frame, path, (*OF_INSTANCES, *NUMBERS), (), options), findings)
    rows_of = frame.groupby("bag", sort=False).indices
    wrong = [(bag, len(rows_of.get(bag, ())), size) for bag, size in zip(bags, sizes.tolist(), strict=True)]
    wrong = [each for each in wrong if each[1] != each[2]]
    for bag, rows, size in wrong:
        cure = f"write one row per instance into {INSTANCES}, in the order of the feature files, or remove it"
        findings.add_problem(path, None, f"bag {bag} has {rows:,} rows, its feature file {size:,}", cure)
    if wrong:
        return Facts(), None
    order = np.concatenate([rows_of[bag] for bag in bags])
    paths = frame["path"].to_numpy()[order] if "path" in frame else None
    return read_facts(frame, path, order, options, findings), paths


# ---------------------------------------------------------------------- images


def is_image_folder(folder: Path) -> bool:
    """Whether the folder has folders with images, and no feature files."""
    entries = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if any(lower_suffix(path) in SUFFIXES for path in entries):
        return False
    return any(_images(path) for path in entries if path.is_dir())


def read_image_folder(folder: Path, options: ReadOptions, findings: Findings) -> Content:
    """The images of each folder are a bag, which has the folder's name; labels.csv has the labels."""
    frame = image_rows(folder, findings)
    if options.block is not None:
        frame = frame.iloc[options.block.start :][: options.block.rows].reset_index(drop=True)
    places = {name: folder / name for name in dict.fromkeys(frame["bag"])}
    table, bags = _read_bags(folder, places, options, findings)
    frame, before = frame[frame["bag"].isin(bags["bag"])], len(findings.problems)
    content = read_rows(frame, folder / LABELS, options, findings, bags)
    findings.problems[before:] = [replace(problem, row=None) for problem in findings.problems[before:]]
    return replace(content, file=table)


def image_rows(folder: Path, findings: Findings) -> pd.DataFrame:
    """One row per image: its bag and its path."""
    places = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    images = {unicodedata.normalize(UNICODE_FORM, place.name): _images(place) for place in places}
    empty = [bag for bag, paths in images.items() if not paths]
    if empty:
        findings.warn(f"{counted(len(empty), 'folder')} no image that can be read, left out: {abbreviate_names(empty)}")
    visible = [path for place in places for path in place.iterdir() if not path.name.startswith(".")]
    others = sorted(str(path.relative_to(folder)) for path in visible if not _is_image(path))
    if others:
        what = "no image that can be read, left out"
        findings.warn(f"{counted(len(others), 'file', 'are')} {what}: {abbreviate_names(others)}")
    rows = [(bag, str(path.relative_to(folder))) for bag, paths in images.items() for path in paths]
    return pd.DataFrame(rows, columns=["bag", "path"])


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _is_image(path))


def _is_image(path: Path) -> bool:
    return lower_suffix(path) in IMAGE_SUFFIXES and not path.name.startswith(".")


# ---------------------------------------------------------------------- the table of labels


def _read_bags(
    folder: Path, places: dict[str, Path], options: ReadOptions, findings: Findings
) -> tuple[Path, pd.DataFrame]:
    """The table, and its bags; all of those that have a place, a file or folder, where no labels are read."""
    table = _find_table(folder, options, findings) if options.labels else None
    frame = None if table is None else _read_table(table, options, findings)
    if table is None or frame is None:
        return folder, pd.DataFrame({"bag": [*places]})
    frame["bag"] = frame["bag"].str.normalize(UNICODE_FORM)
    first = read_bags(frame, table, [name for name in OF_BAGS[1:] if name in frame], findings)
    row_of = dict(zip(first["bag"], first.index, strict=True))
    for row, name in frame["bag"][frame["bag"].duplicated() & (frame["bag"] != "")].pipe(cells):
        what = f"bag {name} is already in row {row_of[name]}"
        findings.add_problem(table, row, what, "keep one row per bag")
    bags = first[first["bag"] != ""]
    for row, name in bags["bag"][~bags["bag"].isin(places)].pipe(cells):
        has_suffix = lower_suffix(name) in SUFFIXES
        cure = "write the file's name without its suffix" if has_suffix else "add it, or leave the bag out"
        what = f"bag {name} has no file, and no folder with images, in {folder}"
        findings.add_problem(table, row, what, cure)
    listed = {*bags["bag"]}
    for name, place in places.items():
        if name not in listed:
            what = f"bag {name} has no row in {table.name}"
            findings.add_problem(place, None, what, f"add its bag to {table.name}, or remove it")
    return table, bags


def _find_table(folder: Path, options: ReadOptions, findings: Findings) -> Path | None:
    """labels.csv, or the only table; None if there is none and labels are optional."""
    tables = sorted(path for path in folder.iterdir() if lower_suffix(path) in TEXT_SUFFIXES)
    tables = [path for path in tables if path.name != INSTANCES]
    table = folder / LABELS if folder / LABELS in tables or len(tables) != 1 else tables[0]
    if table.is_file():
        return table
    if options.unlabelled:
        return None
    what = "there is no table of labels" if not tables else f"there are {len(tables)} tables"
    name = f"rename the one with the columns bag and label to {LABELS}"
    cure = name if tables else f"write the columns bag and label into {LABELS}"
    findings.add_problem(folder, None, what, cure)
    raise UnreadableError


def _read_table(table: Path, options: ReadOptions, findings: Findings) -> pd.DataFrame | None:
    """Its rows, with the columns bag and label; None if it has no label and labels are optional."""
    names = options.names.usual("label")
    names.pop("path", None)
    frame = read_table(table, (*OF_BAGS, "bag_label"), findings, names, optional_names=options.for_classifier)
    if options.unlabelled and not any((frame[name] != "").any() for name in ("label", "bag_label") if name in frame):
        return None
    if "label" not in frame and "bag_label" in frame:  # as in tables with one row per instance
        frame = frame.rename(columns={"bag_label": "label"})
    missing = [name for name in ("bag", "label") if name not in frame]
    for name in missing:
        cure = "the table has the columns bag and label, and optionally second_label, split and group"
        guess = did_you_mean(name, [other for other in frame.columns if other not in OF_BAGS])
        findings.add_problem(table, 1, f"there is no column {name}{guess}", cure)
    if missing:
        raise UnreadableError
    add_found(look_alikes(frame, table, OF_BAGS, (), options), findings)
    return frame
