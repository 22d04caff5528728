"""The table of bags that every kind of custom source produces, and its checks."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from ...errors import count_noun
from .custom_bags import SPLITS
from .findings import Findings
from .tables import MISSING

FEW_BAGS = 10  # a class that is the label of fewer bags is warned about


def check_filled(frame: pd.DataFrame, file: Path, columns: Iterable[str], findings: Findings) -> None:
    """Check that these text columns have no empty cell. What belongs to the bag is one problem per bag."""
    without_label = "leave the bag out: `majority predict` needs no labels"
    alternatives = {"bag_label": without_label, "label": without_label}
    alternatives |= {name: f"remove the column {name}" for name in ("split", "group")}
    for name in columns:
        cure = f"fill the cell, or {alternatives[name]}" if name in alternatives else "fill the cell"
        empty = frame[frame[name] == ""]
        if name in alternatives:
            empty = empty[(empty["bag"] == "") | ~empty["bag"].duplicated()]
        for row in empty.index:
            findings.add_problem(file, row, f"{name} is empty", cure)


def normalise_splits(frame: pd.DataFrame, file: Path, findings: Findings) -> None:
    """Change the names of splits to lower case and check that they are known."""
    if "split" in frame:
        frame["split"] = frame["split"].str.lower()
        unknown = frame["split"][~frame["split"].isin([*SPLITS, ""])]
        for row, name in zip(unknown.index, unknown, strict=True):
            findings.add_problem(file, row, f"split is {name!r}", "write train, val or test")


def check_consistent(
    frame: pd.DataFrame, file: Path, owner: str, columns: Iterable[str], cure: str, findings: Findings
) -> None:
    """Check that all rows of one bag (or group) have the same value in each column; name the first other row."""
    names = frame[owner].to_numpy()
    owners = pd.factorize(names)[0]
    first_row = np.unique(owners, return_index=True)[1][owners]  # (n,) of the same owner
    for column in columns:
        values = frame[column].to_numpy()
        which = pd.factorize(values)[0]  # comparing numbers is faster than comparing text
        seen = {""}  # a cell that is empty is reported elsewhere
        for i in np.flatnonzero(which != which[first_row]).tolist():
            name, first_value, value = names[i], values[first_row[i]], values[i]
            if name not in seen and "" not in (first_value, value):
                seen.add(name)
                what = f"{owner} {name} has two {column}s ({first_value!r} in its first row, {value!r} here)"
                findings.add_problem(file, frame.index[i], what, cure)


def check_for_training(bags: pd.DataFrame, file: Path, findings: Findings) -> None:
    _check_classes(bags, file, findings)
    _warn_of_spellings(bags, findings)
    _warn_of_missing_names(bags, findings)


def _warn_of_spellings(bags: pd.DataFrame, findings: Findings) -> None:
    """Warn of names that differ only in capitals, spaces, Unicode form or .0: usually the same name is meant."""
    for column in ("bag", "label", "group"):
        spellings = defaultdict(list)
        for name in bags[column].unique() if column in bags else ():
            spellings[_without_point_zero(_without_case(_without_unicode_form(name)))].append(name)
        pairs = [names for names in spellings.values() if len(names) > 1]
        if pairs:
            difference, cure = _difference(*pairs[0][:2])
            more = f" (and {count_noun(len(pairs) - 1, 'more pair')})" if len(pairs) > 1 else ""
            findings.warn(f"{column}s {difference}{more}: if they mean the same, spell them the same way{cure}")


def _difference(one: str, other: str) -> tuple[str, str]:
    """What two names differ in, and a hint at the cure if it is not obvious."""
    if _without_point_zero(one) == _without_point_zero(other):
        return f"{one!r} and {other!r} differ only in .0", ""
    if _without_case(one) == _without_case(other):
        return f"{one!r} and {other!r} differ only in capitals or spaces", ""
    more = "" if _without_unicode_form(one) == _without_unicode_form(other) else ", capitals or spaces"
    return (
        f"{one!a} and {other!a} differ only in their Unicode form{more}",
        ", e.g. by unicodedata.normalize('NFKC', name)",
    )


def _without_case(name: str) -> str:
    return " ".join(name.casefold().split())


def _without_point_zero(name: str) -> str:
    return name.removesuffix(".0") if name.removesuffix(".0").isdigit() else name


def _without_unicode_form(name: str) -> str:
    return unicodedata.normalize("NFKC", name)


def _warn_of_missing_names(bags: pd.DataFrame, findings: Findings) -> None:
    """Warn of names such as NA, which mark a missing number in other columns."""
    for column, kind in {"bag": "a bag", "label": "a class", "group": "a group"}.items():
        for name in sorted({*MISSING} & {*bags.get(column, ())}):
            cure = "if it marks a missing value, fill the cells or leave the rows out"
            findings.warn(f"{name} is used as the name of {kind}: {cure}")


def _check_classes(bags: pd.DataFrame, file: Path, findings: Findings) -> None:
    """Check that there are two classes at least, and that each class has bags in the splits train and val."""
    labels = bags["label"][bags["label"] != ""]
    counts = labels.value_counts()
    if len(counts) == 1:
        what = f"all bags have the label {counts.index[0]!r}"
        findings.add_problem(file, None, what, "give bags of two or more classes")
    for name, count in counts.sort_index().items():
        if count < FEW_BAGS:
            findings.warn(
                f"class {name} is the label of only {count_noun(count, 'bag')}: "
                "at least ten are recommended to train and evaluate it"
            )
    if "split" not in bags:
        return
    used = [split for split in SPLITS if (bags["split"] == split).any()]
    if used and "train" not in used:
        cure = "mark the bags to train on, or remove the split column"
        findings.add_problem(file, None, "no bag is in split train", cure)
    for split in used:
        missing = sorted(set(counts.index) - set(labels[bags["split"] == split]))
        if split == "test" and missing:  # an external test set may lack a rare class
            shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            findings.warn(f"no bag in split test has the label {shown}: the test results say little about it")
            continue
        for name in missing:
            findings.add_problem(
                file,
                None,
                f"class {name} has no bag in split {split}",
                f"move a bag of it to {split}, or remove the split column to have the bags divided by class",
            )


def sorted_classes(names: Iterable[str]) -> tuple[str, ...]:
    """Sorted by value if all names are numbers, otherwise alphabetically.

    >>> sorted_classes(["10", "9", "2"]), sorted_classes(["b", "10", "a"])
    (('2', '9', '10'), ('10', 'a', 'b'))
    """
    names = sorted(set(names))
    try:
        values = [float(name) for name in names]
    except ValueError:
        return tuple(names)
    return tuple(names[i] for i in np.argsort(values, kind="stable"))
