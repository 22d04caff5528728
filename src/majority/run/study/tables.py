"""One row per source, scenario, method and setting: mean and deviation over the folds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...files import write_text
from .results import Result, Setting, row_name, save_results, setting_of, source_name
from .statistics import mean_by_fold, spread

FIGURES = {
    "instance_accuracy": "instance accuracy",
    "bag_accuracy": "bag accuracy",
    "consistency_rate": "consistency rate",
    "overestimation": "overestimation",
}


class RowKey(NamedTuple):
    source: str
    scenario: str | None
    method: str  # with the settings that the study varies
    setting: Setting


def group_results(results: list[Result]) -> dict[RowKey, list[Result]]:
    """The results, over folds and seeds, of each row. A result that occurs twice counts once."""
    groups: dict[RowKey, list[Result]] = {}
    for result in results:
        key = RowKey(source_name(result), result.get("scenario"), row_name(result), setting_of(result))
        members = groups.setdefault(key, [])
        if result not in members:
            members.append(result)
    return groups


def aggregate(results: list[Result]) -> list[dict[str, Any]]:
    """One row per group, with n (folds), and mean and sd of each figure over the folds in which it is defined.

    Several runs of the same fold are averaged first.
    """
    rows = []
    for (source, scenario, method, (recipe, changed)), members in group_results(results).items():
        folds = {member.get("fold", 0) for member in members}
        row: dict[str, Any] = {"source": source, "scenario": scenario, "method": method, "recipe": recipe}
        row["n"] = len(folds)
        for figure in FIGURES:
            found = spread([*mean_by_fold(members, figure).values()])
            row[figure], row[f"{figure}_sd"] = (found.mean, found.sd) if found else (None, None)
        row["seconds"] = sum(member.get("seconds", 0.0) for member in members)
        rows.append(row | {"runs": len(members), "changed": changed})
    return rows


def write_tables(results: list[Result], out: Path) -> None:
    """Write OUT/table.md, OUT/table.csv and OUT/results.jsonl; nothing if there are no results."""
    if results:
        save_results(out)
        rows = aggregate(results)
        write_text(out / "table.md", as_markdown(rows))
        write_text(out / "table.csv", as_csv(rows))


def format_figure(row: dict[str, Any], figure: str) -> str:
    """0.912 ± 0.013, or 0.912 for one fold, or - where it is not defined."""
    value, deviation = row[figure], row[f"{figure}_sd"]
    if value is None:
        return "-"
    digits, sign = (1, "+") if figure == "overestimation" else (3, "")
    mean = f"{value:{sign}.{digits}f}"
    return mean if deviation is None else f"{mean} ± {deviation:.{digits}f}"


def as_markdown(rows: list[dict[str, Any]]) -> str:
    head = ["source", "scenario", "method", "n", *FIGURES.values(), "recipe", "changed"]
    lines = []
    for row in rows:
        names = [row["source"], row["scenario"] or "-", row["method"], row["n"]]
        figures = [format_figure(row, figure) for figure in FIGURES]
        lines.append([*names, *figures, row["recipe"], row["changed"] or "-"])
    return markdown_table(head, lines)


def as_csv(rows: list[dict[str, Any]]) -> str:
    return csv_text(rows[0], (row.values() for row in rows))


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """
    >>> print(markdown_table(["name", "n"], [["a|b", 2]]), end="")
    | name | n |
    | --- | --- |
    | a\\|b | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def csv_text(head: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([head, *rows])
    return file.getvalue()
