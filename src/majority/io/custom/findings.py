"""Problem: one error in a source, its place and its cure. Findings collect all problems and warnings of a source."""

from __future__ import annotations

import csv
import io
import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from string import digits
from typing import TYPE_CHECKING, Any

from ...errors import InputError

if TYPE_CHECKING:
    import pandas as pd

MAX_EXAMPLES = 3  # of one cause
MAX_NAMES = 10  # in one line
MAX_DIGITS = 18  # of the number at the end of a name


class UnreadableError(Exception):
    """Reading cannot continue; the findings have the reason. Caught where reading started."""


@dataclass(frozen=True)
class Problem:
    """Rows are numbered as in a spreadsheet: the header of a CSV file is row 1.

    >>> print(Problem(Path("bags.csv"), 7, "bag_label is empty", "write the bag's label"))
    bags.csv, row 7: bag_label is empty: write the bag's label
    """

    file: Path
    row: int | None
    what: str
    cure: str | None  # None where `what` contains it

    def __str__(self) -> str:
        place = str(self.file) if self.row is None else f"{self.file}, row {self.row}"
        return ": ".join([place, self.what, *([] if self.cure is None else [self.cure])])


@dataclass
class Findings:
    """The problems and warnings that were found while a source was read."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add_problem(self, file: Path, row: int | None, what: str, cure: str | None) -> None:
        self.problems.append(Problem(file, None if row is None else int(row), what, cure))

    def warn(self, text: str) -> None:
        if text not in self.warnings:  # each file of a table may say the same
            self.warnings.append(text)

    def raise_problems(self, source: Path) -> None:
        """Raise one error with a line per cause, if there are any problems."""
        if not self.problems:
            return
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems):,} problems"
        raise InputError("\n  ".join([f"{source} has {count}:", *group_by_cause(self.problems)]))


def group_by_cause(problems: Iterable[Problem]) -> Iterator[str]:
    """One line per cause: how often it occurs, where, the first examples, and the cure.

    >>> rows = [Problem(Path("bags.csv"), row, "bag_label is empty", "fill the cell") for row in range(2, 40)]
    >>> print(*group_by_cause(rows))
    bags.csv, rows 2 to 39: bag_label is empty (38 times): fill the cell
    """
    causes = defaultdict(list)
    for problem in problems:
        causes[problem.cure or problem.what, _split_what(problem)[1]].append(problem)
    for (_, reason), group in causes.items():
        yield str(group[0]) if len(group) == 1 else _describe_group(group, reason)


def _split_what(problem: Problem) -> tuple[str, str]:
    """What is wrong as the name of a file and the reason; without a reason where it names no file."""
    name, colon, reason = problem.what.rpartition(": ")
    return (name, reason) if colon else (problem.what, "")


def _describe_group(group: list[Problem], reason: str) -> str:
    files = list(dict.fromkeys(problem.file for problem in group))
    rows = list(dict.fromkeys(str(problem.row) for problem in group if problem.row is not None))
    if len(files) == 1:
        numbers = f", row{'s' if len(rows) > 1 else ''} {abbreviate_names(rows)}" if rows else ""
        place, shown = f"{files[0]}{numbers}", list(dict.fromkeys(_split_what(problem)[0] for problem in group))
    else:
        place, shown = f"{len(files):,} files", [f"{problem.file}: {_split_what(problem)[0]}" for problem in group]
    left_out = [f"and {len(shown) - MAX_EXAMPLES:,} more"] if len(shown) > MAX_EXAMPLES else []
    examples = "; ".join([*shown[:MAX_EXAMPLES], *left_out])
    times = f" ({len(group):,} times)" if len(shown) < len(group) else ""
    return ": ".join(filter(None, [place, examples + times, reason, group[0].cure]))


def abbreviate_names(names: Sequence[str]) -> str:
    """Names for one line: numbered names become a range, and of many names the first and the last are listed.

    >>> abbreviate_names([*(f"f{i}" for i in range(64)), "patient_id"])
    'f0 to f63, patient_id'
    """
    breaks = [i for i, (name, following) in enumerate(pairwise(names), start=1) if not _is_next(name, following)]
    pieces: list[str] = []
    for start, end in pairwise([0, *breaks, len(names)]):
        pieces += [f"{names[start]} to {names[end - 1]}"] if end - start > 2 else names[start:end]
    half = MAX_NAMES // 2
    return ", ".join(pieces if len(pieces) <= MAX_NAMES else [*pieces[:half], "...", *pieces[-half:]])


def _is_next(name: str, following: str) -> bool:
    """Whether the names differ only in their numbers, and the second number is the next one."""
    stem = name.rstrip(digits)
    number, following_number = name[len(stem) :], following[len(following.rstrip(digits)) :]
    both = number and following_number and following == stem + following_number
    few = max(len(number), len(following_number)) <= MAX_DIGITS
    return bool(both and few and int(following_number) == int(number) + 1)


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


def cells(column: pd.Series) -> Iterator[tuple[int, Any]]:
    """The number of each row, and its cell."""
    return zip(column.index.tolist(), column.tolist(), strict=True)


def counted(count: int, noun: str, verb: str = "have") -> str:
    """
    >>> counted(1, "image"), counted(2000, "row", "are")
    ('1 image has', '2,000 rows are')
    """
    singular = {"have": "has", "are": "is", "name": "names"}[verb]
    return f"1 {noun} {singular}" if count == 1 else f"{count:,} {noun}s {verb}"
