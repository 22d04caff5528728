"""Results of many cells -> one row a (source, scenario, method): mean, and deviation over the folds."""

from __future__ import annotations

import csv
import io
from statistics import mean, stdev

FIGURES = {
    "instance_accuracy": "instance accuracy",
    "bag_accuracy": "bag accuracy",
    "consistency_rate": "consistency rate",
    "overestimation": "overestimation",
}


def aggregate(results: list[dict]) -> list[dict]:
    """Rows with n (folds), and mean and sd of each figure over the folds in which it is defined."""
    cells: dict[tuple, list[dict]] = {}
    for result in results:
        key = (result["source"], result["scenario"], result["method"], result["recipe"])
        cells.setdefault(key, []).append(result)
    rows = []
    for (source, scenario, method, recipe), members in cells.items():
        row = {"source": source, "scenario": scenario, "method": method, "recipe": recipe, "n": len(members)}
        for figure in FIGURES:
            values = [m["test"][figure] for m in members if m["test"].get(figure) is not None]
            row[figure] = mean(values) if values else None
            row[f"{figure}_sd"] = stdev(values) if len(values) > 1 else None
        row["seconds"] = sum(m["seconds"] for m in members)
        rows.append(row)
    return rows


def shown(row: dict, figure: str) -> str:
    """0.912 ± 0.013, or 0.912 for one fold, or - where it is not defined."""
    value, deviation = row[figure], row[f"{figure}_sd"]
    if value is None:
        return "-"
    digits, sign = (1, "+") if figure == "overestimation" else (3, "")
    text = f"{value:{sign}.{digits}f}"
    return text if deviation is None else f"{text} ± {deviation:.{digits}f}"


def as_markdown(rows: list[dict]) -> str:
    head = ["source", "scenario", "method", "n", *FIGURES.values()]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    for row in rows:
        cells = [row["source"], row["scenario"] or "-", row["method"], str(row["n"]), *(shown(row, f) for f in FIGURES)]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def as_csv(rows: list[dict]) -> str:
    text = io.StringIO()
    table = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue()
