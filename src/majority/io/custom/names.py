"""Names of columns: those with a special meaning, and guesses at a name with a typing mistake."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import closest
from .findings import Problem
from .options import ReadOptions

if TYPE_CHECKING:
    import pandas as pd

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
NUMBERS = ("x", "y", "weight")
TEXT = tuple(name for name in MEANINGS if name not in NUMBERS)
LABELS = ("label", "bag_label", "second_label")  # a feature with this content would be the answer
MIN_SIMILARITY = 0.8  # higher than the default, because short names are easily similar: bag and age by two thirds
SYNONYMS = {
    "bag": ("bag_id", "bag_name", "bagname", "slide", "slide_id"),
    "path": ("file", "filename", "file_name", "file_path", "image", "image_path", "image_name", "img"),
}


def closest_name(column: str, existing: Iterable[str]) -> str | None:
    """The existing column that is probably this one under another name.

    >>> closest_name("path", ["a", "Image"]), closest_name("bag", ["Bag ID", "b"]), closest_name("bag", ["age", "b"])
    ('Image', 'Bag ID', None)
    """
    existing = list(existing)
    for name in existing:
        if name.lower().replace(" ", "_") in SYNONYMS.get(column, ()):
            return name
    return closest(column, existing, MIN_SIMILARITY)


def did_you_mean(column: str, existing: Iterable[str]) -> str:
    guess = closest_name(column, existing)
    return f" (did you mean {guess}?)" if guess else ""


def find_look_alikes(columns: Collection[str], reserved: Collection[str], options: ReadOptions) -> dict[str, str]:
    """Column -> the reserved name that is probably meant: it differs in capitals or by a typing mistake.

    Names that are not read are not meant, and one of x and y alone is no position.

    >>> find_look_alikes(["Label", "bag_lable", "X", "x1", "height", "weights"], MEANINGS, ReadOptions())
    {'Label': 'label', 'bag_lable': 'bag_label', 'weights': 'weight'}
    """
    unread = () if options.labels else (*LABELS, "split")
    lower = {name.lower() for name in columns}
    found = {}
    for column in columns:
        name = column.strip().lower()
        long = [each for each in reserved if each != "path" and len(each) > 1]
        similar = [each for each in long if each[0] == name[:1] and abs(len(each) - len(name)) < 2]
        meant = name if name in reserved else closest(name, similar, MIN_SIMILARITY)
        is_numbered = any(character.isdigit() for character in name)
        half_a_position = meant in ("x", "y") and not {"x", "y"} <= lower
        if meant and column not in reserved and meant not in unread and not is_numbered and not half_a_position:
            found[column] = meant
    return found


def look_alikes(
    frame: pd.DataFrame, file: Path, reserved: Collection[str], used: Collection[str], options: ReadOptions
) -> Iterator[Problem | str]:
    """A feature that is probably a label is a problem, unless --features names it; any other such column is warned of.

    `used` are the columns that are features.
    """
    for name, meant in find_look_alikes([*frame.columns], reserved, options).items():
        what = f"column {name} {'is used as a feature' if name in used else 'is not used'}"
        what += f" (did you mean {meant}, {MEANINGS[meant]}?)"
        is_answer = name in used and meant in LABELS
        if name in (options.features or ()) or (meant in frame and not is_answer):
            continue
        if is_answer:
            yield Problem(file, 1, what, f"rename it to {meant}, remove it, or name the features with --features")
        else:
            yield f"{what}: rename it, or ignore this"
