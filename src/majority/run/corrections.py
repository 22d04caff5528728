"""Corrected labels, from the file of --labels: put them into the bags, and report what they replace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from ..data.bags import Bags
from ..data.labels import find_wrong_label, split_label
from ..errors import InputError, closest, count_noun
from ..io import Parts
from ..io.custom.corrections import BAG, CORRECTED
from ..io.custom.findings import Findings, UnreadableError
from ..io.custom.tables import read_table
from ..log import Log, no_log

REVIEWED = "bag_label"  # the column with the label that the bag had in the review
SHOWN_CLASSES = 10
PART_NAMES = {"train": "training", "val": "validation", "test": "test"}  # report.page takes long to import


def correct(parts: Parts, corrections: Mapping[str, str], file: str, log: Log = no_log) -> Parts:
    """The same parts with other labels of some bags. Every bag stays in its part."""
    present, rows = parts.present(), _read_rows(Path(file).expanduser(), corrections)
    if any(bags.names is None for bags in present.values()):
        raise InputError(f"{file}: the bags of the source have no names, which its rows need: make them with names=...")
    before = {name: text for bags in present.values() for name, text in _texts(bags).items() if name in corrections}
    bags_named = Counter(name for bags in present.values() for name in bags.bag_names())
    row_of = dict(zip(rows[BAG], rows.index, strict=True))
    for name, label in corrections.items():
        place = f"{file}, row {row_of[name]}" if name in row_of else file
        if name not in before:
            unlabelled = "a bag without a label is in none if others of its group are validation or test bags"
            raise InputError(f"{place}: no part has a bag {name}: name the bags as in the source ({unlabelled})")
        if bags_named[name] > 1:
            raise InputError(f"{place}: {bags_named[name]} bags have the name {name}: give each bag its own name")
        _check_label(label, name, place, parts.train)
    numbers = {part: _by_number(bags, corrections) for part, bags in present.items()}
    corrected = {part: bags.with_other_labels(numbers[part]) for part, bags in present.items()}
    lost = parts.train.bag_labels.named_classes() - corrected["train"].bag_labels.named_classes()
    if lost:
        name = parts.train.classes[min(lost)]
        raise InputError(f"{file}: no training bag is left with the label {name}: leave one of its bags as it was")
    in_parts = ", ".join(f"{len(numbers[part]):,} of {PART_NAMES[part]}" for part in present)
    log(f"{count_noun(len(corrections), 'label')} taken from {file}, not from the source ({in_parts} bags)")
    warning = _stale_warning(rows, before, corrections, file, parts.train.classes)
    if warning:
        log(f"warning: {warning}")
    return Parts(corrected["train"], corrected["val"], corrected.get("test"))


def _read_rows(path: Path, corrections: Mapping[str, str]) -> pd.DataFrame:
    """The rows of the file with these corrections, for messages: none if it has been moved or changed since."""
    try:
        frame = read_table(path, (BAG, CORRECTED, REVIEWED), Findings())
        return frame[[corrections.get(bag) == label for bag, label in zip(frame[BAG], frame[CORRECTED], strict=True)]]
    except (InputError, KeyError, UnreadableError):
        return pd.DataFrame({BAG: []})


def _check_label(label: str, bag: str, place: str, train: Bags) -> None:
    """Refuse a label that no bag of these classes can have."""
    wrong = find_wrong_label(label, "", 1, train.classes)
    if wrong:
        raise InputError(f"{place}: bag {bag}: {wrong[0]}: {wrong[1]}")
    for name in split_label(label, train.classes):
        if name not in train.classes:
            similar = closest(name, train.classes)
            guess = f" (did you mean {similar}?)" if similar else ""
            more = ", ..." if len(train.classes) > SHOWN_CLASSES else ""
            classes = ", ".join(train.classes[:SHOWN_CLASSES]) + more
            raise InputError(f"{place}: bag {bag} gets the label {name}, which is no class{guess}: use {classes}")
        if train.background is not None and name == train.classes[train.background]:
            raise InputError(f"{place}: bag {bag} gets the label {name}, the background: give another class")


def _stale_warning(
    rows: pd.DataFrame, before: Mapping[str, str], corrections: Mapping[str, str], file: str, classes: tuple[str, ...]
) -> str | None:
    """Labels that are replaced, and were other ones in the review: those of the source may be newer than the file."""
    if REVIEWED not in rows:
        return None

    def names(label: str) -> set[str]:
        return set(split_label(label, classes))

    stale = [
        (row, bag, reviewed)
        for row, bag, reviewed in zip(rows.index, rows[BAG], rows[REVIEWED], strict=True)
        if reviewed and names(before[bag]) not in (names(reviewed), names(corrections[bag]))
    ]
    if not stale:
        return None
    row, bag, reviewed = stale[0]
    first = f"row {row}, bag {bag}: {reviewed} there, {before[bag] or 'no label'} in the source"
    what = f"the {REVIEWED} of {count_noun(len(stale), 'bag')} in {file} is not that of the source ({first})"
    return f"{what}: corrected all the same; if the source is newer than the file, leave out these rows"


def _texts(bags: Bags) -> dict[str, str]:
    return dict(zip(bags.bag_names(), bags.bag_labels.texts(bags.classes), strict=True))


def _by_number(bags: Bags, corrections: Mapping[str, str]) -> dict[int, str]:
    return {bag: corrections[name] for bag, name in enumerate(bags.bag_names()) if name in corrections}
