"""The runs of the paper's tables at full length, beside its printed values. They can be stopped and continued.

    nvidia-cuda-mps-control -d  # lets trainings share one GPU well
    python benchmarks/paper.py --jobs 5 --minutes 30 --out results/paper/paper-1500-epochs.jsonl

Cells run in the order of BLOCKS; `--blocks a,c` takes some of them, `--only REGEX` those of a name. Each is one
training of 1,500 epochs, one seed per fold. On one H200 a cell takes 76 s alone, its start included (n = 1);
six side by side took 51 s per cell (n = 31).

Each line of OUT is one finished cell: its result.json, `train` (the same metrics on the
training bags) and `overestimation_per_bag` (instances predicted as the bag's class minus their true number, training
and test bags). Lines of mpem also have `left_out`: the number of training instances that it left out of the count, and
the share that is not of the bag's class among these, among all candidates and among all instances. A cell that has a
line is not run again. tables.md, overestimation.csv and overestimation.svg are written beside OUT; `--minutes 0` only
writes these. Printed figures (benchmarks/paper/) are means of five folds with one seed.

Named sets are found as by the command (MAJORITY_DATA), svhn28.npz and oct_kermany_7801.npz in the current folder.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
from helpers import (
    NOT_RUN,
    SCENARIOS,
    add_training_options,
    finished,
    make_parser,
    markdown,
    mean,
    read_raw,
    result_of,
    spread,
    train,
)

from majority import Bags, evaluate
from majority.nn.methods import METHODS
from majority.predict.metrics import overestimation
from majority.recipes.mpem import LEFT_OUT
from majority.recipes.running import STAGES
from majority.run.config import RunConfig
from majority.run.reopen import reopen
from majority.run.study import FinishedCell

EPOCHS = 1_500
TINY = {"backbone": "mlp", "training.epochs": 2}
MAIN = ("count", "soft-count", "output-mean", "log-mean")
PARTS = {"train": "training", "test": "test"}  # what a line has and how the plot names it
PRINTED = Path(__file__).parent / "paper"
PRINTED_SETS = ("cifar10", "svhn", "pathmnist", "octmnist")
STAND_INS = {"svhn28": "svhn"}  # other versions of a printed set: compared with its printed figures
NOTES = """\
# The published protocol, as far as measured

Mean ± standard deviation over folds. Below each value are the paper's value and our difference from it. An average is
over those of the paper's four data sets that were measured, and is compared with the mean of the paper's values of
these sets; consistency rates are printed only as means of all four.

- Printed figures are means of five folds with one seed: ResNet-18, Adam 3e-4, 1,500 epochs.
- The printed average of Output+Mean, Various, is 0.422, but the mean of its four printed figures is 0.528.
- 'Ours w/o Max class' (count-only) was not printed: it is commented out in the paper's LaTeX, for a scenario that is
  not stated, with 0.415 (cifar10), 0.663 (svhn), 0.646 (pathmnist), 0.660 (octmnist). log-mean has no printed row.
- svhn28 (SVHN at 28x28, 50,000 images) is not the printed SVHN: it is compared with its printed figures. An OCT set
  other than OCTMNIST has no printed figures and is in no average.
"""


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
INSIDE = ["feature-mean", "attention", "additive", "count-only", "adjusted-mean"]
POOLED = ["feature-max", "feature-pnorm", "feature-lse"]
PUBLISHED = {"method_options": {"attention": "published"}}
STOPPED = {"settings": {"training.patience": 300}}
BLOCKS = {
    "a": [Grid(CIFAR, range(5), MAIN)],
    "b": [Grid(PATH_SVHN, range(3), MAIN)],
    "c": [
        Grid(CIFAR, [0], INSIDE),
        Grid(CIFAR, [0], ["additive-transmil"], PUBLISHED),
        Grid(CIFAR, [0], POOLED, STOPPED),
        Grid(CIFAR, [0], ["additive"], {"settings": {"training.precision": "float32"}}, ["large"]),
    ],
    "d": [
        Grid(CIFAR, [0], ["count"], {"method_options": {"of": "counts"}}),
        Grid(CIFAR, [0], ["count"], {"recipe": "mpem", "settings": {"mpem.ratios": (0.3, 0.5, 0.7)}}),
    ],
    "f": [
        Grid(PATH_SVHN, [0], INSIDE),
        Grid(PATH_SVHN, [0], ["additive-transmil"], PUBLISHED),
        Grid(PATH_SVHN, [0], POOLED, STOPPED),
    ],
    "e": [
        Grid(["oct_kermany_7801.npz"], range(3), MAIN),  # split by patient: the file names them
        *(Grid(CIFAR, [0], ["count", "log-mean"], {"seed": seed}) for seed in (1, 2)),
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
    if experiment.recipe != "paper":
        words.append(experiment.recipe)
    if patience := experiment.settings.get("training.patience"):
        words.append(f"patience-{patience}")
    if precision := experiment.settings.get("training.precision"):
        words.append(precision)
    if experiment.seed:
        words.append(f"seed-{experiment.seed}")
    return f"{Path(data.source).stem}/{data.scenario}/{'-'.join(words)}/fold{data.fold}"


# ---------------------------------------------------------------------- lines


def raw_line(cell: FinishedCell, device: str) -> dict:
    """The result of a run, with metrics of its training bags."""
    classifier, parts, _ = reopen(cell.folder, device=device)
    outcomes = {part: evaluate(classifier.model, getattr(parts, part), device) for part in PARTS}
    surplus = {
        part: overestimation(outcome.bags.labels, outcome.counts, outcome.true_counts).tolist()
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


# ---------------------------------------------------------------------- printed values and tables


@cache
def _printed(name: str) -> dict[tuple[str, ...], float]:
    frame = pd.read_csv(PRINTED / f"{name}.csv").drop(columns="printed_as")
    *keys, figure = frame.columns
    return frame.set_index(keys)[figure].to_dict()


def printed_accuracy(method: str, scenario: str, source: str) -> float | None:
    """Instance accuracy (Tables 1 and 2). The source `average` gives the printed average.

    >>> printed_accuracy("count", "large", "svhn28"), printed_accuracy("log-mean", "large", "cifar10")
    (0.847, None)
    """
    return _printed("instance_accuracy").get((method, scenario, STAND_INS.get(source, source)))


def printed_consistency(method: str, scenario: str) -> float | None:
    """Consistency rate, the mean over the four sets (Table 3).

    >>> printed_consistency("count", "small")
    0.963
    """
    return _printed("consistency_rate").get((method, scenario))


def source_of(line: dict) -> str:
    return Path(line["source"]).stem


def write_tables(folder: Path) -> None:
    """FOLDER/tables.md, from its files paper*.jsonl."""
    parts = [NOTES]
    titles = {"instance_accuracy": "Table 1: instance accuracy", "consistency_rate": "Table 3: consistency rate"}
    for (figure, title), file in product(titles.items(), sorted(folder.glob("paper*.jsonl"))):
        lines = read_raw(file)
        for scenario in SCENARIOS:
            found = [line for line in lines if line["scenario"] == scenario and line["test"].get(figure) is not None]
            if found:
                parts.append(f"## {title}, {scenario}, {file.stem}\n\n{_table(found, figure)}")
    (folder / "tables.md").write_text("\n".join(parts))


def _table(lines: list[dict], figure: str) -> str:
    """A row per method and change of it: each source, and the average over the paper's sets."""
    values: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    methods = {}
    for line in lines:
        name = line["cell"].split("/")[2]
        methods[name] = line["method"]
        values[name][source_of(line)].append(line["test"][figure])
    sources, rows = sorted({source_of(line) for line in lines}), []
    for name in sorted(methods, key=lambda name: (list(METHODS).index(methods[name]), name)):
        row, means, printed = [name], [], []
        for source in sources:
            found, theirs = values[name][source], None
            if figure == "instance_accuracy":
                theirs = printed_accuracy(methods[name], lines[0]["scenario"], source)
            row.append(_beside(f"{spread(found)} (n={len(found)})", fmean(found), theirs) if found else NOT_RUN)
            if found and STAND_INS.get(source, source) in PRINTED_SETS:
                means.append(fmean(found))
                printed.append(theirs)
        theirs = fmean(printed) if printed and None not in printed else None
        measured = f"{mean(means)} ({len(means)} of {len(PRINTED_SETS)} sets)"
        rows.append([*row, _beside(measured, fmean(means), theirs) if means else NOT_RUN])
    return markdown(["method", *sources, "average"], rows)


def _beside(measured: str, mean: float, printed: float | None) -> str:
    return measured if printed is None else f"{measured}<br>printed {printed:.3f}, {mean - printed:+.3f}"


# ---------------------------------------------------------------------- table and plot of the overestimation


def write_overestimation(out: Path) -> None:
    """overestimation.csv and overestimation.svg beside OUT: the paper's box plot, on training and on test bags.

    The bags of several folds are pooled; `folds` says which. The methods of MAIN are compared with each other: of them,
    only folds are taken that all of them have in every scenario of a source.
    """
    groups: dict[tuple[str, str, str], dict[int, dict]] = defaultdict(dict)
    for line in read_raw(out):
        if surplus := line.get("overestimation_per_bag"):
            groups[source_of(line), line["scenario"], line["cell"].split("/")[2]][line["fold"]] = surplus
    rows, values = [], {}
    for (source, scenario, name), by_fold in groups.items():
        of_main = [set(each) for (other, _, method), each in groups.items() if other == source and method in MAIN]
        folds = sorted(set(by_fold).intersection(*of_main if name in MAIN else []))
        for part in PARTS if folds else ():
            pooled = np.concatenate([by_fold[fold][part] for fold in folds])
            values[source, scenario, name, part] = pooled
            figures = (pooled.mean(), *np.quantile(pooled, QUANTILES))
            row = source, scenario, name, " ".join(map(str, folds)), part, len(pooled)
            rows.append((*row, *(f"{figure:.2f}" for figure in figures)))
    head = ("source", "scenario", "cell", "folds", "part", "bags", "mean", "min", "q25", "median", "q75", "max")
    pd.DataFrame(sorted(rows), columns=head).to_csv(out.with_name("overestimation.csv"), index=False)
    wanted = [("cifar10", *place) for place in product(SCENARIOS, MAIN, PARTS)]
    if all(place in values for place in wanted):
        boxes = {f"{place[1].capitalize()}, {place[2]}, {PARTS[place[3]]}": values[place] for place in wanted}
        out.with_name("overestimation.svg").write_text(box_plot(boxes), encoding="utf-8")


QUANTILES = (0, 0.25, 0.5, 0.75, 1)
AXIS = "instances predicted as the bag's class minus their true number, per bag"
LEFT, WIDTH, ROW = 210, 560, 22  # pixels


def box_plot(boxes: dict[str, np.ndarray]) -> str:
    """One horizontal box per row; whiskers reach to the minimum and the maximum."""
    every = np.concatenate([*boxes.values()])
    low, high, bottom = every.min(), every.max(), ROW * (len(boxes) + 1)

    def x(value: float) -> float:
        return round(LEFT + (WIDTH - LEFT - 20) * float(value - low) / float(high - low), 1)

    parts = ['<rect width="100%" height="100%" fill="#fff"/>']
    for tick in range(int(low // 20 + 1) * 20, int(high) + 1, 20):
        parts.append(f'<path d="M{x(tick)} {ROW / 2}V{bottom}" stroke="{"#888" if tick == 0 else "#ddd"}"/>')
        parts.append(f'<text x="{x(tick)}" y="{bottom + 16}" text-anchor="middle">{tick}</text>')
    for row, (name, values) in enumerate(boxes.items(), start=1):
        y, (first, q25, median, q75, last) = ROW * row, map(x, np.quantile(values, QUANTILES))
        parts += [
            f'<text x="{LEFT - 8}" y="{y + 4}" text-anchor="end">{name}</text>',
            f'<path d="M{first} {y}H{last}" stroke="#333"/>',
            f'<rect x="{q25}" y="{y - 6}" width="{max(q75 - q25, 1):.1f}" height="12" fill="#cfe3f3" stroke="#333"/>',
            f'<path d="M{median} {y - 6}v12" stroke="#d55e00" stroke-width="3"/>',
        ]
    parts.append(f'<text x="{WIDTH / 2}" y="{bottom + 36}" text-anchor="middle">{AXIS}</text>')
    size = f'viewBox="0 0 {WIDTH} {bottom + 46}" font-family="sans-serif" font-size="12"'
    return "\n".join([f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', *parts, "</svg>\n"])


def main() -> None:
    parser = make_parser(__doc__)
    add_training_options(parser, "runs/paper")
    parser.add_argument("--blocks", default=",".join(BLOCKS))
    parser.add_argument("--only", default="", metavar="REGEX", help="cells whose name this matches, such as /additive/")
    parser.add_argument("--limit", type=int, default=None, help="largest number of cells to run")
    parser.add_argument("--tiny", action="store_true", help="to test the code: digits, an mlp, 8 bags of 8, 2 epochs")
    options = parser.parse_args()
    cells = {name: one for block in options.blocks.split(",") for name, one in cells_of(block, options.tiny).items()}
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
