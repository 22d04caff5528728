"""A folder of feature files, one per bag, or of folders of images, one per bag; with a table of the labels."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.feature_files import SUFFIXES, FeatureFileError, inspect_feature_file, lower_suffix
from ...data.stores import FeatureFiles
from ...files import UNICODE_FORM
from ..embedding import read_embedding
from ..image_summary import IMAGE_SUFFIXES
from .checks import Found, misspelt, read_bags
from .content import Content, read_facts
from .findings import Findings, Problem, ProblemError, abbreviate_names
from .options import ReadOptions
from .rows import read_rows
from .tables import TEXT_SUFFIXES, did_you_mean, read_table

OF_BAGS = ("bag", "label", "second_label", "split", "group")  # columns of the table of labels
LABELS, INSTANCES = "labels.csv", "instances.csv"


# ---------------------------------------------------------------------- feature files


def read_feature_folder(folder: Path, options: ReadOptions, findings: Findings) -> Content | None:
    """None if there are problems that leave nothing to read."""
    options.check_applicable(folder, images=False)
    embedding = read_embedding(folder)
    if embedding is not None and not embedding.complete:
        raise ProblemError(folder, None, "some bags are missing", "repeat the `majority embed` command to continue")
    paths = [folder / name for name in options.block.files] if options.block else find_files(folder)
    files = {_bag_name(path): path for path in paths}
    for path in paths:
        if files[_bag_name(path)] != path:
            findings.add_problem(path, None, f"bag {_bag_name(path)} has a second file", "keep one file per bag")
    table, bags = _read_bags(folder, files, options, findings)
    chosen = [files[name] for name in bags["bag"] if name in files]
    if findings.problems:
        return None
    try:
        on_disk = FeatureFiles(chosen)
        coordinates = on_disk.coordinates()
    except FeatureFileError as error:
        findings.add(_unreadable(chosen, error))
        return None
    store = on_disk.load_if_small()
    content = Content(
        table,
        bags,
        on_disk.sizes,
        store,
        np.arange(len(on_disk)),
        {} if coordinates is None else {"coordinates": coordinates},
        numbered_within_bags=True,
        embedding=None if embedding is None else embedding.embedding,
    )
    if (folder / INSTANCES).is_file():
        _read_instances(
            folder / INSTANCES, [_bag_name(file.path) for file in on_disk.files], content, options, findings
        )
    return content


def _unreadable(files: list[Path], first: FeatureFileError) -> Found:
    """Every file that cannot be read; if all can, the first error: files that do not belong together."""
    errors = []
    for path in files:
        try:
            inspect_feature_file(path)
        except FeatureFileError as error:
            errors.append(error)
    yield from (Problem(error.path, None, error.what, error.cure) for error in errors or [first])


def find_files(folder: Path) -> list[Path]:
    """The feature files, one per bag."""
    found = [path for path in sorted(folder.iterdir()) if lower_suffix(path) in SUFFIXES]
    found = [path for path in found if not path.name.startswith(".")]
    for path in found:
        if path.name.encode(errors="replace").decode() != path.name:
            raise ProblemError(folder, None, f"the name of the file {path.name!a} is not UTF-8", "rename it")
    if found:
        return found
    cure = f"put {', '.join(SUFFIXES)} files there, one per bag"
    if any(_is_image(path) for path in folder.rglob("*")):
        cure = (
            "it has images, but not in one folder per bag: move them, or write a CSV with the columns bag, bag_label "
            "and path (docs/how-to/images.md)"
        )
    raise ProblemError(folder, None, "there are no feature files", cure)


def _bag_name(file: Path) -> str:
    return unicodedata.normalize(UNICODE_FORM, file.stem)


def _read_instances(path: Path, bags: list[str], content: Content, options: ReadOptions, findings: Findings) -> None:
    """The optional instances.csv of a feature folder: one row per row of the feature files, in their order."""
    frame = read_table(path, ("bag", "label", "path"))
    if "bag" not in frame:
        raise ProblemError(path, 1, "there is no column bag", "name the bag of each row, or remove the file")
    findings.add(misspelt(frame))
    rows_of = frame.groupby("bag", sort=False).indices
    for bag, size in zip(bags, content.sizes.tolist(), strict=True):
        rows = len(rows_of.get(bag, ()))
        if rows != size:
            cure = "write one row per instance, in the order of the feature files, or remove the table"
            raise ProblemError(path, None, f"bag {bag} has {rows:,} rows, its feature file {size:,}", cure)
    order = np.concatenate([rows_of[bag] for bag in bags])
    content.paths = frame["path"].to_numpy()[order] if "path" in frame else None
    content.facts |= read_facts(frame, path, order, options, findings)


# ---------------------------------------------------------------------- images


def is_image_folder(folder: Path) -> bool:
    """Whether the folder has folders with images, and no feature files."""
    entries = [path for path in folder.iterdir() if not path.name.startswith(".")]
    if any(lower_suffix(path) in SUFFIXES for path in entries):
        return False
    return any(_is_image(path) for entry in entries if entry.is_dir() for path in entry.iterdir())


def read_image_folder(folder: Path, options: ReadOptions, findings: Findings) -> Content:
    """The images of each folder are a bag, which has the folder's name; labels.csv has the labels."""
    frame = image_rows(folder, findings)
    if options.block is not None:
        frame = frame.iloc[options.block.start :][: options.block.rows].reset_index(drop=True)
    places = {name: folder / name for name in dict.fromkeys(frame["bag"])}
    table, bags = _read_bags(folder, places, options, findings)
    before = len(findings.problems)
    content = read_rows(frame[frame["bag"].isin(bags["bag"])], folder / LABELS, bags, options, findings)
    findings.problems[before:] = [replace(problem, row=None) for problem in findings.problems[before:]]
    return replace(content, file=table)


def image_rows(folder: Path, findings: Findings) -> pd.DataFrame:
    """One row per image: its bag and its path."""
    rows, left_out = [], []
    for place in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        inside = sorted(path for path in place.iterdir() if not path.name.startswith("."))
        images = [path for path in inside if _is_image(path)]
        others = [path for path in inside if not _is_image(path)] if images else [place]
        bag = unicodedata.normalize(UNICODE_FORM, place.name)
        rows += [(bag, str(path.relative_to(folder))) for path in images]
        left_out += [str(path.relative_to(folder)) for path in others]
    if left_out:
        findings.warn(f"left out, because these are no images that can be read: {abbreviate_names(left_out)}")
    return pd.DataFrame(rows, columns=["bag", "path"])


def _is_image(path: Path) -> bool:
    return lower_suffix(path) in IMAGE_SUFFIXES and not path.name.startswith(".")


# ---------------------------------------------------------------------- the table of labels


def _read_bags(
    folder: Path, places: dict[str, Path], options: ReadOptions, findings: Findings
) -> tuple[Path, pd.DataFrame]:
    """The table, and its bags; all of those that have a place, a file or folder, where no labels are read."""
    table = _find_table(folder, options) if options.labels else None
    frame = None if table is None else _read_table(table, options)
    if table is None or frame is None:
        return folder, pd.DataFrame({"bag": [*places]})
    findings.add(misspelt(frame))
    frame["bag"] = frame["bag"].str.normalize(UNICODE_FORM)
    bags = read_bags(frame, table, [name for name in OF_BAGS[1:] if name in frame], findings)
    bags = bags[bags["bag"] != ""]
    for row, name in frame["bag"][frame["bag"].duplicated() & (frame["bag"] != "")].items():
        findings.add_problem(table, row, f"bag {name} has a row above", "keep one row per bag")
    for row, name in bags["bag"][~bags["bag"].isin(places)].items():
        what = f"bag {name} has no file, and no folder with images, in {folder}"
        cure = "write the name without a suffix; add what is missing, or leave the bag out"
        findings.add_problem(table, row, what, cure)
    listed = {*bags["bag"]}
    for name in [name for name in places if name not in listed]:
        what = f"bag {name} has no row in {table.name}"
        findings.add_problem(places[name], None, what, f"add its bag to {table.name}, or remove it")
    return table, bags


def _find_table(folder: Path, options: ReadOptions) -> Path | None:
    """labels.csv, or the only table; None if there is none and labels are optional."""
    tables = sorted(path for path in folder.iterdir() if lower_suffix(path) in TEXT_SUFFIXES)
    tables = [path for path in tables if path.name != INSTANCES]
    if folder / LABELS in tables or len(tables) == 1:
        return folder / LABELS if folder / LABELS in tables else tables[0]
    if options.unlabelled:
        return None
    what = f"there are {len(tables)} tables" if tables else "there is no table of labels"
    raise ProblemError(folder, None, what, f"write the columns bag and label into one with the name {LABELS}")


def _read_table(table: Path, options: ReadOptions) -> pd.DataFrame | None:
    """Its rows, with the columns bag and label; None if it has no label and labels are optional."""
    names = {"bag": options.names.bag, "label": options.names.label}
    frame = read_table(table, (*OF_BAGS, "bag_label"), names, options.for_classifier)
    if options.unlabelled and not any((frame[name] != "").any() for name in ("label", "bag_label") if name in frame):
        return None
    if "label" not in frame and "bag_label" in frame:  # as in tables with one row per instance
        frame = frame.rename(columns={"bag_label": "label"})
    for name in ("bag", "label"):
        if name not in frame:
            guess = did_you_mean(name, [other for other in frame.columns if other not in OF_BAGS])
            cure = "the table has the columns bag and label, and optionally second_label, split and group"
            raise ProblemError(table, 1, f"there is no column {name}{guess}", cure)
    return frame
