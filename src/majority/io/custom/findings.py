"""Problem: one error in a source, its place and its cure. Findings collect all problems and warnings of a source."""

from __future__ import annotations

import csv
import io
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

from ...errors import InputError

MAX_EXAMPLES = 3  # of one cause
MAX_NAMES = 10  # in one line


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
        return ": ".join(filter(None, [place, self.what, self.cure]))


class ProblemError(InputError):
    """A problem after which a source cannot be read further."""

    def __init__(self, file: Path, row: int | None, what: str, cure: str):
        self.problem = Problem(file, row, what, cure)
        super().__init__(str(self.problem))


@dataclass
class Findings:
    """The problems and warnings that were found while a source was read."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def add_problem(self, file: Path, row: Any, what: str, cure: str | None) -> None:
        self.problems.append(Problem(file, row, what, cure))

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def add(self, found: Iterable[Problem | str]) -> None:
        """Problems, and warnings as text: what a check yields."""
        for each in found:
            if isinstance(each, Problem):
                self.problems.append(each)
            else:
                self.warnings.append(each)

    def raise_problems(self, source: Path) -> None:
        """Raise one error with a line per cause, if there are any problems."""
        if self.problems:
            count = "a problem" if len(self.problems) == 1 else f"{len(self.problems):,} problems"
            raise InputError("\n  ".join([f"{source} has {count}:", *group_by_cause(self.problems)]))


def group_by_cause(problems: Iterable[Problem]) -> Iterator[str]:
    """One line per cure: where it is needed, how often, the first examples.

    >>> rows = [Problem(Path("bags.csv"), row, "bag_label is empty", "fill the cell") for row in range(2, 40)]
    >>> print(*group_by_cause(rows))
    bags.csv, rows 2 to 39: bag_label is empty (38 times): fill the cell
    """
    causes = defaultdict(list)
    for problem in problems:
        causes[problem.cure or problem.what].append(problem)
    for cause in causes.values():
        first = cause[0]
        if len(cause) == 1:
            yield str(first)
            continue
        place, shown = str(first.file), list(dict.fromkeys(problem.what for problem in cause))
        if any(problem.file != first.file for problem in cause):
            place = "several files"
            shown = [f"{problem.file} {problem.what}" for problem in cause]
        elif first.row is not None:
            place += f", rows {abbreviate_names([str(problem.row) for problem in cause])}"
        examples = "; ".join(shown[:MAX_EXAMPLES]) + ("; ..." if len(shown) > MAX_EXAMPLES else "")
        yield ": ".join(filter(None, [place, f"{examples} ({len(cause):,} times)", first.cure]))


def abbreviate_names(names: Sequence[str]) -> str:
    """Names for one line: numbered names become a range, and of many names the first and the last are listed.

    >>> abbreviate_names([*(f"f{i}" for i in range(64)), "patient_id"])
    'f0 to f63, patient_id'
    """

    def series(numbered: tuple[int, str]) -> tuple[str, int]:
        """The same for neighbours whose numbers count up."""
        position, name = numbered
        parts = re.fullmatch(r"(.*?)(\d{1,18})", name, re.DOTALL)
        return (parts[1], int(parts[2]) - position) if parts else (name, -1)

    pieces: list[str] = []
    for _, group in groupby(enumerate(names), series):
        found = [name for _, name in group]
        pieces += found if len(found) < 3 else [f"{found[0]} to {found[-1]}"]
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
