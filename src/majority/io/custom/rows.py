"""A table with one row per instance, which names an image or has its features, becomes Content."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.validation import LARGEST_COORDINATE, WEIGHT_CURE, is_weight
from .checks import Found, add_found, empty_cells, read_bags, two_values
from .content import Content, Facts
from .features import columns_are, read_features
from .findings import Findings, UnreadableError, cells, counted
from .names import MEANINGS, TEXT, did_you_mean, find_look_alikes, look_alikes
from .options import ReadOptions
from .parquet import LEFT_OUT, is_parquet
from .tables import as_numbers, as_text, read_table

_LAST_TABLE: dict[Hashable, pd.DataFrame] = {}  # text has to be read as a whole, for the first block
BAG_COLUMNS = ("bag_label", "second_label", "split", "group")  # have one value per bag
NEEDED = (
    "a table needs the columns bag and bag_label, or others that --bag-column and --label-column name, and path or "
    "numeric columns; `majority predict` needs no labels, and `majority evaluate` may use a column label instead"
)
NEEDED_FOR_REVIEW = (
    "a review compares the labels of bags with the counts: add this column, or name it by --label-column"
)
MIN_ROWS = 10  # of a table in which every bag has one row


def read_manifest(path: Path, options: ReadOptions, findings: Findings) -> Content:
    return read_rows(read_frame(path, options, findings), path, options, findings)


def read_frame(path: Path, options: ReadOptions, findings: Findings) -> pd.DataFrame:
    """The rows of a table, or of a block of it."""
    names, block = options.names.usual("bag_label"), options.block
    if block is None or is_parquet(path):
        return read_table(path, TEXT, findings, names, optional_names=options.for_classifier, block=block)
    facts = path.stat()
    key = (path, facts.st_size, facts.st_mtime_ns, options.names)
    if key not in _LAST_TABLE:
        _LAST_TABLE.clear()
        _LAST_TABLE[key] = read_table(path, TEXT, findings, names, optional_names=options.for_classifier)
    return _LAST_TABLE[key].iloc[block.start :][: block.rows].copy()


def read_rows(
    frame: pd.DataFrame,
    path: Path,
    options: ReadOptions,
    findings: Findings,
    bags: pd.DataFrame | None = None,
) -> Content:
    """The content of a table of instances, which is at this path; images are relative to its folder.

    `bags` are from a table of their own, whose cells were checked.
    """
    if bags is None:
        frame, options = _check_columns(frame, path, options, findings)
    has_images = "path" in frame
    options.check_applicable(path, images=has_images, columns=not has_images)
    if has_images:
        add_found(empty_cells(frame, path, ["path"]), findings)
    if bags is None:
        columns = [name for name in BAG_COLUMNS if name in frame and (options.labels or name == "group")]
        bags = read_bags(frame, path, columns, findings).rename(columns={"bag_label": "label"})
        add_found(_single_rows(frame, bags, options), findings)
    bag_of, names = pd.factorize(frame["bag"])  # bags in the order of their first row
    order = np.argsort(bag_of, kind="stable")
    facts = read_facts(frame, path, order, options, findings)
    bags = bags.iloc[pd.Index(bags["bag"]).get_indexer(names)]
    content = Content(path, bags, np.bincount(bag_of), None, order, facts)
    if not has_images:
        content.store, content.encoder = read_features(frame, path, options, findings)
        add_found(_repeated_rows(frame, [*frame.columns], "is the same in every cell"), findings)
        return content
    from .image_store import read_images

    add_found(look_alikes(frame, path, MEANINGS, (), options), findings)
    if options.training:
        add_found(_unused_columns(frame, options), findings)
    read_images(frame, order, content, options, findings)
    resolved = frame.assign(path=resolve_aliases(path.parent, frame["path"]))
    add_found(_shared_images(resolved, path, options), findings)
    add_found(_repeated_rows(resolved, ["bag", "path"], "names the same image"), findings)
    return content


def _check_columns(
    frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings
) -> tuple[pd.DataFrame, ReadOptions]:
    """Check that the needed columns are there. The options are then without labels if these are missing, to find other
    problems, or if they may be missing."""
    if options.unlabelled and "bag_label" in frame and (frame["bag_label"] == "").all():
        frame = frame.drop(columns="bag_label")
    if options.unlabelled:
        options = replace(options, labels="bag_label" in frame or has_instance_labels(frame))
    enough = not (options.training or options.review) and has_instance_labels(frame)
    needed = ["bag", "bag_label"] if options.labels and not enough else ["bag"]
    for name in needed:
        if name not in frame:
            guess = did_you_mean(name, [other for other in frame.columns if other not in MEANINGS])
            cure = NEEDED_FOR_REVIEW if options.review and name == "bag_label" else NEEDED
            findings.add_problem(path, 1, f"there is no column {name}{guess}", cure)
    if "bag" not in frame:
        raise UnreadableError
    return frame, options if {*needed} <= {*frame} else replace(options, labels=False)


def _single_rows(frame: pd.DataFrame, bags: pd.DataFrame, options: ReadOptions) -> Iterator[str]:
    """Every bag has one row: often a row is a bag, or another column names the bags."""
    if not options.training or len(bags) < len(frame) or len(frame) < MIN_ROWS or "bag_label" not in frame:
        return
    names = [name for name in frame.columns if name not in MEANINGS and not pd.api.types.is_float_dtype(frame[name])]
    classes, guess = frame["bag_label"].nunique(), ""
    for name in names:
        repeats = classes < frame[name].nunique() <= len(frame) / 2
        if repeats and frame.groupby(name)["bag_label"].nunique().max() == 1:
            guess = f"; column {name} looks like the bag: --bag-column {name}"
            break
    yield f"every bag has one row: a row is one instance, and a bag has the label of several instances{guess}"


# ---------------------------------------------------------------------- facts of instances


def has_instance_labels(frame: pd.DataFrame) -> bool:
    return "label" in frame and bool((frame["label"] != "").any())


def read_facts(frame: pd.DataFrame, path: Path, order: np.ndarray, options: ReadOptions, findings: Findings) -> Facts:
    """What the table says of the instances, in this order."""
    labels = frame["label"].to_numpy() if options.labels and has_instance_labels(frame) else None
    given = [name for name in ("x", "y") if name in frame]
    if len(given) == 1:
        findings.add_problem(path, 1, f"there is only a column {given[0]}", "give both x and y, or neither")
    cure = f"write a number of up to ±{LARGEST_COORDINATE:,}, or remove the columns x and y"
    sides = []
    for name in given if len(given) == 2 else ():
        sides.append(as_numbers(frame[name]))
        _report_cells(frame[name], path, ~(np.abs(sides[-1]) <= LARGEST_COORDINATE), cure, findings)
    coordinates = np.stack(sides, axis=1) if sides else None
    if coordinates is not None and (np.abs(coordinates) <= LARGEST_COORDINATE).all() and (coordinates % 1 == 0).all():
        coordinates = coordinates.astype(np.int64)
    weights = as_numbers(frame["weight"]) if "weight" in frame else None
    if weights is not None:
        cure = f"{WEIGHT_CURE}; rename the column if it is a feature"
        _report_cells(frame["weight"], path, ~is_weight(weights), cure, findings)
        findings.warn(
            "column weight is how much each instance counts: the label of a bag is the class with the largest sum of "
            "weights; rename the column if it is a feature"
        )
    found = (labels, coordinates, weights)
    return Facts(*(None if values is None else values[order] for values in found))


def _report_cells(column: pd.Series, path: Path, wrong: np.ndarray, cure: str, findings: Findings) -> None:
    for row, cell in cells(as_text(column[wrong])):
        findings.add_problem(path, row, f"{column.name} is {cell or 'empty'}", cure)


# ---------------------------------------------------------------------- repeated rows and images


def resolve_aliases(folder: Path, names: pd.Series) -> pd.Series:
    """One path for each file, be it named with ./, .. or doubled slashes, relative or absolute.

    >>> resolve_aliases(Path("/data"), pd.Series(["a/b.png", "./a//b.png", "/data/a/b.png"])).unique().tolist()
    ['/data/a/b.png']
    """
    which, paths = pd.factorize(names)
    full = [os.path.normpath(os.path.join(folder.absolute(), path)) for path in paths]
    return pd.Series(np.array(full, object)[which], names.index)


def _repeated_rows(frame: pd.DataFrame, columns: list[str], what: str) -> Iterator[str]:
    """Rows that equal an earlier one in these columns. It is no problem, because rows of few values may be equal."""
    hashes = pd.util.hash_pandas_object(frame[columns], index=False)
    repeated = hashes.duplicated()
    if repeated.any():
        row = hashes.index[repeated][0]
        rows = "1 row of a bag repeats" if repeated.sum() == 1 else f"{repeated.sum():,} rows of bags repeat"
        yield (
            f"{rows} another row (e.g. row {row} {what} as row {hashes.index[hashes == hashes[row]][0]}): each row "
            "counts as one instance: remove accidental duplicates"
        )


def _shared_images(frame: pd.DataFrame, path: Path, options: ReadOptions) -> Found:
    """Images in two splits, where they would be used for training and for testing."""
    if not options.training:
        return
    if options.labels and "split" in frame:
        cure = "an image belongs to one split; leave it out of the others"
        yield from two_values(frame.assign(split=frame["split"].str.lower()), path, "path", ["split"], cure)
        return
    bags = frame.groupby("path", sort=False)["bag"].nunique()
    if (bags > 1).any():
        yield (
            f"{counted(int((bags > 1).sum()), 'image', 'are')} in two or more bags (e.g. {bags.index[bags > 1][0]}): "
            "give a split or group column, otherwise the same image may be used for training and for testing"
        )


def _unused_columns(frame: pd.DataFrame, options: ReadOptions) -> Iterator[str]:
    """Columns that a manifest of images does not need."""
    alike = find_look_alikes([*frame.columns], MEANINGS, options)
    others = [name for name in (*frame.columns, *frame.attrs.get(LEFT_OUT, ())) if name not in (*MEANINGS, *alike)]
    if others:
        yield f"{columns_are(others)} not used: the instances are the images of the column path"
