"""Results of many cells -> one row a (source, scenario, method, setting): mean, and deviation over the folds."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..files import write_text
from .results import Setting, save, setting, source_name
from .statistics import by_fold, spread

FIGURES = {
    "instance_accuracy": "instance accuracy",
    "bag_accuracy": "bag accuracy",
    "consistency_rate": "consistency rate",
    "overestimation": "overestimation",
}


class Key(NamedTuple):
    source: str
    scenario: str | None
    method: str
    setting: Setting


def grouped(results: list[dict]) -> dict[Key, list[dict]]:
    """The runs, over folds and seeds, that one row is of. A result that is there twice counts once."""
    groups: dict[Key, list[dict]] = {}
    for result in results:
        key = Key(source_name(result), result.get("scenario"), result["method"], setting(result))
        members = groups.setdefault(key, [])
        if result not in members:
            members.append(result)
    return groups


def aggregate(results: list[dict]) -> list[dict]:
    """Rows with n (folds), and mean and sd of each figure over the folds in which it is defined.

    Several runs of one fold are averaged first.
    """
    rows = []
    for (source, scenario, method, (recipe, changed)), members in grouped(results).items():
        folds = {member.get("fold", 0) for member in members}
        row = {"source": source, "scenario": scenario, "method": method, "recipe": recipe, "n": len(folds)}
        for figure in FIGURES:
            found = spread([*by_fold(members, figure).values()])
            row[figure], row[f"{figure}_sd"] = (found.mean, found.sd) if found else (None, None)
        row["seconds"] = sum(member.get("seconds", 0.0) for member in members)
        rows.append(row | {"runs": len(members), "changed": changed})
    return rows


def write_tables(results: list[dict], out: Path) -> None:
    """OUT/table.md and table.csv of these results, and OUT/results.jsonl; nothing where there are none."""
    if results:
        save(out)
        rows = aggregate(results)
        write_text(out / "table.md", as_markdown(rows))
        write_text(out / "table.csv", as_csv(rows))


def shown(row: dict, figure: str) -> str:
    """0.912 ± 0.013, or 0.912 for one fold, or - where it is not defined."""
    value, deviation = row[figure], row[f"{figure}_sd"]
    if value is None:
        return "-"
    digits, sign = (1, "+") if figure == "overestimation" else (3, "")
    text = f"{value:{sign}.{digits}f}"
    return text if deviation is None else f"{text} ± {deviation:.{digits}f}"


def as_markdown(rows: list[dict]) -> str:
    head = ["source", "scenario", "method", "n", *FIGURES.values(), "recipe", "changed"]
    lines = []
    for row in rows:
        names = [row["source"], row["scenario"] or "-", row["method"], row["n"]]
        figures = [shown(row, figure) for figure in FIGURES]
        lines.append([*names, *figures, row["recipe"], row["changed"] or "-"])
    return markdown_table(head, lines)


def as_csv(rows: list[dict]) -> str:
    return csv_text(rows[0], (row.values() for row in rows))


def markdown_table(head: Sequence[str], rows: Iterable[Sequence]) -> str:
    """
    >>> print(markdown_table(["name", "n"], [["a|b", 2]]), end="")
    | name | n |
    | --- | --- |
    | a\\|b | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def csv_text(head: Iterable[str], rows: Iterable[Iterable]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([head, *rows])
    return text.getvalue()
