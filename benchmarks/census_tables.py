"""Tables and plots of the lines that benchmarks/census.py has written."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean, stdev

from majority.files import read_lines
from majority.run.plots.colours import colour
from majority.run.plots.lines import Line, Point, line_plot

HEADS = ("count", "soft-count", "count-only", "log-mean", "adjusted-mean", "vote", "naive", "proportion", "supervised")
RUNS, UNKNOWN = "runs.jsonl", "unknown.jsonl"


def write_tables(out: Path) -> None:
    rows = read_lines(out / RUNS)
    groups, methods = defaultdict(list), defaultdict(set)
    for row in rows:
        methods[_cell_and_line(row)].add(row["method"])
    for row in rows:
        # Losses are compared on the same pretrained networks: a cell counts only if all of them were run there.
        if row["line"] == "heads" and not methods[_cell_and_line(row)] >= set(HEADS):
            continue
        groups[row["source"], row["scenario"], row["line"], row["method"]].append(row)
    heads = [("source", "scenario", "method", "folds", "seeds", "mean", "std")]
    for (source, scenario, line, method), group in sorted(groups.items()):
        if line in ("heads", "discriminants"):
            folds, seeds = (sorted({row[key] for row in group}) for key in ("fold", "seed"))
            name = method if line == "heads" else f"{method} on discriminants"
            heads.append((source, scenario, name, _listed(folds), len(seeds), *_written(_mean_and_std(group))))
    summary = [("source", "scenario", "folds", "mean", "std", "ceiling", "floor", "seconds")]
    for (source, scenario, line, _), group in sorted(groups.items()):
        if line == "census":
            of = {key[2]: rows for key, rows in groups.items() if key[:2] == (source, scenario) and key[2] != "heads"}
            lines = [_mean_and_std(of[name])[0] if name in of else None for name in ("supervised", "clusters")]
            folds = _listed(sorted({row["fold"] for row in group}))
            seconds = round(mean(row["seconds"] for row in group))
            summary.append((source, scenario, folds, *_written([*_mean_and_std(group), *lines]), seconds))
    for name, table in (("heads.csv", heads), ("summary.csv", summary)):
        with (out / name).open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(table)
    draw(out, groups)


def write_unknown(out: Path) -> None:
    """Census without the kind of the images next to the same method and fold with it, if that was run."""
    columns = ("source", "scenario", "fold")
    table = [(*columns, "method", "policy", "instance_accuracy", "named_instance_accuracy", "seconds")]
    named = {
        (*(row[key] for key in columns), row["method"]): row["instance_accuracy"]
        for row in (read_lines(out / RUNS) if (out / RUNS).exists() else [])
        if row["line"] == "census"
    }
    for row in sorted(read_lines(out / UNKNOWN), key=lambda row: [row[key] for key in (*columns, "method")]):
        key = (*(row[key] for key in columns), row["method"])
        figures = _written([row["instance_accuracy"], named.get(key)])
        table.append((*key, "+".join(row["views"]["chosen"]) or "crops", *figures, round(row["seconds"])))
    with (out / "unknown.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(table)


def draw(out: Path, groups: dict) -> None:
    """One plot per source with supervised runs; the points of a line are means over the folds that all of them have."""
    titles = {"clusters": "clusters,\nnamed", "census": "majorities:\ncensus", "top2": "with\nrunners-up"}
    titles |= {"proportion": "proportions", "supervised": "all labels"}
    for source in {key[0] for key in groups}:
        lines, found = [], {key[2] for key in groups if key[0] == source}
        steps = {step: title for step, title in titles.items() if step in found}
        for place, scenario in enumerate(("small", "various", "large")):
            of = {key[2]: rows for key, rows in groups.items() if key[:2] == (source, scenario) and key[2] in steps}
            folds = set.intersection(*({row["fold"] for row in rows} for rows in of.values())) if of else set()
            if folds and "supervised" in of:
                shared = {step: [row for row in rows if row["fold"] in folds] for step, rows in of.items()}
                points = [Point(at, *_mean_and_std(shared[step])) for at, step in enumerate(steps) if step in of]
                lines.append(Line(scenario.capitalize(), colour(place), points))
        if lines:
            drawn = line_plot(
                list(steps.values()), lines, f"{source}: labels that training is given", "instance accuracy"
            )
            (out / f"worth-{source}.svg").write_text(drawn)


def _cell_and_line(row: dict) -> tuple:
    return row["source"], row["scenario"], row["fold"], row["line"]


def _listed(folds: list[int]) -> str:
    return " ".join(map(str, folds))


def _mean_and_std(rows: list[dict]) -> tuple[float, float | None]:
    """Over folds: seeds of one fold are averaged first. One fold has no standard deviation."""
    folds = defaultdict(list)
    for row in rows:
        folds[row["fold"]].append(row["instance_accuracy"])
    means = [mean(values) for values in folds.values()]
    return mean(means), stdev(means) if len(means) > 1 else None


def _written(figures: Iterable[float | None]) -> list[str]:
    return ["" if figure is None else f"{figure:.4f}" for figure in figures]
