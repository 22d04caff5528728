"""What makes learning from majority labels easy or hard: one knob at a time, everything else at a base point."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean

from ..data.background import lead_of
from ..experiments.data import Data
from ..experiments.experiment import Experiment
from ..experiments.run_folder import run_lock
from ..files import write_text
from ..plots.colours import colour
from ..plots.lines import Line, Point, line_plot
from ..sources import LabelledSet, load
from .live import show_cells
from .statistics import by_fold, spread
from .tables import as_csv, markdown_table, shown, write_tables
from .workers import Done, run_cells

METHODS = ("count", "log-mean", "vote")
CEILING = "supervised"  # at the base point only
FOLDS = (0, 1, 2)
BAGS_SEEN = 8_000  # in training, counted again in each epoch: cells with more bags train for fewer epochs
BASE = {"scenario": "0.2,0.4", "bags": 200, "bag_size": 32, "ties": "resample", "classes": 10, "winner_ratio": 1}
FIGURES = {"instance_accuracy": "instance accuracy", "macro_f1": "macro F1"}
MEASURED = {"tie_rate": "tied bags", "majority": "majority proportion", "margin": "lead over the runner-up"}


@dataclass(frozen=True)
class Axis:
    knob: str  # the field of Data that varies
    values: tuple
    label: str  # below the plot
    fixed: dict = field(default_factory=dict)  # other departures from the base point, the same for all values
    figures: tuple[str, ...] = ("instance_accuracy",)  # the first is drawn
    beside: str | None = None  # another axis of the same knob, drawn dashed
    written: str | None = None  # what was measured, written below each value

    def points(self) -> list[dict]:
        return [BASE | self.fixed | {self.knob: value} for value in self.values]


AXES = {
    "bags": Axis("bags", (25, 50, 100, 200, 400, 800), "training bags"),
    "bag-size": Axis("bag_size", (8, 16, 32, 64), "instances a bag"),
    "majority": Axis(
        "scenario",
        ("0.15,0.2", "0.2,0.3", "0.3,0.4", "0.4,0.6", "0.6,0.8", "0.8,1"),
        "range of majority proportions",
    ),
    "classes": Axis("classes", (2, 3, 5, 10), "classes", fixed={"scenario": "0.5,0.7"}),
    "winners": Axis(
        "winner_ratio",
        (1, 10, 100),
        "how many times as often the first class wins as the last",
        figures=("macro_f1", "instance_accuracy"),
    ),
    "ties": Axis(
        "bag_size",
        (8, 16, 32, 64),
        "instances a bag, tied training bags (dashed: no ties)",
        fixed={"ties": "lowest"},
        beside="bag-size",
        written="tie_rate",
    ),
}


def run(
    source: str,
    out: Path,
    device: str = "auto",
    jobs: int | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> list[Done]:
    """Train every cell that is not finished, write the tables and plots; how every cell ended."""
    _data(source, BASE, FOLDS[0]).parts()  # refused at once where a set has too few classes or instances
    with run_lock(out):
        with show_cells(log) as watch:
            done = run_cells(list(cells(source, out)), out, device, jobs, watch)
        results = [cell.result for cell in done if cell.result]
        write_tables(results, out)
        if results:
            write(results, out)
    return done


def cells(source: str, out: Path) -> Iterator[tuple[Path, Experiment]]:
    """A point that several axes share is there once."""
    points = {_name(point): point for point in (BASE, *(point for axis in AXES.values() for point in axis.points()))}
    for name, point in points.items():
        for fold in FOLDS:
            for method in (*METHODS, CEILING) if point == BASE else METHODS:
                epochs = BAGS_SEEN // point["bags"]
                experiment = Experiment(_data(source, point, fold), method, recipe="quick", epochs=epochs)
                yield out / name / method / f"fold{fold}", experiment


def write(results: list[dict], out: Path) -> None:
    """OUT/difficulty.csv, difficulty.md and a difficulty-AXIS.svg for each axis that has results."""
    table = rows(results)
    texts = {"difficulty.csv": as_csv(table), "difficulty.md": as_markdown(table)}
    for name in _axes_in(table):
        texts[f"difficulty-{name}.svg"] = plot(name, table)
    for file, text in texts.items():
        write_text(out / file, text)


def rows(results: list[dict]) -> list[dict]:
    """A row an (axis, value, method) that has results: figures over the folds, and what the training bags are like."""
    table = []
    for name, axis in AXES.items():
        for value, point in zip(axis.values, axis.points(), strict=True):
            at_point = [result for result in results if point.items() <= result["data"].items()]
            for method in (*METHODS, CEILING):
                members = [result for result in at_point if result["method"] == method]
                if members:
                    table.append({"axis": name, "value": value, "method": method} | _figures(members, point))
    return table


def plot(name: str, table: list[dict]) -> str:
    axis = AXES[name]
    figure = axis.figures[0]
    lines = _lines(axis.beside, table, figure, dashed=True) if axis.beside else []
    lines += _lines(name, table, figure)
    ceiling = [row[figure] for row in _of(table, name) if row["method"] == CEILING]
    values = [_tick(axis, value, table) for value in axis.values]
    return line_plot(values, lines, axis.label, FIGURES[figure], (CEILING, ceiling[0]) if ceiling else None)


def as_markdown(table: list[dict]) -> str:
    base = ", ".join(f"{knob.replace('_', ' ')} {value}" for knob, value in BASE.items())
    parts = [
        f"Base point: {base}. Mean ± standard deviation over folds on test bags; n is the number of folds. "
        f"The last three columns are means over the training bags. {CEILING} was trained at the base point alone."
    ]
    for name in _axes_in(table):
        axis = AXES[name]
        title = f"## {name}"
        if axis.fixed:
            title += f" ({', '.join(f'{knob} {value}' for knob, value in axis.fixed.items())})"
        parts += [title, f"![{axis.label}](difficulty-{name}.svg)"]
        parts += [_table_of(axis, figure, _of(table, name)).rstrip("\n") for figure in axis.figures]
    return "\n\n".join(parts) + "\n"


def _data(source: str, point: dict, fold: int) -> Data:
    return Data(source, fold=fold, **point)


def _name(point: dict) -> str:
    changed = [f"{knob}-{value}".replace(",", "-") for knob, value in point.items() if value != BASE[knob]]
    return "_".join(changed) or "base"


def _figures(members: list[dict], point: dict) -> dict:
    found = {figure: spread([*by_fold(members, figure).values()]) for figure in FIGURES}
    row = {"n": found["instance_accuracy"].n}
    for figure, (mean, sd, _) in found.items():
        row |= {figure: mean, f"{figure}_sd": sd}
    of_folds = [_measured(_data(member["source"], point, member["fold"])) for member in members]
    return row | {name: fmean(of_fold[name] for of_fold in of_folds) for name in MEASURED}


@cache
def _opened(source: str) -> LabelledSet:
    return load(source)


@cache
def _measured(data: Data) -> dict[str, float]:
    train = data.parts(_opened(data.source)).train
    share, margin = lead_of(train.class_counts())
    return {"tie_rate": train.tie_rate(), "majority": float(share.mean()), "margin": float(margin.mean())}


def _lines(name: str, table: list[dict], figure: str, dashed: bool = False) -> list[Line]:
    values = AXES[name].values
    lines = []
    for number, method in enumerate(METHODS):
        found = [row for row in _of(table, name) if row["method"] == method]
        points = [Point(values.index(row["value"]), row[figure], row[f"{figure}_sd"]) for row in found]
        lines.append(Line(method, colour(number), points, dashed))
    return lines


def _tick(axis: Axis, value, table: list[dict]) -> str:
    text = str(value).replace(",", "–")
    if axis.written is None:
        return text
    at_value = [row for row in table if AXES[row["axis"]] is axis and row["value"] == value]
    return f"{text}\n{at_value[0][axis.written]:.0%}" if at_value else text


def _table_of(axis: Axis, figure: str, found: list[dict]) -> str:
    by_place = {(row["value"], row["method"]): row for row in found}
    methods = [method for method in (*METHODS, CEILING) if any(row["method"] == method for row in found)]
    head = [axis.knob.replace("_", " "), *(f"{method}, {FIGURES[figure]}" for method in methods), "n"]
    lines = []
    for value in dict.fromkeys(row["value"] for row in found):
        here = [by_place.get((value, method)) for method in methods]
        first = next(filter(None, here))
        figures = [shown(row, figure) if row else "-" for row in here]
        lines.append([value, *figures, first["n"], *(f"{first[name]:.3f}" for name in MEASURED)])
    return markdown_table([*head, *MEASURED.values()], lines)


def _of(table: list[dict], name: str) -> list[dict]:
    return [row for row in table if row["axis"] == name]


def _axes_in(table: list[dict]) -> list[str]:
    return list(dict.fromkeys(row["axis"] for row in table))
