"""A table with one row per instance, which names an image or has its features, becomes Content."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import pandas as pd

from .checks import Found, empty_cells, misspelt, read_bags, repeated_rows, two_values
from .content import Content, has_instance_labels, read_facts
from .features import MIN_ROWS, RESERVED, read_features
from .findings import Findings, ProblemError
from .options import ColumnNames, ReadOptions
from .tables import TEXT, did_you_mean, is_parquet, read_table

BAG_COLUMNS = ("bag_label", "second_label", "split", "group")  # have one value per bag
NEEDED = (
    "a table needs the columns bag and bag_label, or others that --bag-column and --label-column name, and path or "
    "numeric columns (to predict, no labels are needed; to evaluate, a column label is enough)"
)


def read_manifest(path: Path, options: ReadOptions, findings: Findings) -> Content:
    frame, options = _check_columns(read_frame(path, options), path, options)
    columns = [name for name in BAG_COLUMNS if name in frame and (options.labels or name == "group")]
    bags = read_bags(frame, path, columns, findings).rename(columns={"bag_label": "label"})
    if options.training and len(bags) == len(frame) >= MIN_ROWS:
        findings.warn(
            "every bag has one row: a row is one instance, and a bag has the label of several instances; "
            f"{_bag_like_column(frame)} with --bag-column"
        )
    return read_rows(frame, path, bags, options, findings)


def _bag_like_column(frame: pd.DataFrame) -> str:
    """The first column that divides the rows into several groups per class, each with one label."""
    labels = frame.get("bag_label", pd.Series(dtype=str))
    for name in frame.columns.difference(["bag", "bag_label"], sort=False):
        of_groups = labels.groupby(frame[name], sort=False).nunique()
        if labels.nunique() < len(of_groups) <= len(frame) / 2 and (of_groups == 1).all():
            return f"column {name} looks like the bag: name it"
    return "if another column names the bags, give it"


def read_frame(path: Path, options: ReadOptions) -> pd.DataFrame:
    """The rows of a table, or of a block of it."""
    block = options.block
    if block is None or is_parquet(path):
        return read_table(path, TEXT, _names(options.names), options.for_classifier, block)
    facts = path.stat()
    frame = _read_once(path, facts.st_size, facts.st_mtime_ns, options.names, options.for_classifier)
    return frame.iloc[block.start :][: block.rows].copy()


@lru_cache(1)
def _read_once(path: Path, size: int, changed_ns: int, names: ColumnNames, optional_names: bool) -> pd.DataFrame:
    """The rows of a file in this state: text has to be read as a whole, for the first block."""
    return read_table(path, TEXT, _names(names), optional_names)


def _names(names: ColumnNames) -> dict[str, str | None]:
    return {"bag": names.bag, "bag_label": names.label, "path": names.path}


def _check_columns(frame: pd.DataFrame, path: Path, options: ReadOptions) -> tuple[pd.DataFrame, ReadOptions]:
    """Check that the needed columns are there; without labels if these may be missing and are."""
    if options.unlabelled:
        if "bag_label" in frame and (frame["bag_label"] == "").all():
            frame = frame.drop(columns="bag_label")
        options = replace(options, labels="bag_label" in frame or has_instance_labels(frame))
    enough = not (options.training or options.review) and has_instance_labels(frame)
    for name in ("bag", "bag_label") if options.labels and not enough else ("bag",):
        if name not in frame:
            guess = did_you_mean(name, [other for other in frame.columns if other not in RESERVED])
            raise ProblemError(path, 1, f"there is no column {name}{guess}", NEEDED)
    return frame, options


def read_rows(frame: pd.DataFrame, path: Path, bags: pd.DataFrame, options: ReadOptions, findings: Findings) -> Content:
    """The content of a table of instances, which is at this path; images are relative to its folder."""
    has_images = "path" in frame
    options.check_applicable(path, images=has_images, columns=not has_images)
    bag_of, names = pd.factorize(frame["bag"])  # bags in the order of their first row
    order = np.argsort(bag_of, kind="stable")
    facts = read_facts(frame, path, order, options, findings)
    bags = bags.iloc[pd.Index(bags["bag"]).get_indexer(names)]
    content = Content(path, bags, np.bincount(bag_of), None, order, facts)
    findings.add(repeated_rows(frame[["bag", "path"]] if has_images else frame))
    if not has_images:
        content.store, content.encoder = read_features(frame, path, options, findings)
        return content
    from .images import read_images

    findings.add(empty_cells(frame, path, ["path"]))
    read_images(frame, order, content, options, findings)
    if options.training:
        findings.add(misspelt(frame))
        findings.add(_for_training(frame, path, options))
    return content


def _for_training(frame: pd.DataFrame, path: Path, options: ReadOptions) -> Found:
    """Images that may be used for training and for testing."""
    if options.labels and "split" in frame:
        cure = "an image belongs to one split; leave it out of the others"
        yield from two_values(frame.assign(split=frame["split"].str.lower()), path, "path", ["split"], cure)
        return
    bags = frame.groupby("path", sort=False)["bag"].nunique()
    if (bags > 1).any():
        yield (
            f"images in two or more bags, such as {bags.index[bags > 1][0]}: give a split or group column, otherwise "
            "the same image may be used for training and for testing"
        )
