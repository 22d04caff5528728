"""The checks of bags that were read: each is a function that yields problems, and warnings as text."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import count_noun
from .custom_bags import SPLITS, CustomBags
from .findings import Findings, Problem, abbreviate_names, cells, counted
from .tables import MISSING

Found = Iterator[Problem | str]

FEW_BAGS = 10  # a class that is the label of fewer bags is warned about
LABEL_COLUMNS = ("bag_label", "label", "second_label")


def add_found(found: Found, findings: Findings) -> None:
    for each in found:
        if isinstance(each, Problem):
            findings.problems.append(each)
        else:
            findings.warn(each)


# ---------------------------------------------------------------------- rows of a table


def read_bags(frame: pd.DataFrame, file: Path, columns: list[str], findings: Findings) -> pd.DataFrame:
    """One row per bag, with these columns, which must have one value in all rows of a bag."""
    rows = frame[["bag", *columns]]
    if "split" in rows:
        rows = rows.assign(split=rows["split"].str.lower())
    bags = rows.drop_duplicates("bag")
    add_found(empty_cells(rows, file, [name for name in ("bag", "split", "group") if name in rows]), findings)
    add_found(unknown_splits(rows, file), findings)
    add_found(two_values(rows, file, "bag", columns, "give all rows of a bag the same value"), findings)
    if {"split", "group"} <= {*columns}:
        add_found(two_values(bags, file, "group", ["split"], "move all bags of a group to one split"), findings)
    return bags


def empty_cells(frame: pd.DataFrame, file: Path, columns: Iterable[str]) -> Found:
    """Cells of text that are empty. What belongs to the bag is one problem per bag."""
    for name in columns:
        optional = name in ("split", "group")
        empty = frame.index[(frame[name] == "") & ~(optional & (frame["bag"] != "") & frame["bag"].duplicated())]
        cure = f"fill the cell, or remove the column {name}" if optional else "fill the cell"
        yield from (Problem(file, row, f"{name} is empty", cure) for row in empty.tolist())


def unknown_splits(frame: pd.DataFrame, file: Path) -> Found:
    if "split" in frame:
        for row, name in cells(frame["split"][~frame["split"].isin([*SPLITS, ""])]):
            yield Problem(file, row, f"split is {name!r}", "write train, val or test")


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


# ---------------------------------------------------------------------- bags to train on


def one_class(source: CustomBags, file: Path) -> Found:
    named = source.bags.bag_labels.named_classes()
    if len(named) == 1:
        what = f"all bags have the label {source.bags.classes[named.pop()]!r}"
        yield Problem(file, None, what, "give bags of two or more classes")


def few_bags(source: CustomBags, file: Path) -> Found:
    counts, rare = source.bags.bag_labels.counts.tolist(), source.rare_classes()
    few = [
        f"{source.bags.classes[number]} ({count_noun(count, 'bag')})"
        for number, count in enumerate(counts)
        if 0 < count < FEW_BAGS and number not in rare
    ]
    if few:
        classes = "a class is" if len(few) == 1 else f"{len(few):,} classes are"
        yield (
            f"{classes} the label of fewer than ten bags: {abbreviate_names(few)}: at least ten of each are "
            "recommended to train and evaluate"
        )


def classes_of_splits(source: CustomBags, file: Path) -> Found:
    """With a column split: training bags, and each class that is a label, in every split."""
    if source.split is None:
        return
    if "train" not in source.split:
        cure = "mark the bags to train on, or remove the split column"
        yield Problem(file, None, "no bag is in split train", cure)
    bags = source.bags.without_classes(source.rare_classes())
    for split in {*SPLITS} & {*source.split.tolist()}:
        named = bags.bag_labels.take(source.split == split).named_classes()
        missing = [bags.classes[number] for number in sorted({*bags.labels.tolist()} - named - {-1})]
        if split == "test" and missing:  # an external test set may lack a rare class
            shown = abbreviate_names(missing)
            yield f"no bag in split test has the label {shown}: the test results say little about it"
            continue
        for name in missing:
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


def odd_names(source: CustomBags, file: Path) -> Found:
    """Names that are probably two spellings of one, or mark a missing value."""
    bags = source.bags
    of_groups = () if bags.groups is None else bags.groups
    for kind, names in {"bag": bags.bag_names(), "class": bags.classes, "group": of_groups}.items():
        spellings = defaultdict(list)
        for name in sorted({*map(str, names)}):
            spellings[_usual_spelling(name)].append(name)
        pairs = [same for same in spellings.values() if len(same) > 1]
        if pairs:
            more = f" (and {count_noun(len(pairs) - 1, 'more pair')})" if len(pairs) > 1 else ""
            yield (
                f"the names {pairs[0][0]!a} and {pairs[0][1]!a} of a {kind} differ only in capitals, spaces, Unicode "
                f"form or .0{more}: if they mean the same, spell them the same way"
            )
        for name in sorted({*map(str, names)} & {*MISSING}):
            cure = "if it marks a missing value, fill the cells or leave the rows out"
            yield f"{name} is used as the name of a {kind}: {cure}"


def _usual_spelling(name: str) -> str:
    """
    >>> _usual_spelling(" Tumour  cells"), _usual_spelling("7.0"), _usual_spelling("v1.0")
    ('tumour cells', '7', 'v1.0')
    """
    usual = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    return usual.removesuffix(".0") if usual.removesuffix(".0").isdigit() else usual


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
            yield f"{counted(len(outvoted), 'bag')} a label other than the most common true class{shown}"


OF_TRAINING = (one_class, few_bags, classes_of_splits, missing_labels, odd_names, outvoted_labels)
