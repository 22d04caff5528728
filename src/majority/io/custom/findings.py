"""Problem: one error in a source, its place and its cure. Findings collect all problems and warnings of a source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import InputError
from .names import abbreviate_names

MAX_EXAMPLES = 3  # of one cause


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
    class_warnings: dict[str, str] = field(default_factory=dict)  # true class -> warning; dropped for the background

    def add_problem(self, file: Path, row: int | None, what: str, cure: str) -> None:
        self.problems.append(Problem(file, None if row is None else int(row), what, cure))

    def add_error(self, file: Path, error: InputError) -> None:
        """Add a problem with the message of an error, which contains its cure."""
        self.problems.append(Problem(file, None, str(error), None))

    def warn(self, text: str) -> None:
        if text not in self.warnings:  # labels of a folder of images are read as a table, then with the images
            self.warnings.append(text)

    def raise_problems(self, source: Path, for_classifier: bool = False) -> None:
        """Raise one error with a line per cause, if there are any problems."""
        if not self.problems:
            return
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems):,} problems"
        more = "" if for_classifier else f" (`majority check {source}` adds a summary)"
        raise InputError("\n  ".join([f"{source} has {count}{more}:", *group_by_cause(self.problems)]))


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


class UnreadableError(Exception):
    """Reading cannot continue; the findings have the reason. Caught where reading started."""
