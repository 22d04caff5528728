"""Names of columns in messages: many names in one line, and guesses at a name with a typing mistake."""

from __future__ import annotations

import csv
import io
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import digits

from ...errors import closest

MAX_NAMES = 10  # in one line
MIN_SIMILARITY = 0.8  # higher than the default, because short names are easily similar: bag and age by two thirds
SYNONYMS = {
    "bag": ("bag_id", "bag_name", "bagname", "slide", "slide_id"),
    "path": ("file", "filename", "file_name", "file_path", "image", "image_path", "image_name", "img"),
}


@dataclass(frozen=True)
class ColumnNames:
    """The columns of a table that have other names than the usual ones."""

    bag: str | None = None
    label: str | None = None  # the label of the bag
    path: str | None = None

    def usual(self, label: str) -> dict[str, str]:
        """Usual name -> given name; the label of a bag is called bag_label in a manifest, label in a table of bags."""
        names = {"bag": self.bag, label: self.label, "path": self.path}
        return {usual: given for usual, given in names.items() if given is not None}


def abbreviate_names(names: Sequence[str]) -> str:
    """Names for one line: numbered names become a range, and of many names the first and the last are listed.

    >>> abbreviate_names([*(f"f{i}" for i in range(64)), "patient_id"])
    'f0 to f63, patient_id'
    """
    breaks = [i for i, (name, following) in enumerate(pairwise(names), start=1) if not _is_next(name, following)]
    starts = [0, *breaks, len(names)]
    pieces = [piece for start, end in pairwise(starts) for piece in _as_range(names[start:end])]
    half = MAX_NAMES // 2
    return ", ".join(pieces if len(pieces) <= MAX_NAMES else [*pieces[:half], "...", *pieces[-half:]])


def join_names(names: Iterable[object]) -> str:
    """Names as an option takes them: separated by commas, with quotes around a name that has a comma.

    >>> print(join_names(["height, cm", "width"]))
    "height, cm",width
    """
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


def features_option(names: Iterable[str]) -> str:
    """The option --features as it is typed in a shell."""
    return f"--features {shlex.quote(join_names(names))}"


def closest_name(column: str, existing: Iterable[str]) -> str | None:
    """The existing column that is probably this one under another name.

    >>> closest_name("path", ["a", "Image"]), closest_name("bag", ["Bag ID", "b"]), closest_name("bag", ["age", "b"])
    ('Image', 'Bag ID', None)
    """
    existing = list(existing)
    synonyms = [name for name in existing if re.sub(r"[ .-]", "_", name.lower()) in SYNONYMS.get(column, ())]
    return closest(column, existing, MIN_SIMILARITY) or (synonyms[0] if synonyms else None)


def did_you_mean(column: str, existing: Iterable[str]) -> str:
    guess = closest_name(column, existing)
    return f" (did you mean {guess}?)" if guess else ""


def _is_next(name: str, following: str) -> bool:
    """Whether the names differ only in their numbers, and the second number is the next one."""
    stem, following_stem = name.rstrip(digits), following.rstrip(digits)
    number, following_number = name[len(stem) :], following[len(following_stem) :]
    return bool(number and following_number) and stem == following_stem and int(following_number) == int(number) + 1


def _as_range(names: Sequence[str]) -> Sequence[str]:
    return [f"{names[0]} to {names[-1]}"] if len(names) > 2 else names


def column_names(header: Iterable[object]) -> list[str]:
    """The names as text. A column without a name, such as a saved index, is named by its number."""
    return [str(name).strip() or f"unnamed{number}" for number, name in enumerate(header, start=1)]
