"""Facts of single instances in a table of a manifest or a feature folder: coordinates, classes, paths, weights."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...data.validation import LARGEST_COORDINATE, WEIGHT_CURE, is_weight
from .findings import Findings, UnreadableError
from .look_alikes import warn_of_look_alikes
from .read_options import ReadOptions
from .tables import LISTS, as_numbers, as_text, describe_content, read_table

INSTANCES = "instances.csv"
TEXT = ("bag", "label", "path")


class InstanceFacts(NamedTuple):
    """Of the instances of a feature folder, bag after bag; None where the table has no such column."""

    labels: np.ndarray | None = None  # (n,) text, "" if unknown
    paths: np.ndarray | None = None  # (n,)
    coordinates: np.ndarray | None = None  # (n, 2)
    weights: np.ndarray | None = None  # (n,)


def read_instances(
    folder: Path, bags: list[str], sizes: np.ndarray, options: ReadOptions, findings: Findings
) -> InstanceFacts:
    """The optional instances.csv of a feature folder: one row per row of the feature files, in their order."""
    path = folder / INSTANCES
    if not path.is_file():
        return InstanceFacts()
    frame = read_table(path, TEXT, findings)
    if "bag" not in frame:
        findings.add_problem(path, 1, "there is no column bag", "name the bag of each row, or remove the file")
        raise UnreadableError
    warn_of_look_alikes(frame.columns, (*TEXT, "x", "y", "weight"), options, findings)
    found = frame["bag"].value_counts()
    cure = f"write one row per instance into {INSTANCES}, in the order of the feature files, or remove it"
    wrong = False
    for bag, size in zip(bags, sizes.tolist(), strict=True):
        rows = int(found.get(bag, 0))
        if rows != size:
            wrong = True
            findings.add_problem(path, None, f"bag {bag} has {rows:,} rows, its feature file {size:,}", cure)
    if wrong:
        return InstanceFacts()
    rows_of = frame.groupby("bag", sort=False).indices
    frame = frame.iloc[np.concatenate([rows_of[bag] for bag in bags])]
    return InstanceFacts(
        frame["label"].to_numpy() if has_instance_labels(frame) else None,
        frame["path"].to_numpy(str) if "path" in frame else None,
        read_coordinates(frame, path, findings),
        read_weights(frame, path, findings),
    )


def has_instance_labels(frame: pd.DataFrame) -> bool:
    return "label" in frame and bool((frame["label"] != "").any())


def read_weights(frame: pd.DataFrame, path: Path, findings: Findings) -> np.ndarray | None:  # (n,)
    """The column weight; other columns of numbers are features, so its meaning is reported."""
    if "weight" not in frame:
        return None
    if describe_content(frame["weight"]) == LISTS:
        findings.add_problem(path, None, "column weight contains lists", WEIGHT_CURE)
        return None
    weights = as_numbers(frame["weight"])
    wrong = as_text(frame["weight"][~is_weight(weights)])
    for row, cell in zip(wrong.index, wrong, strict=True):
        findings.add_problem(
            path, row, f"weight is {cell or 'empty'}", f"{WEIGHT_CURE}; rename the column if it is a feature"
        )
    findings.warn(
        "column weight is how much each instance counts: the label of a bag is the class with the largest sum of "
        "weights; rename the column if it is a feature"
    )
    return weights


def read_coordinates(frame: pd.DataFrame, path: Path, findings: Findings) -> np.ndarray | None:  # (n, 2)
    names = [name for name in ("x", "y") if name in frame]
    if not names:
        return None
    if len(names) == 1:
        findings.add_problem(path, 1, f"there is only a column {names[0]}", "give both x and y, or neither")
        return None
    columns, cure = [], f"write a number of up to ±{LARGEST_COORDINATE:,}, or remove the columns x and y"
    for name in names:
        if describe_content(frame[name]) == LISTS:
            findings.add_problem(path, None, f"column {name} contains lists", cure)
            return None
        numbers = as_numbers(frame[name])
        wrong = as_text(frame[name][~(np.abs(numbers) <= LARGEST_COORDINATE)])
        for row, cell in zip(wrong.index, wrong, strict=True):
            findings.add_problem(path, row, f"{name} is {cell or 'empty'}", cure)
        columns.append(numbers)
    both = np.stack(columns, axis=1)
    whole = (np.abs(both) <= LARGEST_COORDINATE).all() and (both % 1 == 0).all()  # others were reported above
    return both.astype(np.int64) if whole else both
