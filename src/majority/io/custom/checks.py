"""The checks of bags that were read: each is a function that yields problems, and warnings as text."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import count_noun
from .custom_bags import SPLITS, CustomBags
from .findings import Findings, Problem, abbreviate_names
from .tables import MISSING, look_alikes, other_content

Found = Iterator[Problem | str]

FEW_BAGS = 10  # a class that is the label of fewer bags is warned about
LABEL_COLUMNS = ("bag_label", "label", "second_label")


# ---------------------------------------------------------------------- rows of a table


def read_bags(frame: pd.DataFrame, file: Path, columns: list[str], findings: Findings) -> pd.DataFrame:
    """One row per bag, with these columns, which must have one value in all rows of a bag."""
    rows = frame[["bag", *columns]]
    if "split" in rows:
        rows = rows.assign(split=rows["split"].str.lower())
    bags = rows.drop_duplicates("bag")
    findings.add(empty_cells(rows, file, ["bag"]))
    findings.add(empty_cells(bags, file, [name for name in ("split", "group") if name in rows]))
    if "split" in rows:
        for row, name in rows["split"][~rows["split"].isin([*SPLITS, ""])].items():
            findings.add_problem(file, row, f"split is {name!r}", "write train, val or test")
    findings.add(two_values(rows, file, "bag", columns, "give all rows of a bag the same value"))
    if {"split", "group"} <= {*columns}:
        findings.add(two_values(bags, file, "group", ["split"], "move all bags of a group to one split"))
    return bags


def empty_cells(frame: pd.DataFrame, file: Path, columns: Iterable[str]) -> Found:
    for name in columns:
        cure = f"fill the cell, or remove the column {name}" if name in ("split", "group") else "fill the cell"
        yield from (Problem(file, row, f"{name} is empty", cure) for row in frame.index[frame[name] == ""])


def two_values(frame: pd.DataFrame, file: Path, owner: str, columns: Iterable[str], cure: str) -> Found:
    """Rows of one bag (or group) with another value than its first row; one for each bag."""
    names = frame[owner].to_numpy()
    owners = pd.factorize(names)[0]
    first_row = np.unique(owners, return_index=True)[1][owners]  # (n,) of the same owner
    for column in columns:
        values = frame[column].to_numpy()
        which = pd.factorize(values)[0]  # comparing numbers is faster than comparing text
        seen = {""}  # a cell that is empty is reported elsewhere, unless it may be
        for i in np.flatnonzero(which != which[first_row]).tolist():
            name, first, value = names[i], values[first_row[i]], values[i]
            if name not in seen and (column in LABEL_COLUMNS or "" not in (first, value)):
                seen.add(name)
                what = f"{owner} {name} has two {column}s ({first!r} in its first row, {value!r} here)"
                yield Problem(file, int(frame.index[i]), what, cure)


def misspelt(frame: pd.DataFrame) -> Found:
    """Columns of a table without features that are probably meant as others."""
    for name, meant in look_alikes(frame.columns).items():
        yield f"column {name} is not used: it looks like the column {meant}: rename it, or ignore this"


def repeated_rows(frame: pd.DataFrame) -> Found:
    """Rows that equal an earlier one of their bag. It is no problem, because rows of few values may be equal."""
    columns = [name for name in frame if not other_content(frame[name])]
    hashes = pd.util.hash_pandas_object(frame[columns], index=False)
    repeated = hashes.index[hashes.duplicated()]
    if len(repeated):
        first = hashes.index[hashes == hashes[repeated[0]]][0]
        yield (
            f"rows that repeat another row of their bag: {len(repeated):,}, e.g. row {repeated[0]}, which is the same "
            f"as row {first}: each counts as an instance: remove accidental copies"
        )


# ---------------------------------------------------------------------- bags to train on


def one_class(source: CustomBags, file: Path) -> Found:
    named = source.bags.bag_labels.named_classes()
    if len(named) == 1:
        what = f"all bags have the label {source.bags.classes[named.pop()]!r}"
        yield Problem(file, None, what, "give bags of two or more classes")


def few_bags(source: CustomBags, file: Path) -> Found:
    counts, rare = source.bags.bag_labels.counts.tolist(), source.rare_classes()
    few = [
        f"{name} ({count_noun(count, 'bag')})"
        for number, (name, count) in enumerate(zip(source.bags.classes, counts, strict=True))
        if 0 < count < FEW_BAGS and number not in rare
    ]
    if few:
        yield f"fewer than ten bags have these labels: {abbreviate_names(few)}: give at least ten of each class"


def classes_of_splits(source: CustomBags, file: Path) -> Found:
    """With a column split: training bags, and each class that is a label, in every split."""
    if source.split is None:
        return
    if "train" not in source.split:
        yield Problem(file, None, "no bag is in split train", "mark the bags to train on, or remove the split column")
    bags = source.bags.without_classes(source.rare_classes())
    for split in {*SPLITS} & {*source.split.tolist()}:
        named = bags.bag_labels.take(source.split == split).named_classes()
        for number in sorted({*bags.labels.tolist()} - named - {-1}):
            name = bags.classes[number]
            if split == "test":  # an external test set may lack a rare class
                yield f"no bag in split test has the label {name}: the test results say little about it"
                continue
            cure = f"move a bag of it to {split}, or remove the split column to have the bags divided by class"
            yield Problem(file, None, f"class {name} has no bag in split {split}", cure)


def missing_labels(source: CustomBags, file: Path) -> Found:
    without = np.flatnonzero(~source.bags.bag_labels.known)
    if len(without):
        noun = f"{len(without):,} of {count_noun(len(source.bags), 'bag')} have"
        yield (
            f"{noun} no label (e.g. {source.bags.bag_names()[without[0]]}): recipe census, the default, uses the "
            "instances of such training bags where it needs no labels; other recipes do not use them"
        )


def odd_classes(source: CustomBags, file: Path) -> Found:
    """Classes that are probably two spellings of one, or mark a missing value."""
    spellings = defaultdict(list)
    for name in source.bags.classes:
        spellings[" ".join(name.casefold().split()).removesuffix(".0")].append(name)
        if name in MISSING:
            yield f"{name} is used as the name of a class: if it marks a missing value, leave these cells empty"
    for one, other, *_ in (names for names in spellings.values() if len(names) > 1):
        yield f"classes {one!r} and {other!r} differ only in spelling: if they mean the same, spell them the same way"


def outvoted_labels(source: CustomBags, file: Path) -> Found:
    """Bag labels that are not the most common true class, in bags in which all true classes are known."""
    bags = source.bags
    checked = np.flatnonzero(bags.fully_known & bags.bag_labels.known)
    if len(checked):
        some = bags.subset(checked)
        counts = some.class_counts(weighted=True)[:, : len(bags.classes)]  # a --background is not counted
        own = np.where(some.bag_labels.allowed, counts, -1).max(axis=1)
        outvoted = checked[own < counts.max(axis=1)]
        if len(outvoted):
            shown = f"{'' if bags.weights is None else ' by weight'}, e.g. {bags.bag_names()[outvoted[0]]}"
            yield f"bags with a label other than the most common true class: {len(outvoted):,}{shown}"


OF_TRAINING = (one_class, few_bags, classes_of_splits, missing_labels, odd_classes, outvoted_labels)
