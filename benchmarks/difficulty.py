"""What makes learning from majority labels easy or hard: one variable at a time, all others at a base point.

    OMP_NUM_THREADS=1 python benchmarks/difficulty.py digits --jobs 2 --out results/difficulty/results.jsonl

A cell that has a line in OUT is not run again. difficulty.csv, difficulty.md and difficulty-AXIS.svg are written beside
OUT from its lines. Any labelled set with at least ten classes can be the source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any

from helpers import add_training_options, make_parser, numbers, read_raw, train, write_csv

from majority.data.winners import lead_of
from majority.io import Source, load
from majority.run.config import RunConfig
from majority.run.data import make_parts
from majority.run.plots.colours import colour
from majority.run.plots.lines import Line, Point, line_plot
from majority.run.study.results import Result
from majority.run.study.statistics import mean_by_fold, spread
from majority.run.study.tables import format_figure, markdown_table

METHODS = ("count", "log-mean", "vote")  # the default
CEILING = "supervised"  # trained at the base point only
FOLDS = (0, 1, 2)
BAGS_SEEN = 8_000  # bags x epochs of each training: cells with more bags train for fewer epochs
BASE: dict[str, Any] = {
    "scenario": "0.2,0.4",
    "bags": 200,
    "bag_size": 32,
    "ties": "resample",
    "classes": 10,
    "winner_ratio": 1,
}
FIGURES = {"instance_accuracy": "instance accuracy", "macro_f1": "macro F1"}
BAG_STATISTICS = {"tie_rate": "tied bags", "majority": "majority proportion", "margin": "lead over the runner-up"}


@dataclass(frozen=True)
class Axis:
    variable: str  # the field of Data that varies
    values: tuple[Any, ...]
    label: str  # below the plot
    fixed: dict[str, Any] = field(default_factory=dict)  # other differences from the base point, for all values
    figures: tuple[str, ...] = ("instance_accuracy",)  # the first one is drawn
    reference: str | None = None  # another axis of the same variable, drawn dashed
    statistic: str | None = None  # of the bags, written below each value

    def points(self) -> list[dict[str, Any]]:
        return [BASE | self.fixed | {self.variable: value} for value in self.values]


AXES = {
    "bags": Axis("bags", (25, 50, 100, 200, 400, 800), "training bags"),
    "bag-size": Axis("bag_size", (8, 16, 32, 64), "instances per bag"),
    "majority": Axis(
        "scenario",
        ("0.15,0.2", "0.2,0.3", "0.3,0.4", "0.4,0.6", "0.6,0.8", "0.8,1"),
        "range of majority proportions",
    ),
    "classes": Axis("classes", (2, 3, 5, 10), "classes", fixed={"scenario": "0.5,0.7"}),
    "winners": Axis(
        "winner_ratio",
        (1, 10, 100),
        "bags of the first class per bag of the last class",
        figures=("macro_f1", "instance_accuracy"),
    ),
    "ties": Axis(
        "bag_size",
        (8, 16, 32, 64),
        "instances per bag, tied training bags (dashed: no ties)",
        fixed={"ties": "lowest"},
        reference="bag-size",
        statistic="tie_rate",
    ),
}


def cells(source: str, methods: Sequence[str] = METHODS, folds: Sequence[int] = FOLDS) -> dict[str, RunConfig]:
    """One cell per point, fold and method; a point that several axes share occurs once."""
    found = {}
    points = {_name(point): point for point in (BASE, *(point for axis in AXES.values() for point in axis.points()))}
    for name, point in points.items():
        for fold in folds:
            for method in dict.fromkeys((*methods, CEILING) if point == BASE else methods):
                settings = {"training.epochs": BAGS_SEEN // point["bags"]}
                config = _config(source, point, fold, method=method, recipe="quick", settings=settings)
                found[f"{name}/{method}/fold{fold}"] = config
    return found


def write(results: list[Result], out: Path) -> None:
    """Write OUT/difficulty.csv, OUT/difficulty.md and one OUT/difficulty-AXIS.svg per axis that has results."""
    table = make_rows(results)
    write_csv(out / "difficulty.csv", [list(table[0]), *(list(row.values()) for row in table)])
    (out / "difficulty.md").write_text(as_markdown(table))
    for name in _axes_of(table):
        (out / f"difficulty-{name}.svg").write_text(plot(name, table))


def make_rows(results: list[Result]) -> list[dict[str, Any]]:
    """One row per axis, value and method that has results: figures over the folds, statistics of the training bags."""
    table = []
    for name, axis in AXES.items():
        for value, point in zip(axis.values, axis.points(), strict=True):
            at_point = [result for result in results if point.items() <= result["data"].items()]
            for method in _methods_of(results):
                members = [result for result in at_point if result["method"] == method]
                if members:
                    table.append({"axis": name, "value": value, "method": method} | _figures(members, point))
    return table


def _methods_of(rows: list[dict[str, Any]]) -> list[str]:
    """The methods of results or of rows in the order in which they were trained, the ceiling last."""
    found = dict.fromkeys(row["method"] for row in rows if row["method"] != CEILING)
    standard = [method for method in METHODS if method in found]
    return [*dict.fromkeys([*standard, *found]), CEILING]


def plot(name: str, table: list[dict[str, Any]]) -> str:
    axis = AXES[name]
    figure = axis.figures[0]
    lines = _lines(axis.reference, table, figure, dashed=True) if axis.reference else []
    lines += _lines(name, table, figure)
    ceiling = [row[figure] for row in _rows_of(table, name) if row["method"] == CEILING]
    values = [_tick(axis, value, table) for value in axis.values]
    return line_plot(values, lines, axis.label, FIGURES[figure], (CEILING, ceiling[0]) if ceiling else None)


def as_markdown(table: list[dict[str, Any]]) -> str:
    base = ", ".join(f"{variable.replace('_', ' ')} {value}" for variable, value in BASE.items())
    parts = [
        f"Base point: {base}. Mean ± standard deviation over folds on test bags; n is the number of folds. "
        f"The last three columns are means over the training bags. {CEILING} was trained at the base point only."
    ]
    for name in _axes_of(table):
        axis = AXES[name]
        title = f"## {name}"
        if axis.fixed:
            title += f" ({', '.join(f'{variable} {value}' for variable, value in axis.fixed.items())})"
        parts += [title, f"![{axis.label}](difficulty-{name}.svg)"]
        parts += [_markdown_of_axis(axis, figure, _rows_of(table, name)).rstrip("\n") for figure in axis.figures]
    return "\n\n".join(parts) + "\n"


def _config(source: str, point: dict[str, Any], fold: int, **options: Any) -> RunConfig:
    return RunConfig.from_options(source, fold=fold, **point, **options)


def _name(point: dict[str, Any]) -> str:
    changed = [f"{variable}-{value}".replace(",", "-") for variable, value in point.items() if value != BASE[variable]]
    return "_".join(changed) or "base"


def _figures(members: list[Result], point: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {"n": len(mean_by_fold(members, "instance_accuracy"))}
    for figure in FIGURES:
        found = spread([*mean_by_fold(members, figure).values()])
        row |= {figure: found and found.mean, f"{figure}_sd": found and found.sd}
    of_folds = [_bag_statistics(member["source"], member["fold"], **point) for member in members]
    return row | {name: fmean(of_fold[name] for of_fold in of_folds) for name in BAG_STATISTICS}


@cache
def _open(source: str) -> Source:
    return load(source)


@cache
def _bag_statistics(source: str, fold: int, **point: Any) -> dict[str, float]:
    """Means over the training bags."""
    train = make_parts(_config(source, point, fold), _open(source)).train
    share, margin = lead_of(train.class_counts())
    return {"tie_rate": train.tie_rate(), "majority": float(share.mean()), "margin": float(margin.mean())}


def _lines(name: str, table: list[dict[str, Any]], figure: str, dashed: bool = False) -> list[Line]:
    values = AXES[name].values
    lines = []
    for number, method in enumerate(_methods_of(table)[:-1]):
        rows = [row for row in _rows_of(table, name) if row["method"] == method]
        points = [Point(values.index(row["value"]), row[figure], row[f"{figure}_sd"]) for row in rows]
        lines.append(Line(method, colour(number), points, dashed))
    return lines


def _tick(axis: Axis, value: object, table: list[dict[str, Any]]) -> str:
    label = str(value).replace(",", "–")
    if axis.statistic is None:
        return label
    at_value = [row for row in table if AXES[row["axis"]] is axis and row["value"] == value]
    return f"{label}\n{at_value[0][axis.statistic]:.0%}" if at_value else label


def _markdown_of_axis(axis: Axis, figure: str, rows: list[dict[str, Any]]) -> str:
    by_place = {(row["value"], row["method"]): row for row in rows}
    methods = [method for method in _methods_of(rows) if any(row["method"] == method for row in rows)]
    head = [axis.variable.replace("_", " "), *(f"{method}, {FIGURES[figure]}" for method in methods), "n"]
    lines = []
    for value in dict.fromkeys(row["value"] for row in rows):
        found = [by_place.get((value, method)) for method in methods]
        first = next(filter(None, found))
        figures = [format_figure(row, figure) if row else "-" for row in found]
        lines.append([value, *figures, first["n"], *(f"{first[name]:.3f}" for name in BAG_STATISTICS)])
    return markdown_table([*head, *BAG_STATISTICS.values()], lines)


def _rows_of(table: list[dict[str, Any]], axis: str) -> list[dict[str, Any]]:
    return [row for row in table if row["axis"] == axis]


def _axes_of(table: list[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["axis"] for row in table))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("source")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--folds", type=numbers, default=list(FOLDS))
    add_training_options(parser, "runs/difficulty")
    options = parser.parse_args()
    train(cells(options.source, options.methods.split(","), options.folds), options)
    write(read_raw(options.out), options.out.parent)


if __name__ == "__main__":
    main()
