"""Tables and embeddings in bags: the default beside what one would do otherwise, on rows that no bag has.

    OMP_NUM_THREADS=1 python benchmarks/tables.py --data FOLDER --jobs 2 --out results/tables/results.jsonl
    python benchmarks/tables.py --table --out results/tables/results.jsonl

FOLDER holds tables.npz (NAME_x, NAME_y), crops.csv, brain.csv and abstracts.npz. Every line of OUT is one row of one
cell; what has a line is not run again. `--sets`, `--rows` and `--folds` take a part. `--rename default=before` calls a
row by another name, for a measurement of an earlier version. tables.md is written beside OUT.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np

DEVELOPMENT = ("optdigits", "vowel", "vehicle", "soybean", "marketing")
HELD_BACK = ("segment", "shuttle", "dna", "glass", "led7digit", "movement_libras")
NATURAL = ("crops", "brain", "abstracts")
DIGITS = ("digits-small", "digits-various")
DEVELOPMENT_FOLDS = (0, 1)
FOLDS = 5
LAWS, BAGS = ("majority", "dirichlet"), (100, 400)
SMALLEST_BAG = 4  # instances of a natural bag
NOT_FEATURES = ("bag", "bag_label", "group", "label", "x", "y")


class Cell(NamedTuple):
    """Bags to learn from, and instances to classify."""

    instances: np.ndarray
    index: np.ndarray
    sizes: np.ndarray
    labels: np.ndarray  # (b,) names
    true: np.ndarray  # (N,) names
    test: np.ndarray  # positions of instances that are in no bag

    @property
    def bags(self) -> Any:
        from majority import Bags

        offsets = np.concatenate([[0], np.cumsum(self.sizes)])
        return Bags(self.instances, self.index, offsets, self.labels, instance_labels=self.true[self.index])


class Name(NamedTuple):
    """A cell by its name: a table with a law and a number of bags, or a fold of natural bags."""

    source: str
    law: str = ""
    bags: int = 0
    fold: int = 0

    def __str__(self) -> str:
        return f"{self.source} {self.law} {self.bags}" if self.law else f"{self.source} fold {self.fold}"

    @property
    def is_development(self) -> bool:
        return self.source in DEVELOPMENT if self.law else self.fold in DEVELOPMENT_FOLDS


def all_cells(sources: list[str], folds: list[int]) -> Iterator[Name]:
    for source in sources:
        if source in DEVELOPMENT + HELD_BACK:
            yield from (Name(source, law, bags) for law in LAWS for bags in BAGS)
        else:
            yield from (Name(source, fold=fold) for fold in folds)


# ---------------------------------------------------------------------- bags


@cache
def read(folder: Path, source: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Instances, classes, and, of natural bags, bags and groups."""
    if source.startswith("digits"):
        from sklearn.datasets import load_digits

        digits = load_digits()
        return (digits.data / 16).astype(np.float32), digits.target.astype(str), np.empty(0), np.empty(0)
    if source in NATURAL and source != "abstracts":
        with (folder / f"{source}.csv").open() as file:
            rows = list(csv.DictReader(file))
        columns = [name for name in rows[0] if name not in NOT_FEATURES]
        instances = np.array([[float(row[name]) for name in columns] for row in rows], np.float32)
        label, bag, group = (np.array([row[name] for row in rows]) for name in ("label", "bag", "group"))
        return instances, label, bag, group
    with np.load(folder / ("abstracts.npz" if source == "abstracts" else "tables.npz")) as file:
        if source == "abstracts":
            return file["features"].astype(np.float32), file["label"].astype(str), file["bag"], file["bag"]
        return file[f"{source}_x"].astype(np.float32), file[f"{source}_y"].astype(str), np.empty(0), np.empty(0)


def make(folder: Path, name: Name) -> Cell:
    instances, true, bag, group = read(folder, name.source)
    if name.source in NATURAL:
        return natural_bags(instances, true, bag, group, name.fold)
    rng = np.random.default_rng([zlib.crc32(f"{name.source} {name.law}".encode()), name.bags, name.fold])
    law = name.law or name.source
    return drawn_bags(instances, true, law, name.bags or 400, rng)


def drawn_bags(instances: np.ndarray, true: np.ndarray, law: str, bags: int, rng: np.random.Generator) -> Cell:
    """Bags of 20 to 80 instances, drawn from 60 % of the rows; no row is twice in a bag. Every class wins two bags.

    majority   the winner has .35 to .6 of a bag, the others share the rest at random (digits-small: less than .4;
               digits-various: any share); some classes win three times as often as others
    dirichlet  the shares are drawn from a Dirichlet distribution in which some classes are three times as common
    """
    classes, codes = np.unique(true, return_inverse=True)
    n = len(classes)
    order = rng.permutation(len(true))
    train, test = np.split(order, [round(0.6 * len(true))])
    rows = [train[codes[train] == number] for number in range(n)]
    skew = np.geomspace(3, 1, n)[rng.permutation(n)]
    skew /= skew.sum()
    low, high = {"digits-small": (1 / n, 0.4), "digits-various": (1 / n, 1.0)}.get(law, (0.35, 0.6))
    chosen, labels = [], []
    while len(labels) < bags:
        wanted = len(labels) % n if len(labels) < 2 * n else None
        size = int(rng.integers(20, 81))
        if law == "dirichlet":
            shares = rng.dirichlet(0.5 * n * skew)
        else:
            winner = wanted if wanted is not None else int(rng.choice(n, p=skew))
            share = rng.uniform(low, high)
            size = min(size, int(len(rows[winner]) / share))
            shares = np.insert(rng.dirichlet(np.ones(n - 1)) * (1 - share), winner, share)
        counts = np.minimum(rng.multinomial(size, shares), [len(of_class) for of_class in rows])
        top = np.flatnonzero(counts == counts.max())
        expected = wanted if law == "dirichlet" else winner
        if len(top) > 1 or counts.sum() < 5 or expected not in (None, top[0]):
            continue
        chosen.append(np.concatenate([rng.choice(rows[c], counts[c], replace=False) for c in range(n)]))
        labels.append(top[0])
    sizes = np.array([len(bag) for bag in chosen])
    return Cell(instances, np.concatenate(chosen), sizes, classes[labels], true, test)


def natural_bags(instances: np.ndarray, true: np.ndarray, bag: np.ndarray, group: np.ndarray, fold: int) -> Cell:
    """The bags with one winner. The bags of one in five groups, at random, are for the test."""
    classes, codes = np.unique(true, return_inverse=True)
    numbers, groups = (np.unique(column, return_inverse=True)[1] for column in (bag, group))
    part = (np.random.default_rng(0).permutation(groups.max() + 1) % FOLDS)[groups]
    counts = np.zeros((numbers.max() + 1, len(classes)), int)
    np.add.at(counts, (numbers, codes), 1)
    ordered = np.sort(counts, axis=1)
    is_bag = (counts.sum(axis=1) >= SMALLEST_BAG) & (ordered[:, -1] > ordered[:, -2])
    in_test = np.zeros(len(counts), bool)
    in_test[numbers[part == fold]] = True
    rows = [np.flatnonzero(numbers == number) for number in np.flatnonzero(is_bag & ~in_test)]
    labels = classes[counts[is_bag & ~in_test].argmax(axis=1)]
    test = np.flatnonzero((is_bag & in_test)[numbers])
    return Cell(instances, np.concatenate(rows), np.array([len(one) for one in rows]), labels, true, test)


# ---------------------------------------------------------------------- rows

Predicted = tuple[np.ndarray, np.ndarray]  # (n, C) probabilities of test instances, and (C,) names


def naive_forest(cell: Cell) -> Predicted:
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(random_state=0).fit(cell.instances[cell.index], np.repeat(cell.labels, cell.sizes))
    return forest.predict_proba(cell.instances[cell.test]), forest.classes_


def divided_forest(cell: Cell) -> Predicted:
    """Its scores divided by the shares of the labels."""
    scores, classes = naive_forest(cell)
    shares = np.array([(cell.labels == name).mean() for name in classes])
    return scores / shares / (scores / shares).sum(axis=1, keepdims=True), classes


def linear(cell: Cell) -> Predicted:
    """The linear model of the default alone, with the loss and the ridge that a quarter of the bags choose."""
    import torch

    from majority.data.segments import Segments
    from majority.recipes.census.members import RIDGES, Known, fit_linear, predict_linear
    from majority.recipes.census.pooling import LabelledRows, log_likelihoods

    classes, labels = np.unique(cell.labels, return_inverse=True)
    drawn = cell.instances[cell.index]
    mean, deviation = drawn.mean(axis=0), drawn.std(axis=0)
    deviation[deviation < 1e-6] = 1
    rows, ids = torch.from_numpy((drawn - mean) / deviation), np.repeat(np.arange(len(labels)), cell.sizes)
    held_out = np.random.default_rng(0).permutation(len(labels)) % 4 == 0

    def known(which: np.ndarray) -> Known:
        part = torch.from_numpy(which[ids])
        return Known(rows[part], Segments(cell.sizes[which]), torch.from_numpy(labels[which]), len(classes))

    judged, best = known(held_out), {}
    for loss in ("vote", "soft-count"):
        for ridge, weights in zip(RIDGES, fit_linear(known(~held_out), loss), strict=True):
            labelled = LabelledRows(torch.arange(len(judged.instances)), judged.segments, judged.labels)
            found = log_likelihoods(predict_linear(weights, judged.instances), labelled, 0.1)
            best[loss, ridge] = float(found.sum())
    loss, ridge = max(best, key=lambda one: best[one])
    weights = fit_linear(known(np.ones(len(labels), bool)), loss, [ridge])[0]
    test = torch.from_numpy((cell.instances[cell.test] - mean) / deviation)
    return predict_linear(weights, test).numpy(), classes


def with_all_labels(make_model: Callable[[], Any]) -> Callable[[Cell], Predicted]:
    def predict(cell: Cell) -> Predicted:
        rows = np.unique(cell.index)
        model = make_model().fit(cell.instances[rows], cell.true[rows])
        return model.predict_proba(cell.instances[cell.test]), model.classes_

    return predict


def forest_model() -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=0)


def logistic_model() -> Any:
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=[0.001, 0.01, 0.1, 1], cv=3, max_iter=300))


def trained(**options: Any) -> Callable[[Cell], Predicted]:
    """By `majority.train`, with all bags in the end."""

    def predict(cell: Cell) -> Predicted:
        import majority

        bags = cell.bags
        known = options.get("method") == "supervised"
        classifier = majority.train(
            bags if known else bags.without_instance_labels(), verbose=False, refit=True, device="cpu", **options
        ).classifier
        return classifier.predict_proba(cell.instances[cell.test]), classifier.classes

    return predict


ROWS: dict[str, Callable[[Cell], Predicted]] = {
    "naive forest": naive_forest,
    "divided forest": divided_forest,
    "forest": trained(recipe="forest"),
    "linear": linear,
    "quick": trained(recipe="quick"),
    "default": trained(),
    "all labels, forest": with_all_labels(forest_model),
    "all labels, logistic": with_all_labels(logistic_model),
    "all labels, supervised": trained(method="supervised", recipe="quick"),
}
BEFORE = "before"  # the default of an earlier version


def figures(cell: Cell, predicted: Predicted) -> dict[str, float]:
    from sklearn.metrics import f1_score

    probabilities, classes = predicted
    true, found, confidence = cell.true[cell.test], classes[probabilities.argmax(axis=1)], probabilities.max(axis=1)
    bins = np.minimum((confidence * 10).astype(int), 9)
    gaps = [
        (bins == one).mean() * abs(confidence[bins == one].mean() - (found == true)[bins == one].mean())
        for one in np.unique(bins)
    ]
    named = {"accuracy": (found == true).mean(), "macro_f1": f1_score(true, found, average="macro", zero_division=0)}
    return {name: round(float(value), 4) for name, value in (named | {"calibration_error": sum(gaps)}).items()}


def measure(folder: Path, name: Name, row: str) -> dict[str, Any]:
    import torch

    torch.set_num_threads(1)
    cell = make(folder, name)
    start, wall = time.process_time(), time.perf_counter()
    predicted = ROWS[row](cell)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    about = {"cell": str(name), "set": name.source, "development": name.is_development, "row": row}
    about |= {"instances": len(cell.index), "columns": cell.instances.shape[1], "bags": len(cell.sizes)}
    return about | figures(cell, predicted) | {"cpu_seconds": round(seconds, 1), "seconds": round(wall, 1)}


# ---------------------------------------------------------------------- the table


def table(lines: list[dict[str, Any]], rows: list[str]) -> str:
    """Accuracy of each set, the mean of its cells; then means over all cells of all figures."""
    text = []
    for title, part in (("Sets that were developed on", True), ("Other sets and folds", False)):
        found = [line for line in lines if line["development"] is part]
        if not found:
            continue
        shown = [row for row in rows if any(line["row"] == row for line in found)]
        text += [
            f"### {title}",
            "",
            f"| test accuracy | cells | {' | '.join(shown)} |",
            "|---" * (len(shown) + 2) + "|",
        ]
        sets = list(dict.fromkeys(line["set"] for line in found))
        for one in sets:
            cells = len({line["cell"] for line in found if line["set"] == one})
            text.append(f"| {one} | {cells} | {' | '.join(_mean(found, 'accuracy', row, one) for row in shown)} |")
        for figure, digits in (("accuracy", 3), ("macro_f1", 3), ("calibration_error", 3), ("cpu_seconds", 1)):
            means = [_mean(found, figure, row, None, digits) for row in shown]
            text.append(f"| mean of cells: {figure.replace('_', ' ')} | | {' | '.join(means)} |")
        text.append("")
    return "\n".join(text)


def _mean(lines: list[dict[str, Any]], figure: str, row: str, one: str | None, digits: int = 3) -> str:
    values = [line[figure] for line in lines if line["row"] == row and one in (None, line["set"])]
    return f"{fmean(values):.{digits}f}" if values else ""


# ---------------------------------------------------------------------- the command


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sets", default=",".join((*DEVELOPMENT, *NATURAL, *DIGITS, *HELD_BACK)))
    parser.add_argument("--folds", default="0,1,2,3,4")
    parser.add_argument("--rows", default=",".join(f'"{row}"' for row in ROWS), help="names in quotes, by commas")
    parser.add_argument("--rename", default="", help="ROW=NAME: how a row is called in OUT")
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    parser.add_argument("--minutes", type=float, default=None, help="start no more rows after that")
    parser.add_argument("--table", action="store_true", help="only write the table")
    options = parser.parse_args()
    lines = []
    if options.out.exists():
        lines = [json.loads(line) for line in options.out.read_text().splitlines() if line.endswith("}")]
    if not options.table:
        lines += run(options, {(line["cell"], line["row"]) for line in lines})
    rows = [*ROWS]
    rows.insert(rows.index("default"), BEFORE)
    (options.out.parent / "tables.md").write_text(table(lines, rows))


def run(options: argparse.Namespace, finished: set[tuple[str, str]]) -> list[dict[str, Any]]:
    """The lines of what has none, the longest first. They are appended to OUT."""
    rows = next(csv.reader([options.rows]))
    names = dict([options.rename.split("=")]) if options.rename else {}
    cells = list(all_cells(options.sets.split(","), [int(fold) for fold in options.folds.split(",")]))
    missing = [(cell, row) for row in rows for cell in cells if (str(cell), names.get(row, row)) not in finished]
    about = {"commit": options.commit or commit(), "processors": os.cpu_count()}
    end = time.monotonic() + 60 * options.minutes if options.minutes else float("inf")
    lines = []
    with ProcessPoolExecutor(options.jobs, max_tasks_per_child=None) as pool, options.out.open("a") as file:
        started = {}
        queue = iter(missing)
        while True:
            while len(started) < options.jobs and time.monotonic() < end and (one := next(queue, None)):
                started[pool.submit(measure, options.data, *one)] = one
            if not started:
                return lines
            future = next(as_completed(started))
            cell, row = started.pop(future)
            if future.exception() is not None:
                print(f"{cell}, {row}: {future.exception()!r}", flush=True)
                continue
            line = future.result() | {"row": names.get(row, row)} | about
            file.write(json.dumps(line) + "\n")
            file.flush()
            lines.append(line)
            print(f"{cell}, {line['row']}: {line['accuracy']:.3f}, {line['cpu_seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
