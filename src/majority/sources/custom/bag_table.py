"""The table of bags that every kind of source ends in, and the checks that do not depend on the kind."""

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

FEW_WINS = 10


def check_filled(frame: pd.DataFrame, file: Path, columns: Iterable[str], findings: Findings) -> None:
    """Every cell of these text columns is filled."""
    unknown = "leave the bag out: `majority predict` needs no labels"
    otherwise = {"bag_label": unknown, "label": unknown}
    otherwise |= {name: f"remove the column {name}" for name in ("split", "group")}
    for name in columns:
        cure = f"fill the cell, or {otherwise[name]}" if name in otherwise else "fill the cell"
        for row in frame.index[frame[name] == ""]:
            findings.problem(file, row, f"{name} is empty", cure)


def settle_splits(frame: pd.DataFrame, file: Path, findings: Findings) -> None:
    """Names of splits in small letters, each one that there is."""
    if "split" in frame:
        frame["split"] = frame["split"].str.lower()
        for row, name in frame["split"][~frame["split"].isin([*SPLITS, ""])].items():
            findings.problem(file, row, f"split is {name!r}", "write train, val or test")


def check_one_each(
    frame: pd.DataFrame, file: Path, owner: str, columns: Iterable[str], cure: str, findings: Findings
) -> None:
    """All rows of one bag (or group) agree in these columns; the first row that differs is named."""
    for column in columns:
        first = frame.groupby(owner, sort=False)[column].transform("first")
        differing = frame[(frame[column] != first) & (frame[column] != "") & (first != "") & (frame[owner] != "")]
        for row, entry in differing.drop_duplicates(owner).iterrows():
            where = f"{first[row]!r} in its first row, {entry[column]!r} here"
            findings.problem(file, row, f"{owner} {entry[owner]} has two {column}s ({where})", cure)


def check_for_training(bags: pd.DataFrame, file: Path, findings: Findings) -> None:
    _check_classes(bags, file, findings)
    _warn_of_spellings(bags, findings)
    _warn_of_missing_names(bags, findings)


def _warn_of_spellings(bags: pd.DataFrame, findings: Findings) -> None:
    """Names that differ in capitals, blanks, Unicode form or .0 alone are two to a program, and one to most writers."""
    for column in ("bag", "label", "group"):
        spellings = defaultdict(list)
        for name in bags[column].unique() if column in bags else ():
            spellings[_whole(_small(_one_form(name)))].append(name)
        twice = [names for names in spellings.values() if len(names) > 1]
        if twice:
            difference, cure = _difference(*twice[0][:2])
            more = f" (and {len(twice) - 1} more such)" if len(twice) > 1 else ""
            findings.warn(f"{column}s {difference} alone{more}: if they are one, write them alike{cure}")


def _difference(one: str, other: str) -> tuple[str, str]:
    """What two names differ in, and how to write them alike where that is not plain."""
    if _whole(one) == _whole(other):
        return f"{one!r} and {other!r} differ in .0", ""
    if _small(one) == _small(other):
        return f"{one!r} and {other!r} differ in capitals or blanks", ""
    more = "" if _one_form(one) == _one_form(other) else ", capitals or blanks"
    return f"{one!a} and {other!a} differ in their Unicode form{more}", ", e.g. by unicodedata.normalize('NFKC', name)"


def _small(name: str) -> str:
    return " ".join(name.casefold().split())


def _whole(name: str) -> str:
    """A whole number without its decimal point."""
    return name.removesuffix(".0") if name.removesuffix(".0").isdigit() else name


def _one_form(name: str) -> str:
    return unicodedata.normalize("NFKC", name)


def _warn_of_missing_names(bags: pd.DataFrame, findings: Findings) -> None:
    """What stands for a missing number in other columns is a name in these."""
    for column, of in {"bag": "a bag", "label": "a class", "group": "a group"}.items():
        for name in sorted({*MISSING} & {*bags.get(column, ())}):
            cure = "if it stands for a missing one, fill its cells or leave its rows out"
            findings.warn(f"{name} is taken as the name of {of}: {cure}")


def _check_classes(bags: pd.DataFrame, file: Path, findings: Findings) -> None:
    """Of bags with `label` and perhaps `split`: two classes at least, each where bags are learned and chosen by."""
    labels = bags["label"][bags["label"] != ""]
    wins = labels.value_counts()
    if len(wins) == 1:
        findings.problem(file, None, f"all bags have the label {wins.index[0]!r}", "give bags of two or more classes")
    for name, count in wins.sort_index().items():
        if count < FEW_WINS:
            won = count_noun(count, "bag")
            findings.warn(f"class {name} wins {won} only: ten or more are needed to learn and measure it")
    if "split" not in bags:
        return
    used = [split for split in SPLITS if (bags["split"] == split).any()]
    if used and "train" not in used:
        findings.problem(
            file, None, "no bag is in split train", "mark the bags to train on, or remove the split column"
        )
    for split in used:
        missing = sorted(set(wins.index) - set(labels[bags["split"] == split]))
        if split == "test" and missing:  # an outside set may lack a rare class
            shown = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
            findings.warn(f"no bag in split test has the label {shown}: the test figures say little of it")
            continue
        for name in missing:
            findings.problem(
                file,
                None,
                f"class {name} has no bag in split {split}",
                f"move a bag of it to {split}, or remove the split column to have the bags dealt by class",
            )


def sorted_classes(names: Iterable[str]) -> tuple[str, ...]:
    """By value where all are numbers, else by letters.

    >>> sorted_classes(["10", "9", "2"]), sorted_classes(["b", "10", "a"])
    (('2', '9', '10'), ('10', 'a', 'b'))
    """
    names = sorted(set(names))
    try:
        values = [float(name) for name in names]
    except ValueError:
        return tuple(names)
    return tuple(names[i] for i in np.argsort(values, kind="stable"))
