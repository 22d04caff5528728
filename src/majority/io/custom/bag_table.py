"""The table of bags that every kind of custom source produces, and its checks."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.labels import SEPARATOR, find_wrong_label, split_label
from ...errors import closest, count_noun
from .custom_bags import SPLITS
from .findings import MAX_EXAMPLES, Findings
from .names import MIN_SIMILARITY, abbreviate_names
from .read_options import ReadOptions
from .tables import MISSING

FEW_BAGS = 10  # a class that is the label of fewer bags is warned about
LABEL_COLUMNS = ("bag_label", "label", "second_label")


def check_filled(frame: pd.DataFrame, file: Path, columns: Iterable[str], findings: Findings) -> None:
    """Check that these text columns have no empty cell. What belongs to the bag is one problem per bag."""
    alternatives = {name: f"remove the column {name}" for name in ("split", "group")}
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
        may_be_empty = column in LABEL_COLUMNS
        seen = {""}  # a cell that is empty is reported elsewhere, unless it may be
        for i in np.flatnonzero(which != which[first_row]).tolist():
            name, first_value, value = names[i], values[first_row[i]], values[i]
            if name not in seen and (may_be_empty or "" not in (first_value, value)):
                seen.add(name)
                what = f"{owner} {name} has two {column}s ({first_value!r} in its first row, {value!r} here)"
                findings.add_problem(file, frame.index[i], what, cure)


def check_some_label(bags: pd.DataFrame, file: Path, options: ReadOptions, findings: Findings) -> None:
    """Check that a bag has a label, where labels are needed."""
    if "label" in bags and not options.unlabelled and not (bags["label"] != "").any():
        use = "training" if options.training else "a review" if options.review else "an evaluation"
        without = "" if options.review else "; `majority predict` needs no labels"
        cure = f"write the label of each bag that has one{without}"
        findings.add_problem(file, None, f"no bag has a label, and {use} needs some", cure)


def check_possible(
    bags: pd.DataFrame, sizes: np.ndarray, file: Path, classes: Collection[str], findings: Findings
) -> None:
    """Check each bag's label and runner-up: whether a bag of this size can have them."""
    if "label" not in bags:
        return
    seconds = bags["second_label"] if "second_label" in bags else pd.Series("", bags.index)
    for row, bag, label, second, size in zip(
        bags.index, bags["bag"], bags["label"], seconds, sizes.tolist(), strict=True
    ):
        wrong = find_wrong_label(label, second, size, classes) if second or SEPARATOR in label else None
        if wrong is not None:
            findings.add_problem(file, row, f"bag {bag}: {wrong[0]}", wrong[1])


def named_classes(bags: pd.DataFrame, classes: Collection[str] = ()) -> list[str]:
    """Every class that a label or a runner-up names, as often as it is named."""
    labels = [name for text in bags["label"] for name in split_label(text, classes)]
    return labels + ([name for name in bags["second_label"] if name] if "second_label" in bags else [])


def check_for_training(bags: pd.DataFrame, file: Path, findings: Findings) -> None:
    _check_classes(bags, file, findings)
    _warn_of_only_runners_up(bags, findings)
    _warn_of_missing_labels(bags, findings)
    _warn_of_spellings(bags, findings)
    _warn_of_missing_names(bags, findings)


def _warn_of_only_runners_up(bags: pd.DataFrame, findings: Findings) -> None:
    """Warn of classes that only second_label names: often the name has a typing mistake."""
    if "second_label" not in bags:
        return
    seconds = bags["second_label"]
    labels = {name for text in bags["label"] for name in split_label(text)}
    only_second = seconds[~seconds.isin([*labels, ""])].drop_duplicates()
    for row, name, bag in zip(only_second.index, only_second, bags["bag"][only_second.index], strict=True):
        guess = closest(name, labels - {""}, MIN_SIMILARITY)
        hint = f"; did you mean {guess}?" if guess else ""
        findings.warn(
            f"row {row}: class {name} of bag {bag} is only ever a runner-up (column second_label{hint}): "
            "correct it if it is a mistake; otherwise label bags with it"
        )


def _warn_of_missing_labels(bags: pd.DataFrame, findings: Findings) -> None:
    without = int((bags["label"] == "").sum())
    if 0 < without < len(bags):
        example = bags["bag"][bags["label"] == ""].iloc[0]
        noun = "1 bag has" if without == 1 else f"{without:,} of {len(bags):,} bags have"
        findings.warn(
            f"{noun} no label (e.g. {example}): recipe census, the default, uses the instances of such training bags "
            "where it needs no labels; other recipes do not use them"
        )


def _warn_of_spellings(bags: pd.DataFrame, findings: Findings) -> None:
    """Warn of names that are probably two spellings of one."""
    for column in ("bag", "label", "group"):
        spellings = defaultdict(list)
        named = named_classes(bags) if column == "label" else bags.get(column, ())
        for name in dict.fromkeys(map(str, named)):
            spellings[_usual_spelling(name)].append(name)
        pairs = [names for names in spellings.values() if len(names) > 1]
        if pairs:
            one, other = pairs[0][:2]
            more = f" (and {count_noun(len(pairs) - 1, 'more pair')})" if len(pairs) > 1 else ""
            findings.warn(
                f"{column}s {one!a} and {other!a} differ only in capitals, spaces, Unicode form or .0{more}: "
                "if they mean the same, spell them the same way"
            )


def _usual_spelling(name: str) -> str:
    """
    >>> _usual_spelling(" Tumour  cells"), _usual_spelling("7.0"), _usual_spelling("v1.0")
    ('tumour cells', '7', 'v1.0')
    """
    usual = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    return usual.removesuffix(".0") if usual.removesuffix(".0").isdigit() else usual


def _warn_of_missing_names(bags: pd.DataFrame, findings: Findings) -> None:
    """Warn of names such as NA, which mark a missing number in other columns."""
    for column, kind in {"bag": "a bag", "label": "a class", "group": "a group"}.items():
        named = named_classes(bags) if column == "label" else bags.get(column, ())
        for name in sorted({*MISSING} & {*named}):
            cure = "if it marks a missing value, fill the cells or leave the rows out"
            findings.warn(f"{name} is used as the name of {kind}: {cure}")


def _check_classes(bags: pd.DataFrame, file: Path, findings: Findings) -> None:
    """Check that there are two classes at least, and that each class has bags in the splits train and val."""
    several = bags["label"].str.contains(SEPARATOR, regex=False)
    labels = bags["label"][(bags["label"] != "") & ~several]
    seconds = set(bags["second_label"]) if "second_label" in bags else set()
    counts = labels.value_counts()
    _check_distinct_classes(bags, counts, seconds, file, findings)
    _warn_of_few_bags(counts, findings)
    if "split" in bags:
        _check_validation_labels(bags, file, findings)
        _check_classes_of_splits(bags, labels, file, findings)


def _check_distinct_classes(
    bags: pd.DataFrame, counts: pd.Series[int], seconds: set[str], file: Path, findings: Findings
) -> None:
    """Check that labels tell two classes at least apart; `counts` is the number of bags of each class that is the only
    label of a bag, `seconds` are the runners-up."""
    only_together = sorted({*named_classes(bags)} - {*counts.index} - seconds - {""})  # check_possible reports ""
    for name in only_together:
        row, example = next(
            pair for pair in zip(bags.index, bags["label"], strict=True) if name in split_label(pair[1])
        )
        cure = "label a bag with it alone, or leave it out"
        findings.add_problem(file, row, f"class {name} is only named together with others ({example})", cure)
    if len(counts) == 1 and not seconds - {"", counts.index[0]} and not only_together:
        what = f"all bags have the label {counts.index[0]!r}"
        findings.add_problem(file, None, what, "give bags of two or more classes")


def _warn_of_few_bags(counts: pd.Series[int], findings: Findings) -> None:
    few = counts[counts < FEW_BAGS].sort_index()
    cure = "at least ten are recommended to train and evaluate"
    if len(few) > MAX_EXAMPLES:
        names = abbreviate_names([*few.index])
        findings.warn(f"{len(few):,} classes are the label of fewer than ten bags each ({names}): {cure} a class")
    else:
        for label, count in few.items():
            findings.warn(f"class {label} is the label of only {count_noun(count, 'bag')}: {cure} it")


def _check_validation_labels(bags: pd.DataFrame, file: Path, findings: Findings) -> None:
    unlabelled = bags[(bags["label"] == "") & (bags["split"] == "val")]
    for row, name in zip(unlabelled.index, unlabelled["bag"], strict=True):
        cure = "label it, or move it to train"
        findings.add_problem(file, row, f"bag {name} in split val has no label: validation needs one", cure)


def _check_classes_of_splits(bags: pd.DataFrame, labels: pd.Series[str], file: Path, findings: Findings) -> None:
    """Check that there are training bags, and that each of the labels that name one class is in every split."""
    used = [split for split in SPLITS if (bags["split"] == split).any()]
    if used and "train" not in used:
        cure = "mark the bags to train on, or remove the split column"
        findings.add_problem(file, None, "no bag is in split train", cure)
    for split in used:
        of_split = bags["split"] == split
        ranked = set(bags["second_label"][of_split]) if "second_label" in bags else set()
        missing = sorted(set(labels) - set(labels[of_split]) - ranked)
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
