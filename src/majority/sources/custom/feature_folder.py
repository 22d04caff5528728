"""A folder of feature files, one a bag, and a table of the bags' labels."""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.feature_files import (
    SUFFIXES,
    FeatureFile,
    FeatureFileError,
    check_compatible,
    inspect_feature_file,
    lower_suffix,
)
from ...data.stores import FeatureFiles, iterate_chunks
from ...data.validation import not_finite
from ...errors import count_noun
from .bag_table import check_filled, check_for_training, check_one_each, settle_splits
from .content import Content
from .findings import Findings, UnreadableError
from .images import ENDINGS
from .names import did_you_mean
from .request import ReadOptions
from .tables import read_table

TEXT = ("bag", "label", "split", "group")
LABELS = "labels.csv"
SPELLING = "NFC"  # letters with marks can be written in two ways in Unicode: names are compared in this one


def read_folder(folder: Path, wish: ReadOptions, findings: Findings) -> Content:
    wish.refuse_unfit(folder, images=False, columns=False)
    files = _files(folder, findings)
    labelled = _labels(folder, wish, findings) if wish.labels else None
    table, bags = labelled or (folder, pd.DataFrame({"bag": list(files)}))
    _match(bags, files, table, findings)
    seen = {name: _look(files[name], findings) for name in bags["bag"].drop_duplicates() if name in files}
    good = {name: file for name, file in seen.items() if file is not None}
    alike = _alike(list(good.values()), findings)
    if not alike:
        raise UnreadableError
    store = FeatureFiles(alike)
    coordinates = _coordinates(store, findings)
    held = store.load_if_small()
    for file, start, end in zip(alike, store.starts[:-1], store.starts[1:], strict=True):
        _check_finite(file, held, np.arange(start, end), findings)
    store.known_finite = True  # else findings stop it
    return Content(
        table,
        bags,
        sizes=store.sizes,
        store=held,
        index=np.arange(len(store)),
        coordinates=coordinates,
        numbered_within_bags=True,
    )


def _files(folder: Path, findings: Findings) -> dict[str, Path]:
    """Bag -> its feature file."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if lower_suffix(path) not in SUFFIXES or path.name.startswith("."):
            continue
        name = unicodedata.normalize(SPELLING, path.stem)
        if not _is_utf8(name):
            shown = os.fsencode(path.name).decode(errors="backslashreplace")
            findings.problem(folder, None, f"the name of the file {shown} is not UTF-8", "rename it")
        elif name in files:
            what = f"bag {name} has a second file, {files[name].name}"
            findings.problem(path, None, what, "keep one file a bag")
        else:
            files[name] = path
    if not files:
        cure = f"put {', '.join(SUFFIXES)} files there, one a bag"
        there = {lower_suffix(path) for path in folder.rglob("*")}
        if ".parquet" in there:
            join = f"import pandas; pandas.read_parquet({str(folder)!r}).to_parquet('joined.parquet')"
            cure = f'it has Parquet files: join parts of a table by python -c "{join}" and give joined.parquet'
        if there & {*ENDINGS}:
            cure = "it has images: write a CSV with the columns bag, bag_label and path (docs/data.md has a script)"
        findings.problem(folder, None, "there are no feature files", cure)
        raise UnreadableError
    return files


def _is_utf8(name: str) -> bool:
    """Whether a name that the operating system gave can be written into a table."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _labels(folder: Path, wish: ReadOptions, findings: Findings) -> tuple[Path, pd.DataFrame] | None:
    """The table of labels and its bags; None where there is none, and none is needed."""
    tables = sorted(path for path in folder.iterdir() if lower_suffix(path) == ".csv")
    table = folder / LABELS if folder / LABELS in tables or len(tables) != 1 else tables[0]
    if not table.is_file():
        if wish.unlabelled:
            return None
        what = "there is no table of labels" if not tables else f"there are {len(tables)} CSV files"
        findings.problem(folder, None, what, f"name the one with the columns bag and label {LABELS}")
        raise UnreadableError
    frame = read_table(table, TEXT, findings)
    if wish.unlabelled and not any((frame[name] != "").any() for name in ("label", "bag_label") if name in frame):
        return None
    missing = [name for name in ("bag", "label") if name not in frame]
    for name in missing:
        cure = "the table has the columns bag, label[, split, group]"
        if name == "label" and "bag_label" in frame:
            cure = "a row is a bag here: call the column bag_label just label"
        guess = did_you_mean(name, [name for name in frame if name not in TEXT])
        findings.problem(table, 1, f"there is no column {name}{guess}", cure)
    if missing:
        raise UnreadableError
    bags = frame[[name for name in TEXT if name in frame]].copy()
    bags["bag"] = bags["bag"].str.normalize(SPELLING)
    check_filled(bags, table, bags.columns, findings)
    settle_splits(bags, table, findings)
    check_one_each(bags, table, "bag", bags.columns[1:], "a bag has one; correct the rows", findings)
    first = bags.drop_duplicates("bag")
    where = dict(zip(first["bag"], first.index, strict=True))
    for row, name in bags["bag"][bags.index.difference(first.index)].items():
        if name:
            findings.problem(table, row, f"bag {name} stands in row {where[name]} too", "keep one row a bag")
    if "split" in bags and "group" in bags:
        check_one_each(first, table, "group", ["split"], "move all bags of a group to one split", findings)
    if wish.training:
        check_for_training(first, table, findings)
    return table, first[first["bag"] != ""]


def _match(bags: pd.DataFrame, files: dict[str, Path], table: Path, findings: Findings) -> None:
    """Every bag of the table has a file, and every file a row."""
    for row, name in bags["bag"].items():
        if name not in files:
            too_long = lower_suffix(name) in SUFFIXES
            cure = "write the file's name without its ending" if too_long else "add the file, or leave the bag out"
            findings.problem(table, row, f"bag {name} is empty: it has no file in {table.parent}", cure)
    listed = set(bags["bag"])
    for name, path in files.items():
        if name not in listed:
            cure = f"add its bag to {table.name}, or take the file out of the folder"
            findings.problem(path, None, f"bag {name} has no row in {table.name}", cure)


def _look(path: Path, findings: Findings) -> FeatureFile | None:
    try:
        return inspect_feature_file(path)
    except FeatureFileError as error:
        findings.problem(error.path, None, error.what, error.cure)
        return None


def _alike(files: list[FeatureFile], findings: Findings) -> list[FeatureFile]:
    """Files of the width and dtype that most have; the others are problems."""
    if not files:
        return []
    kinds = [(file.width, file.dtype) for file in files]
    ((most, _),) = Counter(kinds).most_common(1)
    usual = files[kinds.index(most)]
    good = []
    for file in files:
        try:
            check_compatible(file, usual)
            good.append(file)
        except FeatureFileError as error:
            findings.problem(error.path, None, error.what, error.cure)
    return good


def _coordinates(store: FeatureFiles, findings: Findings) -> np.ndarray | None:
    try:
        return store.coordinates()
    except FeatureFileError as error:
        findings.problem(error.path, None, error.what, error.cure)
        return None


def _check_finite(file: FeatureFile, store, positions: np.ndarray, findings: Findings) -> None:
    bad = np.concatenate([not_finite(block) for block in iterate_chunks(store, positions)])
    if bad.any():
        more = "" if bad.sum() == 1 else f" (and {count_noun(bad.sum() - 1, 'more row')})"
        what = f"features [{bad.argmax()}]{more} hold NaN, infinity or a number too large for float32"
        findings.problem(file.path, None, what, "extract the features again, or leave those rows out")
