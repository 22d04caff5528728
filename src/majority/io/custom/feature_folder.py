"""A folder of feature files, one file per bag, a table of the labels of the bags, and optional facts of instances."""

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
    MissingPackageError,
    check_compatible,
    inspect_feature_file,
    lower_suffix,
)
from ...data.stores import FeatureFiles, Store, iterate_chunks
from ...data.validation import LARGEST_FEATURE, non_finite_rows
from ...errors import count_noun
from ...files import UNICODE_FORM
from ..embedding import Embedding, read_embedding
from ..image_summary import IMAGE_SUFFIXES
from .bag_table import check_consistent, check_filled, check_for_training, check_some_label, normalise_splits
from .content import Content
from .findings import Findings, UnreadableError
from .instance_table import INSTANCES, read_instances
from .look_alikes import warn_of_look_alikes
from .names import did_you_mean
from .read_options import ReadOptions
from .tables import TEXT_SUFFIXES, read_table

TEXT = ("bag", "label", "second_label", "split", "group")
LABELS = "labels.csv"


def read_folder(folder: Path, options: ReadOptions, findings: Findings) -> Content:
    options.check_applicable(folder, images=False, columns=False)
    embedding = _read_embedding(folder, findings)
    block = options.block
    files = find_files(folder, findings) if block is None else {_bag_name(name): folder / name for name in block.files}
    labelled = read_labels(folder, options, findings) if options.labels else None
    table, bags = labelled or (folder, pd.DataFrame({"bag": list(files)}))
    _match(bags, files, table, findings)
    inspected = [_inspect(files[name], findings) for name in bags["bag"].drop_duplicates() if name in files]
    usable = _compatible_files([file for file in inspected if file is not None], findings)
    if not usable:
        raise UnreadableError
    on_disk = FeatureFiles(usable)
    names = [_bag_name(file.path) for file in usable]
    instances = read_instances(folder, names, on_disk.sizes, options, findings)
    coordinates = _read_coordinates(on_disk, findings) if instances.coordinates is None else instances.coordinates
    store = on_disk.load_if_small()
    for file, start, end in zip(usable, on_disk.starts[:-1], on_disk.starts[1:], strict=True):
        _check_finite(file, store, np.arange(start, end), findings)
    on_disk.known_finite = True  # otherwise there are problems, and the store is not used
    return Content(
        table,
        bags,
        sizes=on_disk.sizes,
        store=store,
        index=np.arange(len(on_disk)),
        instance_labels=instances.labels if options.labels else None,
        coordinates=coordinates,
        weights=instances.weights,
        paths=instances.paths,
        numbered_within_bags=True,
        embedding=embedding,
    )


def _read_embedding(folder: Path, findings: Findings) -> Embedding | None:
    found = read_embedding(folder)
    if found is None:
        return None
    if not found.complete:
        findings.add_problem(folder, None, "some bags are missing", "repeat the `majority embed` command to continue")
        raise UnreadableError
    return found.embedding


def find_files(folder: Path, findings: Findings) -> dict[str, Path]:
    """Bag -> its feature file."""
    files: dict[str, Path] = {}
    for path in sorted(folder.iterdir()):
        if lower_suffix(path) not in SUFFIXES or path.name.startswith("."):
            continue
        name = _bag_name(path)
        if not _is_utf8(name):
            shown = os.fsencode(path.name).decode(errors="backslashreplace")
            findings.add_problem(folder, None, f"the name of the file {shown} is not UTF-8", "rename it")
        elif name in files:
            what = f"bag {name} has a second file, {files[name].name}"
            findings.add_problem(path, None, what, "keep one file per bag")
        else:
            files[name] = path
    if not files:
        findings.add_problem(folder, None, "there are no feature files", _no_files_cure(folder))
        raise UnreadableError
    return files


def _bag_name(file: str | Path) -> str:
    return unicodedata.normalize(UNICODE_FORM, Path(file).stem)


def _no_files_cure(folder: Path) -> str:
    suffixes = {lower_suffix(path) for path in folder.rglob("*")}
    if suffixes & {*IMAGE_SUFFIXES}:
        return (
            "it has images, but not in one folder per bag: move them, or write a CSV with the columns bag, bag_label "
            "and path (docs/how-to/images.md)"
        )
    if ".parquet" in suffixes:
        join = f"import pandas; pandas.read_parquet({str(folder)!r}).to_parquet('joined.parquet')"
        return f'it has Parquet files in other folders: join them with python -c "{join}" and give joined.parquet'
    return f"put {', '.join(SUFFIXES)} files there, one per bag"


def _is_utf8(name: str) -> bool:
    """Whether a name from the operating system can be written into a table."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_labels(folder: Path, options: ReadOptions, findings: Findings) -> tuple[Path, pd.DataFrame] | None:
    """The table of labels and its bags; None if there is no table and labels are optional."""
    table = _find_label_table(folder, options, findings)
    frame = None if table is None else _read_label_table(table, options, findings)
    if table is None or frame is None:
        return None
    bags = frame[[name for name in TEXT if name in frame]].copy()
    bags["bag"] = bags["bag"].str.normalize(UNICODE_FORM)
    check_filled(bags, table, [name for name in bags.columns if name not in ("label", "second_label")], findings)
    normalise_splits(bags, table, findings)
    check_consistent(bags, table, "bag", bags.columns[1:], "keep one value per bag", findings)
    first = _check_one_row_per_bag(bags, table, findings)
    if "split" in bags and "group" in bags:
        check_consistent(first, table, "group", ["split"], "move all bags of a group to one split", findings)
    check_some_label(first, table, options, findings)
    if options.training:
        check_for_training(first, table, findings)
    return table, first[first["bag"] != ""]


def _find_label_table(folder: Path, options: ReadOptions, findings: Findings) -> Path | None:
    """labels.csv, or the only table; None if there is none and labels are optional."""
    tables = sorted(path for path in folder.iterdir() if lower_suffix(path) in TEXT_SUFFIXES)
    tables = [path for path in tables if path.name != INSTANCES]
    table = folder / LABELS if folder / LABELS in tables or len(tables) != 1 else tables[0]
    if table.is_file():
        return table
    if options.unlabelled:
        return None
    what = "there is no table of labels" if not tables else f"there are {len(tables)} tables"
    cure = (
        f"write the columns bag and label into {LABELS}"
        if not tables
        else f"rename the one with the columns bag and label to {LABELS}"
    )
    findings.add_problem(folder, None, what, cure)
    raise UnreadableError


def _read_label_table(table: Path, options: ReadOptions, findings: Findings) -> pd.DataFrame | None:
    """Its rows, with the columns bag and label; None if it has no label and labels are optional."""
    names = options.names.usual("label")
    names.pop("path", None)
    frame = read_table(table, (*TEXT, "bag_label"), findings, names, optional_names=options.for_classifier)
    if options.unlabelled and not any((frame[name] != "").any() for name in ("label", "bag_label") if name in frame):
        return None
    if "label" not in frame and "bag_label" in frame:  # as in tables with one row per instance
        frame = frame.rename(columns={"bag_label": "label"})
    missing = [name for name in ("bag", "label") if name not in frame]
    for name in missing:
        cure = "the table has the columns bag and label, and optionally second_label, split and group"
        guess = did_you_mean(name, [other for other in frame.columns if other not in TEXT])
        findings.add_problem(table, 1, f"there is no column {name}{guess}", cure)
    if missing:
        raise UnreadableError
    warn_of_look_alikes(frame.columns, TEXT, options, findings)
    return frame


def _check_one_row_per_bag(bags: pd.DataFrame, table: Path, findings: Findings) -> pd.DataFrame:
    """The first row of each bag; further rows are problems."""
    first = bags.drop_duplicates("bag")
    row_of = dict(zip(first["bag"], first.index, strict=True))
    repeated = bags["bag"][bags.index.difference(first.index)]
    for row, name in zip(repeated.index, repeated, strict=True):
        if name:
            what = f"bag {name} is already in row {row_of[name]}"
            findings.add_problem(table, row, what, "keep one row per bag")
    return first


def _match(bags: pd.DataFrame, files: dict[str, Path], table: Path, findings: Findings) -> None:
    """Check that every bag of the table has a file, and that every file has a row."""
    for row, name in zip(bags.index, bags["bag"], strict=True):
        if name not in files:
            has_suffix = lower_suffix(name) in SUFFIXES
            cure = "write the file's name without its suffix" if has_suffix else "add the file, or leave the bag out"
            findings.add_problem(table, row, f"bag {name} has no file in {table.parent}", cure)
    listed = set(bags["bag"])
    for name, path in files.items():
        if name not in listed:
            cure = f"add its bag to {table.name}, or remove the file from the folder"
            findings.add_problem(path, None, f"bag {name} has no row in {table.name}", cure)


def _inspect(path: Path, findings: Findings) -> FeatureFile | None:
    try:
        return inspect_feature_file(path)
    except MissingPackageError as error:  # one problem, however many files need it
        findings.add_problem(path.parent, None, f"{path.name} {error.what}", error.cure)
        raise UnreadableError from None
    except FeatureFileError as error:
        findings.add_problem(error.path, None, error.what, error.cure)
        return None


def _compatible_files(files: list[FeatureFile], findings: Findings) -> list[FeatureFile]:
    """The files with the most common width and dtype; the others are problems."""
    if not files:
        return []
    kinds = [(file.width, file.dtype) for file in files]
    ((most_common, _),) = Counter(kinds).most_common(1)
    reference = files[kinds.index(most_common)]
    compatible = []
    for file in files:
        try:
            check_compatible(file, reference)
            compatible.append(file)
        except FeatureFileError as error:
            findings.add_problem(error.path, None, error.what, error.cure)
    return compatible


def _read_coordinates(store: FeatureFiles, findings: Findings) -> np.ndarray | None:
    try:
        return store.coordinates()
    except FeatureFileError as error:
        findings.add_problem(error.path, None, error.what, error.cure)
        return None


def _check_finite(file: FeatureFile, store: Store, positions: np.ndarray, findings: Findings) -> None:
    bad = np.concatenate([non_finite_rows(block) for block in iterate_chunks(store, positions)])
    if bad.any():
        rows = "has" if bad.sum() == 1 else f"and {count_noun(bad.sum() - 1, 'more row')} have"
        what = (
            f"row {bad.argmax()} of the features (from 0) {rows} NaN, infinity or a number beyond ±{LARGEST_FEATURE:g}"
        )
        findings.add_problem(file.path, None, what, "extract the features again, or leave these rows out")
