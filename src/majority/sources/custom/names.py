"""Names of columns and rows: many of them in one line, and the one that was meant."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import pairwise
from string import digits

from ...errors import closest

SHOWN = 10  # in one line
ALIKE = 0.8  # short names are soon alike: bag and age by two thirds
ALSO_CALLED = {
    "bag": ("bag_id", "bag_name", "bagname", "slide", "slide_id"),
    "path": ("file", "filename", "file_name", "file_path", "image", "image_path", "image_name", "img"),
}


def shown_names(names: Sequence[str]) -> str:
    """Names that count on are drawn together, so that one among many is seen; of many, the first and the last.

    >>> shown_names([*(f"f{i}" for i in range(64)), "patient_id"])
    'f0 to f63, patient_id'
    """
    starts = [0, *(i for i, (a, b) in enumerate(pairwise(names), start=1) if not _counts_on(a, b)), len(names)]
    pieces = [part for a, b in pairwise(starts) for part in _drawn_together(names[a:b])]
    half = SHOWN // 2
    return ", ".join(pieces if len(pieces) <= SHOWN else [*pieces[:half], "...", *pieces[-half:]])


def join_names(names: Iterable) -> str:
    """As an option takes them: commas between them, a name with a comma in quotes.

    >>> print(listed(["height, cm", "width"]))
    "height, cm",width
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def features_option(names: Iterable[str]) -> str:
    """As it is typed."""
    return f"--features {shlex.quote(join_names(names))}"


def closest_name(column: str, there: Iterable[str]) -> str | None:
    """The column that is there and seems to be this one under another name.

    >>> meant("path", ["a", "Image"]), meant("bag", ["Bag ID", "b"]), meant("bag", ["age", "b"])
    ('Image', 'Bag ID', None)
    """
    there = list(there)
    called = [name for name in there if re.sub(r"[ .-]", "_", name.lower()) in ALSO_CALLED.get(column, ())]
    return closest(column, there, ALIKE) or (called[0] if called else None)


def did_you_mean(column: str, there: Iterable[str]) -> str:
    guess = closest_name(column, there)
    return f" (did you mean {guess}?)" if guess else ""


def _counts_on(name: str, following: str) -> bool:
    stem, following_stem = name.rstrip(digits), following.rstrip(digits)
    number, following_number = name[len(stem) :], following[len(following_stem) :]
    return bool(number and following_number) and stem == following_stem and int(following_number) == int(number) + 1


def _drawn_together(names: Sequence[str]) -> Sequence[str]:
    return [f"{names[0]} to {names[-1]}"] if len(names) > 2 else names
