"""A folder with one folder of images per bag, and a table of the labels of the bags."""

from __future__ import annotations

import unicodedata
from dataclasses import replace
from pathlib import Path

import pandas as pd

from ...data.feature_files import SUFFIXES, lower_suffix
from ...files import UNICODE_FORM
from ..image_summary import IMAGE_SUFFIXES
from .content import Content
from .feature_folder import LABELS, read_labels
from .findings import Findings
from .manifest import read_rows
from .names import abbreviate_names
from .read_options import ReadOptions


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
    labelled = read_labels(folder, options, findings) if options.labels else None
    table = folder / LABELS
    if labelled is None:
        options = replace(options, labels=False, unlabelled=False)
    else:
        table, bags = labelled
        _match(bags, set(frame["bag"]), table, findings)
        columns = bags.rename(columns={"label": "bag_label"}).set_index("bag")
        frame = frame[frame["bag"].isin(columns.index)].join(columns, on="bag").reset_index(drop=True)
    before = len(findings.problems)
    content = read_rows(frame, table, options, findings, labels_checked=labelled is not None)
    findings.problems[before:] = [replace(problem, row=None) for problem in findings.problems[before:]]
    return content


def image_rows(folder: Path, findings: Findings) -> pd.DataFrame:
    """One row per image: its bag and its path."""
    places = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    images = {unicodedata.normalize(UNICODE_FORM, place.name): _images(place) for place in places}
    _warn_of_what_is_left_out(folder, places, images, findings)
    rows = [(bag, str(path.relative_to(folder))) for bag, paths in images.items() for path in paths]
    return pd.DataFrame(rows, columns=["bag", "path"])


def _warn_of_what_is_left_out(
    folder: Path, places: list[Path], images: dict[str, list[Path]], findings: Findings
) -> None:
    empty = [bag for bag, paths in images.items() if not paths]
    if empty:
        noun = "1 folder has" if len(empty) == 1 else f"{len(empty):,} folders have"
        findings.warn(f"{noun} no image that can be read and {_is(empty)} left out: {abbreviate_names(empty)}")
    visible = [path for place in places for path in place.iterdir() if not path.name.startswith(".")]
    others = sorted(str(path.relative_to(folder)) for path in visible if not _is_image(path))
    if others:
        noun = "1 entry" if len(others) == 1 else f"{len(others):,} entries"
        findings.warn(
            f"{noun} of these folders {_is(others)} no image and {_is(others)} left out: {abbreviate_names(others)}"
        )


def _is(items: list[str]) -> str:
    return "is" if len(items) == 1 else "are"


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if _is_image(path))


def _is_image(path: Path) -> bool:
    return lower_suffix(path) in IMAGE_SUFFIXES and not path.name.startswith(".")


def _match(bags: pd.DataFrame, with_images: set[str], table: Path, findings: Findings) -> None:
    """Check that every bag of the table has a folder of images, and that every such folder has a row."""
    for row, name in zip(bags.index, bags["bag"], strict=True):
        if name not in with_images:
            what = f"bag {name} has no folder with images in {table.parent}"
            findings.add_problem(table, row, what, "add the folder, or leave the bag out")
    for name in sorted(with_images - set(bags["bag"])):
        cure = f"add its bag to {table.name}, or remove the folder"
        findings.add_problem(table.parent / name, None, f"bag {name} has no row in {table.name}", cure)
