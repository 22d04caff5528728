"""The runs of the paper's tables at full length. They can be stopped at any moment and continued.

    nvidia-cuda-mps-control -d  # lets trainings share one GPU well
    python benchmarks/paper_tables.py --jobs 5 --minutes 30 --out results/paper/paper-1500-epochs.jsonl

Cells run in the order of BLOCKS; `--blocks a,c` takes some of them, `--only REGEX` those of a name. Each is one
training of 1,500 epochs, one seed per fold. On one H200 a cell takes 76 s alone, its start included (n = 1);
six side by side took 51 s per cell (n = 31).

Each line of OUT is one finished cell: its result.json, its thinned learning curve, `train` (the same metrics on the
training bags) and `overestimation_per_bag` (instances predicted as the bag's class minus their true number, training
and test bags). Lines of mpem also have `left_out`: the number of training instances that it left out of the count, and
the share that is not of the bag's class among these, among all candidates and among all instances. A cell that has a
line is not run again. overestimation.csv and .svg, and tables.md and summary.csv with the printed values, are written
beside OUT; `--minutes 0` only writes these.

Named sets are found as by the command (MAJORITY_DATA), svhn28.npz and oct_kermany_7801.npz in the current folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from helpers import SCENARIOS, add_training_options, finished, make_parser, result_of, train, write_csv
from paper_values import write_tables

from majority import Bags, evaluate
from majority.files import read_lines
from majority.predict.metrics import overestimation
from majority.recipes.mpem import LEFT_OUT
from majority.recipes.stages import STAGES
from majority.run.config import RunConfig
from majority.run.plots.axes import Axes, nice_ticks, slots
from majority.run.plots.colours import FAINT, GRID, INK
from majority.run.plots.svg import svg, tag, text, text_width, tooltip
from majority.run.reopen import reopen
from majority.run.study import FinishedCell
from majority.run.study.results import source_name

EPOCHS = 1_500
TINY = {"backbone": "mlp", "training.epochs": 2}
MAIN = ("count", "log-mean", "output-mean", "soft-count")
PLOTTED = ("count", "soft-count", "output-mean", "log-mean")  # as in the tables of the page
PARTS = {"train": "training", "test": "test"}  # what a line has and how the plot names it
BOX_TOP, BOX_ROW = 8, 24  # pixels of box_plot: above its first row, and per row


@dataclass(frozen=True)
class Grid:
    """Cells in order: fold by fold, then by source, method and scenario."""

    sources: Sequence[str]
    folds: Sequence[int]
    methods: Sequence[str]
    changes: dict = field(default_factory=dict)  # to the experiment of the paper
    scenarios: Sequence[str] = SCENARIOS

    def experiments(self) -> Iterator[RunConfig]:
        for fold, source, method, scenario in product(self.folds, self.sources, self.methods, self.scenarios):
            changes = {"recipe": "paper"} | self.changes
            settings = {"training.epochs": EPOCHS} | changes.pop("settings", {})
            grid = {"scenario": scenario, "fold": fold, "method": method}
            yield RunConfig.from_options(source, **grid, settings=settings, **changes)


CIFAR = ["cifar10"]
PATH_SVHN = ["pathmnist", "svhn28.npz"]
PUBLISHED = {"method_options": {"attention": "published"}}
STOPPED = {"settings": {"training.patience": 300}}
BLOCKS = {
    "a": [Grid(CIFAR, range(5), MAIN)],
    "b": [Grid(PATH_SVHN, range(3), MAIN)],
    "c": [
        Grid(CIFAR, [0], ["feature-mean", "attention", "additive"]),
        Grid(CIFAR, [0], ["additive-transmil"], PUBLISHED),
        Grid(CIFAR, [0], ["count-only", "adjusted-mean"]),
        Grid(CIFAR, [0], ["feature-max", "feature-pnorm", "feature-lse"], STOPPED),
        Grid(CIFAR, [0], ["additive"], {"settings": {"training.precision": "float32"}}, ["large"]),
    ],
    "d": [
        Grid(CIFAR, [0], ["count"], {"method_options": {"of": "counts"}}),
        Grid(CIFAR, [0], ["count"], {"recipe": "mpem", "settings": {"mpem.ratios": (0.3, 0.5, 0.7)}}),
    ],
    "f": [
        Grid(PATH_SVHN, [0], ["feature-mean", "attention", "additive", "count-only", "adjusted-mean"]),
        Grid(PATH_SVHN, [0], ["additive-transmil"], PUBLISHED),
        Grid(PATH_SVHN, [0], ["feature-max", "feature-pnorm", "feature-lse"], STOPPED),
    ],
    "e": [
        Grid(["oct_kermany_7801.npz"], range(3), MAIN),  # split by patient: the file names them
        Grid(CIFAR, [0], ["count", "log-mean"], {"seed": 1}),
        Grid(CIFAR, [0], ["count", "log-mean"], {"seed": 2}),
    ],
}


def cells_of(block: str, tiny: bool = False) -> dict[str, RunConfig]:
    """The experiments of a block by the names of their cells, which are their folders in WORK."""
    experiments = [experiment for grid in BLOCKS[block] for experiment in grid.experiments()]
    if tiny:
        experiments = [one.with_options(source="digits", bags=8, bag_size=8, settings=TINY) for one in experiments]
    return {_name(experiment): experiment for experiment in experiments}


def _name(experiment: RunConfig) -> str:
    data, words = experiment.bags, [experiment.method]
    words += [f"{option}-{value}" for option, value in experiment.method_options.items()]
    words += [experiment.recipe] if experiment.recipe != "paper" else []
    patience = experiment.settings.get("training.patience")
    words += [f"patience-{patience}"] if patience else []
    precision = experiment.settings.get("training.precision")
    words += [precision] if precision else []
    words += [f"seed-{experiment.seed}"] if experiment.seed else []
    return f"{Path(data.source).stem}/{data.scenario}/{'-'.join(words)}/fold{data.fold}"


# ---------------------------------------------------------------------- lines


def raw_line(cell: FinishedCell, device: str) -> dict:
    """The result of a run, with metrics of its training bags."""
    classifier, parts, _ = reopen(cell.folder, device=device)
    outcomes = {part: evaluate(classifier.model, getattr(parts, part), device) for part in PARTS}
    surplus = {
        part: overestimation(outcome.labels.winners, outcome.hard_counts, outcome.true_counts).tolist()
        for part, outcome in outcomes.items()
    }
    line = result_of(cell) | {"train": outcomes["train"].summary(), "overestimation_per_bag": surplus}
    if "mpem" in line:
        file = np.load(cell.folder / STAGES / f"r{line['mpem']['r']}" / LEFT_OUT)
        line["left_out"] = count_left_out(parts.train, file["candidates"], file["left_out"])
    return line


def count_left_out(train: Bags, candidates: np.ndarray, left_out: np.ndarray) -> dict[str, float | None]:
    """The number of instances that were left out; the share of them that are not of the bag's class; the same share of
    the candidates, and of all instances."""
    other = train.instance_labels != np.repeat(train.labels, train.sizes)

    def share_in(chosen: np.ndarray) -> float | None:
        return float(other[chosen].mean()) if chosen.any() else None

    return {
        "instances": int(left_out.sum()),
        "share_not_of_label": share_in(left_out),
        "share_not_of_label_candidates": share_in(candidates),
        "share_not_of_label_all": float(other.mean()),
    }


# ---------------------------------------------------------------------- table and plot of the overestimation


def write_overestimation(out: Path) -> None:
    """overestimation.csv and overestimation.svg beside OUT: the paper's box plot, on training and on test bags.

    The bags of several folds are pooled; `folds` says which. The plot is drawn when all its cells have a line.
    """
    groups = _surplus_by_cell(out)
    rows = []
    for names, lines in groups.items():
        folds = " ".join(str(line["fold"]) for line in lines)
        for part in PARTS:
            surplus = _pooled(lines, part)
            figures = (surplus.mean(), *np.quantile(surplus, (0, 0.25, 0.5, 0.75, 1)))
            rows.append((*names, folds, part, len(surplus), *(f"{figure:.2f}" for figure in figures)))
    head = ("source", "scenario", "cell", "folds", "part", "bags", "mean", "min", "q25", "median", "q75", "max")
    write_csv(out.with_name("overestimation.csv"), [head, *sorted(rows)])
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


class Box(NamedTuple):
    name: str
    n: int
    quantiles: tuple[float, ...]  # minimum, first quartile, median, third quartile, maximum

    @classmethod
    def from_values(cls, name: str, values: np.ndarray) -> Box:
        """
        >>> Box.from_values("all", np.array([-4, 0, 1, 2, 6]))
        Box(name='all', n=5, quantiles=(-4.0, 0.0, 1.0, 2.0, 6.0))
        """
        return cls(name, len(values), tuple(np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()))


def box_plot(boxes: Sequence[Box], label: str) -> str:
    """One horizontal box per row; whiskers reach to the minimum and the maximum. `label` is written below the axis."""
    names = [box.name for box in boxes]
    width, n = 480, len(boxes)
    ticks = nice_ticks(min(0, *(b.quantiles[0] for b in boxes)), max(0, *(b.quantiles[-1] for b in boxes)))
    rows = slots(n)[::-1]  # the first one on top
    axes = Axes(12 + text_width(names, 12), width - 52, 8, 8 + BOX_ROW * n, (ticks[0], ticks[-1]), rows)
    parts = axes.vertical_grid(((tick, f"{tick:g}") for tick in ticks), zero=FAINT)
    for row, box in enumerate(boxes):
        y = axes.y(row)
        low, first, median, third, high = map(axes.x, box.quantiles)
        values = "lowest {:g}, quartiles {:g}, {:g}, {:g}, highest {:g}".format(*box.quantiles)
        name = text(names[row], x=axes.left - 8, y=y + 4, text_anchor="end", fill=INK)
        parts += [
            tag("g", tooltip(box.name), name),
            text(f"n={box.n}", x=axes.right + 6, y=y + 4, fill=FAINT, font_size=11),
            tag(
                "g",
                tooltip(f"{box.name}: {values}"),
                tag("line", x1=low, x2=high, y1=y, y2=y, stroke=INK),
                *(tag("line", x1=x, x2=x, y1=y - 4, y2=y + 4, stroke=INK) for x in (low, high)),
                tag("rect", x=first, y=y - 7, width=max(third - first, 1), height=14, fill="#cfe3f3", stroke=INK),
                tag("line", x1=median, x2=median, y1=y - 7, y2=y + 7, stroke="#d55e00", stroke_width=3),
            ),
        ]
    parts.append(text(label, x=width / 2, y=axes.bottom + 34, text_anchor="middle", fill=FAINT))
    return svg(width, axes.bottom + 40, parts, f"box plot: {label}", font_size=12)


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


def main() -> None:
    parser = make_parser(__doc__)
    add_training_options(parser, "runs/paper")
    parser.add_argument("--blocks", default=",".join(BLOCKS))
    parser.add_argument("--only", default="", metavar="REGEX", help="cells whose name this matches, such as /additive/")
    parser.add_argument("--limit", type=int, default=None, help="largest number of cells to run")
    parser.add_argument("--tiny", action="store_true", help="to test the code: digits, an mlp, 8 bags of 8, 2 epochs")
    options = parser.parse_args()
    blocks = options.blocks.split(",")
    if not set(blocks) <= set(BLOCKS):
        parser.error(f"--blocks {options.blocks}: choose from {','.join(BLOCKS)}")
    cells = {name: one for block in blocks for name, one in cells_of(block, options.tiny).items()}
    cells = {name: one for name, one in cells.items() if re.search(options.only, name)}

    def line_of(cell: FinishedCell) -> dict:
        return raw_line(cell, options.device) | {"side_by_side": options.jobs}

    missing = [name for name in cells if name not in finished(options.out)]
    print(f"{len(missing)} of {len(cells)} cells to run", flush=True)
    if options.minutes != 0:
        train({name: cells[name] for name in missing[: options.limit]}, options, line_of)
    write_overestimation(options.out)
    write_tables(options.out.parent)


if __name__ == "__main__":
    main()
