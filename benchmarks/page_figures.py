"""The figures in the tables of pages, from raw files. A page keeps the names of its rows; see benchmarks/pages.py."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import product
from pathlib import Path

import pandas as pd
from helpers import SCENARIOS, mean_and_sd, read_raw
from paper_values import printed_accuracy, printed_consistency

RESULTS = Path(__file__).parents[1] / "results"
FAIR = range(2, 5)  # folds that no choice was made on
SETS = {"cifar10": "cifar10", "svhn28": "svhn", "pathmnist": "pathmnist"}  # and the set in the paper
HEADS = ("count", "soft-count", "count-only", "log-mean", "adjusted-mean", "vote", "naive", "proportion", "supervised")
MAIN = ("count", "soft-count", "output-mean", "log-mean")

Rows = list[list[str | None]]  # the last columns of each row; None: not a figure of a raw file


@cache
def read(file: str) -> list[dict]:
    """The lines of a raw file, with the test figures beside the names of the run."""
    if file.endswith(".csv"):
        return pd.read_csv(RESULTS / file).to_dict("records")
    lines = read_raw(RESULTS / file)
    return [line | line["test"] if isinstance(line.get("test"), dict) else line for line in lines]


def values(file: str, figure: str = "instance_accuracy", **wanted: object) -> list[float]:
    """The figure of the lines that have what is wanted; a wanted collection holds several values."""

    def fits(line: dict, name: str) -> bool:
        choice = wanted[name]
        return line.get(name) in choice if isinstance(choice, list | tuple | range) else line.get(name) == choice

    return [float(line[figure]) for line in read(file) if all(fits(line, name) for name in wanted)]


def mean(found: Iterable[float], digits: int = 3) -> str:
    found = list(found)
    return f"{mean_and_sd(found)[0]:.{digits}f}" if found else "not run"


def spread(found: Iterable[float], digits: int = 3) -> str:
    found = list(found)
    return "{:.{d}f} ± {:.{d}f}".format(*mean_and_sd(found), d=digits) if found else "not run"


def by_scenario(file: str, **wanted: object) -> list[str | None]:
    return [spread(values(file, scenario=scenario, **wanted)) for scenario in SCENARIOS]


def census(source: str, line: str = "census", folds: Iterable[int] = FAIR) -> list[str | None]:
    return by_scenario("census/runs.jsonl", source=source, line=line, fold=list(folds))


def digits(method: str, folds: Iterable[int] = FAIR) -> list[str | None]:
    return by_scenario("digits/results.jsonl", method=method, fold=list(folds))


def vectors(source: str, recipe: str) -> list[str | None]:
    return by_scenario("recipes/vectors.jsonl", source=source, recipe=recipe)


def images(file: str, source: str, recipe: str) -> str:
    found = values(f"recipes/{file}.jsonl", source=source, recipe=recipe)
    return spread(found) if len(found) == 3 else "not run"


def full_length(source: str, name: str, figure: str = "instance_accuracy") -> list[list[float]]:
    """By scenario: the cells of the paper's protocol with this name, at full length."""
    prefix = Path(source).stem
    cells = {scenario: f"{prefix}/{scenario}/{name}/fold" for scenario in SCENARIOS}
    lines = read("paper/paper-1500-epochs.jsonl")
    return [[line[figure] for line in lines if line["cell"].startswith(cell)] for cell in cells.values()]


def printed(method: str, source: str) -> str:
    found = [printed_accuracy(method, scenario, source) for scenario in SCENARIOS]
    return "not in the paper" if found[0] is None else ", ".join(f"{value:.3f}" for value in found)


# ---------------------------------------------------------------------- pages


def of_readme() -> Iterator[tuple[str, Rows]]:
    rows = [digits("count"), census("digits"), census("digits", "supervised"), *map(census, SETS)]
    yield "| Data, training |", rows
    rows = []
    for method in MAIN[:3]:
        theirs = printed(method, "cifar10").split(", ")
        rows.append([f"{spread(a)} ({b})" for a, b in zip(full_length("cifar10", method), theirs, strict=True)])
    yield "| Method |", rows


def of_what_to_expect() -> Iterator[tuple[str, Rows]]:
    rows: Rows = [census("digits", folds=range(5)), digits("adjusted-mean", range(5))]
    rows += [vectors(source, recipe) for source in ("digits", "pathmnist") for recipe in ("census", "quick")]
    rows += [[images("images-patches", "pathmnist", recipe), None, None] for recipe in ("census", "quick")]
    rows.append([spread(values("embed/runs.jsonl", method="auto")), None, None])
    yield "| Data | Training bags |", [[*row, None] for row in rows]
    yield "| Data (400 training bags", [[*census(source), None] for source in SETS]


def of_digits() -> Iterator[tuple[str, Rows]]:
    methods = (*HEADS[:7], "output-mean", "feature-mean", "feature-max", "feature-pnorm", "feature-lse", "attention")
    methods += ("additive", *HEADS[7:])
    figures = {"instance_accuracy": 3, "bag_accuracy": 3, "consistency_rate": 3, "overestimation": 1}
    yield (
        "| Scenario |",
        [
            [
                spread(values("digits/results.jsonl", name, scenario=scenario, method=method), n)
                for name, n in figures.items()
            ]
            for scenario, method in product(SCENARIOS, methods)
        ],
    )
    seeds = "seeds/count-digits.jsonl"
    rows: Rows = [[digits("count", range(5))[0]]]
    yield "| Seed |", [*rows, *[[spread(values(seeds, seed=seed))] for seed in (1, 2)]]
    given = [census("digits", line) for line in ("proportion", "supervised")]
    yield "| Folds 2 to 4 |", [digits("count"), digits("adjusted-mean"), census("digits"), [None], *given]
    rows = [digits("log-mean", range(5)), digits("adjusted-mean", range(5)), census("digits", folds=range(5)), [None]]
    yield "| Folds 0 to 4 |", rows


def of_paper() -> Iterator[tuple[str, Rows]]:
    for source, head in {
        "cifar10": "Published: S",
        "pathmnist": "Published, five",
        "svhn28.npz": "Published, 32",
    }.items():
        rows = [[*map(spread, full_length(source, name)), printed(name, Path(source).stem)] for name in MAIN]
        yield f"| Method | Small | Various | Large | {head}", rows
    rows = []
    for name in ("additive", "additive-float32", "feature-mean", "attention"):
        rows.append([*map(mean, full_length("cifar10", name)), printed(name.removesuffix("-float32"), "cifar10")])
    yield "| Method | Small | Various | Large | Published, five folds: Small, Various, Large |#1", rows
    variants = ("count", "count-of-counts", "count-mpem")
    yield (
        "| Method | Small | Various | Large |\n",
        [
            [mean(values("paper/paper-1500-epochs.jsonl", cell=f"cifar10/{s}/{name}/fold0")) for s in SCENARIOS]
            for name in variants
        ],
    )
    rates = []
    for name in MAIN:
        theirs = [printed_consistency(name, scenario) for scenario in SCENARIOS]
        shown = "not in the paper" if theirs[0] is None else ", ".join(f"{rate:.3f}" for rate in theirs)
        rates.append([*map(mean, full_length("cifar10", name, "consistency_rate")), shown])
    yield "| Method | Small | Various | Large | Published: Small, Various, Large |#1", rates


def of_census() -> Iterator[tuple[str, Rows]]:
    runs, heads = "census/runs.jsonl", "census/heads.csv"
    early = "paper/paper-patience-50-fold-0.jsonl"
    for number, (source, in_paper) in enumerate(SETS.items()):

        def of(line: str, source: str = source, **more: object) -> list[str | None]:
            return [mean(values(runs, source=source, scenario=s, line=line, **more)) for s in SCENARIOS]

        def of_head(method: str, source: str = source) -> list[str | None]:
            return [mean(values(heads, "mean", source=source, scenario=s, method=method)) for s in SCENARIOS]

        methods = {line["method"] for line in read(early)} - {"proportion", "supervised"}
        cells = {s: [f"{source}/{s}/{method}/fold0" for method in methods] for s in SCENARIOS}
        best = [f"{max(values(early, cell=of_scenario)):.3f}" for of_scenario in cells.values()]
        rows: Rows = [[f"{printed_accuracy('count', s, in_paper):.3f}" for s in SCENARIOS], best]
        rows += [of("augmented"), of("clusters"), of_head("adjusted-mean")]
        rows += [*(of("census", fold=fold) for fold in FAIR), census(source), [None]]
        rows += [of("proportion"), of("supervised"), [None], of_head("supervised")]
        yield f"| | Small | Various | Large |#{number}", rows
    order = ("census", "one-teacher", "teachers", "teacher", "head", "count", "from-scratch")
    of_lines = {(line["line"], line["scenario"]): line for line in read("census/ablation.jsonl")}
    rows = []
    for line in order:
        found = [of_lines[line, scenario] for scenario in SCENARIOS]
        rows.append([f"{one['instance_accuracy']:.3f}, {one['bag_accuracy']:.2f}" for one in found])
    yield "| | Small | Various | Large |#3", rows
    chosen = {"line": "census", "fold": FAIR}
    rows = []
    for source in SETS:
        pairs = []
        for scenario in SCENARIOS:
            of_cell = chosen | {"source": source, "scenario": scenario}
            bags, error = (values(runs, name, **of_cell) for name in ("bag_accuracy_by_count", "calibration_error"))
            pairs.append(f"{mean(bags, 2)}, {mean(error)}")
        rows.append(pairs)
    yield "| | Small: bags, calibration |", rows


def of_losses() -> Iterator[tuple[str, Rows]]:
    cells = list(product(SETS, SCENARIOS))
    yield (
        "| Loss | CIFAR-10 Small |",
        [
            [mean(values("census/heads.csv", "mean", source=source, scenario=s, method=method)) for source, s in cells]
            for method in HEADS
        ],
    )
    matrix = pd.read_csv(RESULTS / "losses/matrix.csv", keep_default_na=False)
    keys = ["set", "scenario", "winner_ratio", "sizes", "fold"]
    table = matrix.pivot(index=keys, columns="method", values="instance_accuracy")
    best = table.drop(columns=["weighted-mean", "auto"]).max(axis=1)
    order = ("adjusted-mean", "log-mean", "soft-count", "count-only", "count", "vote", "naive", "weighted-mean", "auto")
    of_set = table.groupby(level="set").agg(lambda column: mean_and_sd(column)[0])
    rows = []
    for method in order:
        below = best - table[method]
        found = [of_set[method][name] for name in ("crops", "digits", "pathmnist", "cifar10")]
        rows.append([f"{value:.3f}" for value in (*found, table[method].mean(), below.mean(), below.max())])
    yield "| Loss | crops (5 folds) |", rows
    rows = []
    for ratio in (1, 20, 100):
        cells_of_ratio = []
        for scenario in SCENARIOS:
            of_cell = {"winner_ratio": ratio, "scenario": scenario}
            both = [values("losses/offsets.jsonl", class_offsets=given, **of_cell) for given in (False, True)]
            cells_of_ratio.append(", ".join(map(spread, both)) if all(both) else "not run")
        rows.append(cells_of_ratio)
    yield "| Most to least frequent winner |", rows


def of_labels() -> Iterator[tuple[str, Rows]]:
    unlabelled = [("all", 400), ("with", 200), ("without", 200), ("with", 100), ("without", 100), ("with", 40)]
    yield (
        "| Training bags |#0",
        [
            [
                spread(values("labels/unlabelled.jsonl", source="digits", line=line, labelled=labelled, scenario=s))
                for s in SCENARIOS[:2]
            ]
            for line, labelled in (*unlabelled, ("without", 40))
        ],
    )
    kinds = [("census", "auto"), ("quick", "adjusted-mean"), ("quick", "soft-count")]
    rows = []
    for line in ("winner", "top2", "proportion"):
        chosen = [(recipe, "proportion" if line == "proportion" else method) for recipe, method in kinds]
        rows.append([spread(values("labels/top2.jsonl", line=line, recipe=r, method=m)) for r, m in chosen])
    yield "| Labels |", rows
    yield (
        "| Recipe | weights given |",
        [
            [mean(values("labels/weights.jsonl", recipe=recipe, line=line)) for line in ("weighted", "ignored")]
            for recipe in ("quick", "census")
        ],
    )
    yield (
        "| Labelled instances per class |",
        [
            [spread(values("labels/instances.jsonl", recipe=r, per_class=number)) for r in ("census", "quick")]
            for number in (0, 1, 5, 20)
        ],
    )
    for recipe in ("census", "quick"):
        groups = pd.DataFrame(read("labels/refit.jsonl")).query("recipe == @recipe").groupby(["source", "bags"])
        yield (
            f"| Recipe `{recipe}` |",
            [
                [str(len(group)), *(f"{group[name].mean():.3f}" for name in ("split", "refit", "folds"))]
                for _, group in groups
            ],
        )


def of_recipes() -> Iterator[tuple[str, Rows]]:
    yield (
        "| 64 principal components",
        [
            [", ".join(filter(None, vectors(source, recipe))) for recipe in ("quick", "census")]
            for source in ("digits", "svhn28", "pathmnist")
        ],
    )
    for number, file in enumerate(("images-patches", "images-patches-400")):
        sources = ("cifar10", "svhn28.npz", "pathmnist")
        rows = [[images(file, source, recipe) for recipe in ("quick", "census")] for source in sources]
        yield f"| | `quick` | `census` |#{number}", rows


def of_background() -> Iterator[tuple[str, Rows]]:
    rows: Rows = []
    for row in json.loads((RESULTS / "background/digits.json").read_text())["rows"]:
        found = {name: [run[name] for run in row["runs"]] for name in row["mean"]}
        shown = [spread(found[name]) for name in ("instance_accuracy", "voter_accuracy")]
        rows.append([*shown, *(mean(found[name]) for name in ("background_precision", "background_recall"))])
    yield "| Method | Share in bags |", rows
    rows = []
    for case, source in product(("rare", "frequent"), ("pathmnist", "digits", "crops")):
        of_case = {"set": source, "case": case}
        both = ("estimated", "true")
        rows.append([mean(values("background/share.jsonl", condition=one, **of_case)) for one in both])
    yield "| Set | Background |", rows


PAGES = {
    "README.md": of_readme,
    "docs/get-started/what-to-expect.md": of_what_to_expect,
    "docs/benchmarks/digits.md": of_digits,
    "docs/benchmarks/paper.md": of_paper,
    "docs/benchmarks/census.md": of_census,
    "docs/benchmarks/bag-losses.md": of_losses,
    "docs/benchmarks/labels.md": of_labels,
    "docs/benchmarks/recipes.md": of_recipes,
    "docs/benchmarks/background.md": of_background,
}
