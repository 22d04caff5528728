"""Problem: one error in a source, its place and its cure. Findings collect all problems and warnings of a source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import InputError
from .names import abbreviate_names

MAX_PROBLEMS = 20  # listed in one message, or for one cause


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
        self.warnings.append(text)

    def raise_problems(self, source: Path, for_classifier: bool = False) -> None:
        """Raise one error with the first problems, if there are any.

        `majority check` knows nothing of a classifier, so problems with bags for one are all listed here.
        """
        if not self.problems:
            return
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems):,} problems"
        if for_classifier:
            lines = [f"{source} has {count}:", *group_by_cause(self.problems)]
        else:
            lines = [f"{source} has {count}; `majority check {source}` lists all kinds of problems:"]
            lines += map(str, self.problems[:MAX_PROBLEMS])
            if len(self.problems) > MAX_PROBLEMS:
                lines.append(f"and {len(self.problems) - MAX_PROBLEMS:,} more")
        raise InputError("\n  ".join(lines))


def group_by_cause(problems: Iterable[Problem]) -> Iterator[str]:
    """One line per problem, grouped by cure; beyond MAX_PROBLEMS per group, only their number and rows."""
    causes = defaultdict(list)
    for problem in problems:
        causes[problem.cure or problem.what].append(problem)
    for group in causes.values():
        yield from map(str, group[:MAX_PROBLEMS])
        rest = group[MAX_PROBLEMS:]
        if rest:
            rows = [str(problem.row) for problem in rest if problem.row is not None]
            yield f"and {len(rest):,} more of this kind" + (f", in rows {abbreviate_names(rows)}" if rows else "")


class UnreadableError(Exception):
    """Reading cannot continue; the findings have the reason. Caught where reading started."""
