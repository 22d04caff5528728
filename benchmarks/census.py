"""The value of a majority label: census next to trainings that are given more, and the recipe without pretraining.

    python benchmarks/census.py cifar10 --folds 2-4 --out results/census/runs.jsonl

The lines, for --lines:

census      the recipe
top2        the same, given the runner-up of each training bag besides its winner
proportion  the same, given the true proportions of each bag
supervised  the same, given the label of every instance: the upper bound
augmented   the recipe of that name with log-mean, the mean of probabilities: no pretraining, no stages

Each line of OUT is one training; a training that has a line is not run again. summary.csv, heads.csv and the plots
worth-SOURCE.svg are written beside OUT from all lines, also from those that other scripts of earlier commits have
written: clusters (clusters of pretrained features, named by bag labels) and heads (a linear head on these features, for
every bag loss). What the images of a file show is not known, unless --like names a source with such images.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import mean

from helpers import SCENARIOS, add_training_options, make_parser, mean_and_sd, numbers, read_raw, train, write_csv

from majority.nn.methods import AUTO
from majority.run.config import RunConfig
from majority.run.plots.colours import colour
from majority.run.plots.lines import Line, Point, line_plot
from majority.run.study import FinishedCell

HEADS = ("count", "soft-count", "count-only", "log-mean", "adjusted-mean", "vote", "naive", "proportion", "supervised")
PLOTTED = {
    "clusters": "clusters,\nnamed",
    "census": "majorities:\ncensus",
    "top2": "with\nrunners-up",
    "proportion": "proportions",
    "supervised": "all labels",
}


@dataclass(frozen=True)
class Training:
    method: str = AUTO
    recipe: str = "census"
    labels: str | None = None


LINES = {
    "census": Training(),
    "top2": Training(labels="top2"),
    "proportion": Training("proportion"),
    "supervised": Training("supervised"),
    "augmented": Training("log-mean", "augmented"),
}


def write_tables(rows: list[dict], out: Path) -> None:
    groups, methods = defaultdict(list), defaultdict(set)
    for row in rows:
        methods[_cell_and_line(row)].add(row["method"])
    for row in rows:
        # Losses are compared on the same pretrained networks: a cell counts only if all of them were run there.
        if row["line"] == "heads" and not methods[_cell_and_line(row)] >= set(HEADS):
            continue
        groups[row["source"], row["scenario"], row["line"], row["method"]].append(row)
    heads, summary = [], []
    for (source, scenario, line, method), group in sorted(groups.items()):
        folds, seeds = (sorted({row[key] for row in group}) for key in ("fold", "seed"))
        if line in ("heads", "discriminants"):
            name = method if line == "heads" else f"{method} on discriminants"
            heads.append((source, scenario, name, _listed(folds), len(seeds), *_written(*_accuracy(group))))
        if line == "census":
            of = {key[2]: rows for key, rows in groups.items() if key[:2] == (source, scenario) and key[2] != "heads"}
            bounds = [_accuracy(of[name])[0] if name in of else None for name in ("supervised", "clusters")]
            seconds = round(mean(row["seconds"] for row in group))
            summary.append((source, scenario, _listed(folds), *_written(*_accuracy(group), *bounds), seconds))
    write_csv(out / "heads.csv", [("source", "scenario", "method", "folds", "seeds", "mean", "std"), *heads])
    head = ("source", "scenario", "folds", "mean", "std", "ceiling", "floor", "seconds")
    write_csv(out / "summary.csv", [head, *summary])
    draw(groups, out)


def draw(groups: dict, out: Path) -> None:
    """One plot per source with supervised runs; the points of a line are means over the folds that all of them have."""
    for source in {key[0] for key in groups}:
        lines, found = [], {key[2] for key in groups if key[0] == source}
        steps = {step: title for step, title in PLOTTED.items() if step in found}
        for place, scenario in enumerate(SCENARIOS):
            of = {key[2]: rows for key, rows in groups.items() if key[:2] == (source, scenario) and key[2] in steps}
            folds = set.intersection(*({row["fold"] for row in rows} for rows in of.values())) if of else set()
            if folds and "supervised" in of:
                shared = {step: [row for row in rows if row["fold"] in folds] for step, rows in of.items()}
                points = [Point(at, *_accuracy(shared[step])) for at, step in enumerate(steps) if step in of]
                lines.append(Line(scenario.capitalize(), colour(place), points))
        if lines:
            title = f"{source}: labels that training is given"
            drawn = line_plot(list(steps.values()), lines, title, "instance accuracy")
            (out / f"worth-{source}.svg").write_text(drawn)


def _cell_and_line(row: dict) -> tuple:
    return row["source"], row["scenario"], row["fold"], row["line"]


def _listed(folds: list[int]) -> str:
    return " ".join(map(str, folds))


def _accuracy(rows: list[dict]) -> tuple[float, float | None]:
    """Mean and deviation over folds: seeds of one fold are averaged first."""
    folds = defaultdict(list)
    for row in rows:
        folds[row["fold"]].append(row["instance_accuracy"])
    return mean_and_sd(map(mean, folds.values()))


def _written(*figures: float | None) -> list[str]:
    return ["" if figure is None else f"{figure:.6f}" for figure in figures]


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("sources", nargs="*")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS))
    parser.add_argument("--folds", type=numbers, default="2-4")
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--method", default=AUTO, help="of census and top2; auto: several losses")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--like", metavar="SOURCE", help="a known source: images in files are like its images")
    parser.add_argument("--tiny", action="store_true", help="to test the code: 20 bags of 8, recipe quick, 2 epochs")
    add_training_options(parser, "runs/census")
    options = parser.parse_args()
    keys, cells = {}, {}
    choices = product(options.sources, options.scenarios.split(","), options.folds, options.lines.split(","))
    for source, scenario, fold, line in choices:
        training = LINES[line]
        method = options.method if training.method == AUTO else training.method
        bags = {"scenario": scenario, "fold": fold, "labels": training.labels}
        name = f"{Path(source).stem}/{scenario}/{line}-{method}/fold{fold}-seed{options.seed}"
        like = options.like if Path(source).is_file() else None
        more = {"recipe": training.recipe, "seed": options.seed, "like": like}
        tiny = {"bags": 20, "bag_size": 8, "recipe": "quick", "epochs": 2}
        cells[name] = RunConfig.from_options(source, **bags, method=method, **(tiny if options.tiny else more))
        keys[options.work / name] = {"source": Path(source).stem, "line": line}

    def line_of(cell: FinishedCell) -> dict:
        return cell.result | cell.result["test"] | keys[cell.folder]

    train(cells, options, line_of)
    write_tables(read_raw(options.out), options.out.parent)


if __name__ == "__main__":
    main()
