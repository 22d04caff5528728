"""Table and plot of the overestimation per bag, from the lines of benchmarks/paper_tables.py."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import numpy as np

from majority.files import read_lines
from majority.run.plots.colours import GRID, INK
from majority.run.plots.figures import Box, box_plot
from majority.run.plots.svg import svg, tag, text
from majority.run.study.results import source_name

SCENARIOS = ("small", "various", "large")
MAIN = ("count", "log-mean", "output-mean", "soft-count")
PLOTTED = ("count", "soft-count", "output-mean", "log-mean")  # as in the tables of the page
PARTS = {"train": "training", "test": "test"}  # what a line has and how the plot names it
BOX_TOP, BOX_ROW = 8, 24  # pixels of box_plot: above its first row, and per row


def write_overestimation(out: Path) -> None:
    """overestimation.csv and overestimation.svg beside OUT: the paper's box plot, on training and on test bags.

    The bags of several folds are pooled; `folds` says which. The plot is drawn when all its cells have a line.
    """
    groups = _surplus_by_cell(out)
    rows = [("source", "scenario", "cell", "folds", "part", "bags", "mean", "min", "q25", "median", "q75", "max")]
    for names, lines in groups.items():
        folds = " ".join(str(line["fold"]) for line in lines)
        for part in PARTS:
            surplus = _pooled(lines, part)
            figures = (surplus.mean(), *np.quantile(surplus, (0, 0.25, 0.5, 0.75, 1)))
            rows.append((*names, folds, part, len(surplus), *(f"{figure:.2f}" for figure in figures)))
    with out.with_name("overestimation.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([rows[0], *sorted(rows[1:])])
    if all(("cifar10", scenario, method) in groups for scenario, method in product(SCENARIOS, PLOTTED)):
        out.with_name("overestimation.svg").write_text(overestimation_plot(groups, "cifar10") + "\n", encoding="utf-8")


def _surplus_by_cell(out: Path) -> dict[tuple[str, str, str], list[dict]]:
    """Lines with the surplus of each bag, by source, scenario and name of the cell, in order of folds.

    The methods of MAIN are compared with each other. Of them, only folds are taken that all of them have in every
    scenario of a source.
    """
    groups: dict[tuple[str, str, str], list[dict]] = defaultdict(list)
    for line in read_lines(out):
        if "overestimation_per_bag" in line:
            name = line["cell"].split("/")[2]  # the method and its changes
            groups[source_name(line), line["scenario"], name].append(line)
    common: dict[str, set[int]] = {}
    for (source, _, name), lines in groups.items():
        if name in MAIN:
            folds = {line["fold"] for line in lines}
            common[source] = common.get(source, folds) & folds
    kept = {
        names: sorted(
            (line for line in lines if names[2] not in MAIN or line["fold"] in common[names[0]]),
            key=lambda line: line["fold"],
        )
        for names, lines in groups.items()
    }
    return {names: lines for names, lines in kept.items() if lines}


def _pooled(lines: Sequence[dict], part: str) -> np.ndarray:
    return np.concatenate([line["overestimation_per_bag"][part] for line in lines])


def overestimation_plot(groups: dict[tuple[str, str, str], list[dict]], source: str) -> str:
    """One box plot per scenario, one below the other. Each method has a box of training bags and one of test bags."""
    label = "instances predicted as the bag's class minus their true number, per bag"
    left, title_height, parts, bottom = 96, 34, [], 0.0
    for scenario in SCENARIOS:
        boxes = [
            Box.from_values(PARTS[part], _pooled(groups[source, scenario, method], part))
            for method, part in product(PLOTTED, PARTS)
        ]
        drawing = box_plot(boxes, label)
        width, height = map(float, re.search(r'viewBox="0 0 (\S+) (\S+)"', drawing).groups())
        top = bottom + title_height
        parts.append(text(scenario.capitalize(), x=12, y=top - 8, font_size=14, font_weight=600, fill=INK))
        parts.append(tag("svg", drawing, x=left, y=top, width=width, height=height))
        for i, method in enumerate(PLOTTED):
            y = top + BOX_TOP + BOX_ROW * len(PARTS) * i  # of the upper edge of the method's rows
            parts.append(text(method, x=12, y=y + BOX_ROW + 4, fill=INK))
            if i:
                parts.append(tag("line", x1=12, x2=left + width, y1=y, y2=y, stroke=GRID, stroke_dasharray="2 3"))
        bottom = top + height
    size = {"width": left + width, "height": bottom + 8}
    background = tag("rect", **size, fill="#fff")
    about = f"overestimation per bag on {source}, training and test bags"
    return svg(*size.values(), [background, *parts], about, font_family="sans-serif", font_size=12)
