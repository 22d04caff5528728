"""Problem: one thing that is wrong with a source, where, and its cure. Findings gather all of them, not the first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import InputError
from .names import shown_names

SHOWN = 20  # problems in one message, or of one kind


@dataclass(frozen=True)
class Problem:
    """Rows are counted as a spreadsheet counts them: the header of a CSV file is row 1.

    >>> print(Problem(Path("bags.csv"), 7, "bag_label is empty", "write the bag's label"))
    bags.csv, row 7: bag_label is empty: write the bag's label
    """

    file: Path
    row: int | None
    what: str
    cure: str | None  # None where `what` says it too

    def __str__(self) -> str:
        place = str(self.file) if self.row is None else f"{self.file}, row {self.row}"
        return ": ".join([place, self.what, *([] if self.cure is None else [self.cure])])


@dataclass
class Findings:
    """What a reader met on its way."""

    problems: list[Problem] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    class_warnings: dict[str, str] = field(default_factory=dict)  # those of the warnings that a background makes untrue

    def problem(self, file: Path, row: int | None, what: str, cure: str) -> None:
        self.problems.append(Problem(file, None if row is None else int(row), what, cure))

    def refused(self, file: Path, error: InputError) -> None:
        """A problem in the words of a refusal, which has its cure in it."""
        self.problems.append(Problem(file, None, str(error), None))

    def warn(self, text: str) -> None:
        self.warnings.append(text)

    def refuse(self, source: Path, of_run: bool = False) -> None:
        """One message with the first problems, where there are any; `check` knows no run, and cannot say more."""
        if not self.problems:
            return
        count = "a problem" if len(self.problems) == 1 else f"{len(self.problems):,} problems"
        if of_run:
            lines = [f"{source} has {count}:", *group_by_cause(self.problems)]
        else:
            lines = [f"{source} has {count}; `majority check {source}` shows every kind:"]
            lines += map(str, self.problems[:SHOWN])
            if len(self.problems) > SHOWN:
                lines.append(f"and {len(self.problems) - SHOWN:,} more")
        raise InputError("\n  ".join(lines))


def group_by_cause(problems: Iterable[Problem]) -> Iterator[str]:
    """Problems of one cure together: the first of them, and how many more there are in which rows."""
    kinds = defaultdict(list)
    for problem in problems:
        kinds[problem.cure or problem.what].append(problem)
    for alike in kinds.values():
        yield from map(str, alike[:SHOWN])
        rest = alike[SHOWN:]
        if rest:
            rows = [str(problem.row) for problem in rest if problem.row is not None]
            yield f"and {len(rest):,} more of this kind" + (f", in rows {shown_names(rows)}" if rows else "")


class UnreadableError(Exception):
    """The findings say why reading cannot go on; caught where reading began."""
