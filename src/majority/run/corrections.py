"""Corrected labels, from the file of --labels: put them into the bags, and report what they replace."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from ..data.labels import find_wrong_label, split_label
from ..errors import InputError, closest, count_noun
from ..files import user_path
from ..io import Parts
from ..io.custom.corrections import BAG, CORRECTED, read_filled
from ..log import Log, no_log

REVIEWED = "bag_label"  # the column with the label that the bag had in the review
PART_NAMES = {"train": "training", "val": "validation", "test": "test"}


def correct(parts: Parts, corrections: Mapping[str, str], file: str, log: Log = no_log) -> Parts:
    """The same parts with other labels of some bags. Every bag stays in its part."""
    present, train = parts.present(), parts.train
    if any(bags.names is None for bags in present.values()):
        raise InputError(f"{file}: the bags of the source have no names, which its rows need: make them with names=...")
    names = {part: bags.bag_names() for part, bags in present.items()}
    found = Counter(name for of_part in names.values() for name in of_part)
    for bag, label in corrections.items():
        if not found[bag]:
            unlabelled = "a bag without a label is in none if others of its group are validation or test bags"
            raise InputError(f"{file}: no part has a bag {bag}: name the bags as in the source ({unlabelled})")
        if found[bag] > 1:
            raise InputError(f"{file}: {found[bag]} bags have the name {bag}: give each bag its own name")
        _check_label(label, f"{file}: bag {bag}", train.classes, train.background)
    numbers = {
        part: {number: corrections[name] for number, name in enumerate(of_part) if name in corrections}
        for part, of_part in names.items()
    }
    corrected = {part: bags.with_other_labels(numbers[part]) for part, bags in present.items()}
    lost = train.bag_labels.named_classes() - corrected["train"].bag_labels.named_classes()
    if lost:
        name = train.classes[min(lost)]
        raise InputError(f"{file}: no training bag is left with the label {name}: leave one of its bags as it was")
    in_parts = ", ".join(f"{len(of_part):,} of {PART_NAMES[part]}" for part, of_part in numbers.items())
    log(f"{count_noun(len(corrections), 'label')} taken from {file}, not from the source ({in_parts} bags)")
    texts = {part: bags.bag_labels.texts(bags.classes) for part, bags in present.items()}
    before = {name: text for part in names for name, text in zip(names[part], texts[part], strict=True)}
    _warn_of_newer_labels(before, corrections, file, train.classes, log)
    return Parts(corrected["train"], corrected["val"], corrected.get("test"))


def _check_label(label: str, place: str, classes: tuple[str, ...], background: int | None) -> None:
    """Refuse a label that no bag of these classes can have."""
    wrong = find_wrong_label(label, "", 1, classes)
    if wrong:
        raise InputError(f"{place}: {wrong}")
    for name in split_label(label, classes):
        if name not in classes:
            similar = closest(name, classes)
            guess = f" (did you mean {similar}?)" if similar else ""
            raise InputError(f"{place} gets the label {name}, which is no class{guess}: use {', '.join(classes)}")
        if background is not None and name == classes[background]:
            raise InputError(f"{place} gets the label {name}, the background: give another class")


def _warn_of_newer_labels(
    before: Mapping[str, str], corrections: Mapping[str, str], file: str, classes: tuple[str, ...], log: Log
) -> None:
    """Labels that are replaced, and were other ones in the review: those of the source may be newer than the file."""
    try:
        table = read_filled(user_path(file), (BAG, CORRECTED, REVIEWED), "labels", "`majority review`")
    except InputError:  # the file has no such column, or is gone: the run keeps its content
        return

    def names(label: str) -> set[str]:
        return set(split_label(label, classes))

    rows = zip(table[BAG], table[CORRECTED], table[REVIEWED], strict=True)
    newer = [
        f"bag {bag}: {reviewed} there, {before[bag] or 'no label'} in the source"
        for bag, label, reviewed in rows
        if corrections.get(bag) == label and reviewed and names(before[bag]) not in (names(reviewed), names(label))
    ]
    if newer:
        what = f"the {REVIEWED} of {count_noun(len(newer), 'bag')} in {file} is not that of the source ({newer[0]})"
        log(f"warning: {what}: corrected all the same; if the source is newer than the file, leave out these rows")
