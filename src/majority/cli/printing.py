"""What the command prints: figures, tables, how a study ended."""

from __future__ import annotations

import sys
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import count_noun

if TYPE_CHECKING:
    from rich.console import Console

    from ..io.custom.load import SourceCheck
    from ..run.study import FinishedCell

WIDTH_OF_LOGS = 160
OF_EVALUATE = ("mean_iou", "method_bag_accuracy", "consistency_rate", "overestimation")  # `train` does not print them


def log(line: str) -> None:
    print(line, flush=True)


def console() -> Console:
    from rich.console import Console

    terminal = Console(markup=False, emoji=False)  # names may hold brackets and colons
    return terminal if terminal.is_terminal else Console(markup=False, emoji=False, width=WIDTH_OF_LOGS)


def print_table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Without names of columns, there is no line above the rows."""
    from rich.table import Table

    log(title)
    table = Table(show_header=any(head))
    for name in head:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console().print(table)


def print_names(title: str, about: Mapping[str, str]) -> None:
    from rich.table import Table

    if about:
        log(title)
        table = Table("", "", box=None, show_header=False, padding=(0, 2, 0, 0))
        table.columns[0].no_wrap = True
        for name, text in about.items():
            table.add_row(f"  {name}", text)
        console().print(table)


def print_check(found: SourceCheck, source: str) -> None:
    from ..io.custom.findings import group_by_cause

    if found.summary:
        print_table(source, ("", ""), found.summary.items())
    for warning in found.warnings:
        log(f"warning: {warning}")
    for line in group_by_cause(found.problems):
        log(f"problem: {line}")
    log(f"{count_noun(len(found.problems), 'problem')}, {count_noun(len(found.warnings), 'warning')}")


# ---------------------------------------------------------------------- figures


def print_figures(figures: dict[str, Any], title: str) -> None:
    from ..predict.metrics import FIGURES, coverage_note, in_order

    intervals = _intervals(figures, 4)
    rows = []
    for name, value in in_order(figures).items():
        if not isinstance(value, list | dict):
            shown = "-" if value is None else f"{value:.4f}" if isinstance(value, float) else str(value)
            metric, meaning = FIGURES.get(name, (name.replace("_", " "), ""))
            rows.append((metric, shown, intervals.get(name, ""), meaning))
    print_table(title, ("metric", "value", "95 % interval", "meaning"), rows)
    if note := coverage_note(figures):
        log(f"note: {note}")
    for warning in figures.get("warnings", ()):
        log(f"warning: {warning}")


def _intervals(figures: dict[str, Any], digits: int) -> dict[str, str]:
    found: dict[str, Any] = figures.get("intervals", {})
    return {name: f"{low:.{digits}f} to {high:.{digits}f}" for name, (low, high) in found.items()}


def print_result(result: dict[str, Any]) -> None:
    """The figures of a run, and what they say."""
    from ..run.report.blocks import able

    figures, bags = (result["test"], "held-out bags") if result["test"] else (result["val"], "validation bags")
    is_one_of_folds = result.get("scenario") or result.get("data", {}).get("folds")
    tested = f"test bags of fold {result['fold']}" if is_one_of_folds else "test bags"
    shown = {name: figure for name, figure in figures.items() if name not in OF_EVALUATE}
    print_figures(shown, tested if result["test"] else bags)
    if not result["test"]:
        log("note: there are no test bags; the epoch was chosen on these bags, so the figures are slightly optimistic")
    if recall := result.get("class_recall"):
        shares = (f"{name} {share:.3f}" for name, share in recall.items() if share is not None)
        log(f"recall by class: {', '.join(shares)}")
    log(able(figures, bags, result.get("baseline")))


def print_folds(results: list[dict[str, Any]]) -> None:
    """Print the figures of each fold with their intervals, the means, and how many instances they are based on."""
    import pandas as pd

    from ..predict.metrics import coverage_note, in_order
    from ..run.study.tables import with_deviation

    tested = [result["test"] for result in results]
    known = {name for of in tested for name, value in of.items() if value is not None}  # in some folds
    shown = known & {"instance_accuracy", "macro_f1", "bag_accuracy"}
    names = [name for name in in_order(ChainMap(*tested)) if name in shown]
    cells = (
        [f"{with_deviation(of.get(name))} ({_intervals(of, 3).get(name, 'no interval')})" for name in names]
        for of in tested
    )
    rows = [[str(result["fold"]), *row] for result, row in zip(results, cells, strict=True)]
    values = pd.DataFrame(tested, columns=names, dtype=float)
    rows.append(["all", *map(with_deviation, values.mean(), values.std())])
    head = ("fold", *(name.replace("_", " ") for name in names))
    print_table("folds, with 95 % intervals over their bags", head, rows)
    if note := coverage_note(*tested):
        log(f"note: {note}")


def print_next(folder: Path) -> None:
    """The commands that one would want after a training."""
    log(f"next:\n  majority predict {folder} SOURCE  # classify the instances of other bags")
    log(f"  majority audit {folder}           # label a few instances to know the accuracy")
    log(f"  majority report {folder}          # write the page with figures, plots and pictures")


# ---------------------------------------------------------------------- studies


def end_study(done: Sequence[FinishedCell], out: Path, shard: str | None) -> None:
    """Print how often the cells that were trained are right, and a line per cell that failed; exit 1 if any failed."""
    from ..run.study.figures import StudyFigures
    from ..run.study.tables import figure_tables

    results = [cell.result for cell in done if cell.result]
    figures = StudyFigures(results)
    for figure in dict.fromkeys([figures.main, "bag_accuracy"]) if results else ():
        for table in figure_tables(figures, figure):
            print_table(table.title, table.head, table.rows)
    if shard is not None:
        log(f"shard {shard}: {count_noun(len(results), 'cell')} done in {out}")
        log("After all shards, repeat the command without --shard: it writes the report and trains what is missing")
    elif results:
        log(f"all figures, with plots and what to choose: {out / 'report.html'}; as text: {out / 'tables.md'}")
    failed = [cell for cell in done if cell.failure]
    for cell in failed:
        print(f"failed: {cell.folder}: {cell.failure}", file=sys.stderr)
    if failed:
        cure = f"details are in {out}/failures*.txt; repeat the same command to try them again"
        print(f"majority: {len(failed)} of {len(done)} cells failed: {cure}", file=sys.stderr)
        raise SystemExit(1)
