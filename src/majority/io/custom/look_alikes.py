"""Columns whose names are almost reserved, such as Label: they would be used as features, or ignored."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from pathlib import Path

from ...errors import closest
from .findings import Findings
from .names import MIN_SIMILARITY
from .read_options import ReadOptions

MEANINGS = {  # of the reserved names
    "bag": "the bag of an instance",
    "bag_label": "the label of the bag",
    "second_label": "the runner-up of the bag",
    "label": "the true class of an instance",
    "path": "the image",
    "split": "train, val or test",
    "group": "bags that stay together",
    "x": "the position of an instance",
    "y": "the position of an instance",
    "weight": "how much an instance counts",
}
LABELS = ("label", "bag_label", "second_label")  # a feature with this content would be the answer
PARTNER = {"x": "y", "y": "x"}


def reserved_name(column: str, reserved: Iterable[str]) -> str | None:
    """The reserved name that this column differs from in capitals or by a typing mistake; None if there is none.

    >>> [reserved_name(name, MEANINGS) for name in ("Label", "X", "lable", "bag label", "weights")]
    ['label', 'x', 'label', 'bag_label', 'weight']
    >>> {reserved_name(name, MEANINGS) for name in ("x1", "height", "label2", "weight_kg", "patch", "batch_label")}
    {None}
    """
    name = column.strip().lower()
    if name in reserved:
        return name
    similar = [each for each in reserved if each != "path" and each[0] == name[:1] and abs(len(each) - len(name)) < 2]
    numbered = any(character.isdigit() for character in name)
    return None if numbered else closest(name, [each for each in similar if len(each) > 1], MIN_SIMILARITY)


def find_look_alikes(columns: Iterable[str], reserved: Collection[str]) -> dict[str, str]:
    """Column -> the reserved name that is probably meant. One of x and y alone is no position."""
    columns = list(columns)
    lower = {name.lower() for name in columns}
    found = {name: reserved_name(name, reserved) for name in columns if name not in reserved}
    return {name: meant for name, meant in found.items() if meant and (meant not in PARTNER or PARTNER[meant] in lower)}


def warn_of_look_alikes(
    columns: Iterable[str], reserved: Collection[str], options: ReadOptions, findings: Findings
) -> list[str]:
    """Warn of ignored columns with such names; returns them. A column is not meant where the right one exists."""
    needless = {*columns} | _unread(options)
    found = {name: meant for name, meant in find_look_alikes(columns, reserved).items() if meant not in needless}
    for name, meant in found.items():
        findings.warn(f"column {name} is not used{_did_you_mean(meant)}: rename it, or ignore this")
    return list(found)


def check_feature_names(
    columns: Collection[str],
    reserved: Collection[str],
    used: Collection[str],
    path: Path,
    options: ReadOptions,
    findings: Findings,
) -> list[str]:
    """Check the columns of a table of features, of which some are used; returns those that have a finding.

    Columns that are named as features are used as such. Otherwise a column that is probably a label is a problem,
    and any other is warned of.
    """
    chosen, reported = options.features or (), []
    for name, meant in find_look_alikes(columns, reserved).items():
        is_feature, is_label = name in used, meant in LABELS
        missing_label = meant == "bag_label" and meant not in columns and options.training  # a problem that names it
        needless = meant in {*columns} | _unread(options) and not (is_feature and is_label)
        if name in chosen or missing_label or needless:
            continue
        reported.append(name)
        use = "is used as a feature" if is_feature else "is not used"
        what = f"column {name} {use}{_did_you_mean(meant)}"
        by_name = "" if options.for_classifier else "; if it is a feature, name the features with --features"
        if is_label and not chosen:
            findings.add_problem(path, 1, what, f"rename it to {meant}, or remove it{by_name}")
        else:
            findings.warn(f"{what}: rename it{by_name if is_feature else ', or ignore this'}")
    return reported


def _unread(options: ReadOptions) -> set[str]:
    return set() if options.labels else {*LABELS, "split"}


def _did_you_mean(meant: str) -> str:
    return f" (did you mean {meant}, {MEANINGS[meant]}?)"
