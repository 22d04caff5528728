"""Tables and embeddings in bags: the default beside what one would do otherwise, on rows that no bag has.

    OMP_NUM_THREADS=1 python benchmarks/tables.py --data FOLDER --jobs 2 --out results/tables/results.jsonl

FOLDER holds tables.npz (NAME_x, NAME_y), crops.csv, brain.csv and abstracts.npz. Bags of a table have 20 to 80
instances from 60 % of its rows, each row once per bag, by two laws:

majority   the winner has .35 to .6 of a bag (digits-small: up to .4, digits-various: any share), the others share the
           rest at random; some classes win three times as often
dirichlet  the shares are drawn from a Dirichlet distribution in which some classes are three times as common

Every line of OUT is one row of one cell; what has a line is not run again. `--sets`, `--rows` and `--folds` take a
part. tables.md is written beside OUT.
"""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from helpers import bags_of, commit, make_parser, markdown, mean, numbers, tables_of
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegressionCV
from sklearn.metrics import f1_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import majority
from majority import Bags
from majority.data.joining import join
from majority.files import append_line, read_lines

DEVELOPMENT = ("optdigits", "vowel", "vehicle", "soybean", "marketing")
HELD_BACK = ("segment", "shuttle", "dna", "glass", "led7digit", "movement_libras")
NATURAL = ("crops", "brain", "abstracts")
DIGITS = ("digits-small", "digits-various")  # 400 bags
DEVELOPMENT_FOLDS = (0, 1)
FOLDS = 5
LAWS, BAGS = ("majority", "dirichlet"), (100, 400)
SHARES = {"majority": (0.35, 0.6), "digits-small": (0.1, 0.4)}  # of the winner
FIGURES = {"accuracy": 3, "macro_f1": 3, "calibration_error": 3, "cpu_seconds": 1}  # and their digits


class Cell(NamedTuple):
    """Bags to learn from, and instances to classify."""

    bags: Bags
    test: np.ndarray
    true: np.ndarray  # names


class Name(NamedTuple):
    """A cell by its name: a table with a law and a number of bags, or a fold of natural bags."""

    source: str
    law: str = ""
    bags: int = 0
    fold: int = 0

    def __str__(self) -> str:
        return f"{self.source} {self.law} {self.bags}" if self.law else f"{self.source}, fold {self.fold}"

    @property
    def is_development(self) -> bool:
        return self.source in DEVELOPMENT if self.law else self.fold in DEVELOPMENT_FOLDS


def all_cells(sources: list[str], folds: list[int]) -> Iterator[Name]:
    for source in sources:
        if source in NATURAL + DIGITS:
            yield from (Name(source, fold=fold) for fold in folds)
        else:
            yield from (Name(source, law, bags) for law in LAWS for bags in BAGS)


def make(folder: Path, name: Name) -> Cell:
    rng = np.random.default_rng([zlib.crc32(f"{name.source} {name.law}".encode()), name.bags, name.fold])
    if name.source in DIGITS:
        pixels, digits = load_digits(return_X_y=True)
        return drawn_bags((pixels / 16).astype(np.float32), digits.astype(str), name.source, 400, rng)
    if name.law:
        return drawn_bags(*tables_of(folder)[name.source], name.law, name.bags, rng)
    train, val, test = bags_of(name.source, folder).make_parts(folds=FOLDS, fold=name.fold)
    return Cell(join([train, val]), test.instances(), np.array(test.true_classes)[test.instance_labels])


def drawn_bags(instances: np.ndarray, true: np.ndarray, law: str, bags: int, rng: np.random.Generator) -> Cell:
    """Bags of a law; every class wins two of them."""
    classes, codes = np.unique(true, return_inverse=True)
    n = len(classes)
    train, test = np.split(rng.permutation(len(true)), [round(0.6 * len(true))])
    rows = [train[codes[train] == number] for number in range(n)]
    skew = np.geomspace(3, 1, n)[rng.permutation(n)]
    skew /= skew.sum()
    chosen, labels = [], []
    while len(labels) < bags:
        wanted = len(labels) % n if len(labels) < 2 * n else None
        size = int(rng.integers(20, 81))
        if law == "dirichlet":
            shares = rng.dirichlet(0.5 * n * skew)
        else:
            wanted = int(rng.choice(n, p=skew)) if wanted is None else wanted
            share = rng.uniform(*SHARES.get(law, (1 / n, 1)))
            size = min(size, int(len(rows[wanted]) / share))
            shares = np.insert(rng.dirichlet(np.ones(n - 1)) * (1 - share), wanted, share)
        counts = np.minimum(rng.multinomial(size, shares), [len(of_class) for of_class in rows])
        top = np.flatnonzero(counts == counts.max())
        if len(top) == 1 and counts.sum() >= 5 and wanted in (None, top[0]):
            chosen.append(np.concatenate([rng.choice(rows[c], counts[c], replace=False) for c in range(n)]))
            labels.append(top[0])
    index, offsets = np.concatenate(chosen), np.cumsum([0, *map(len, chosen)])
    made = Bags(instances, index, offsets, labels, classes.tolist(), instance_labels=codes[index])
    return Cell(made, instances[test], true[test])


# ---------------------------------------------------------------------- rows

Predicted = tuple[np.ndarray, np.ndarray]  # (n, C) probabilities of test instances, and (C,) names


def naive_forest(cell: Cell) -> Predicted:
    """Each instance has the label of its bag."""
    labels = np.array(cell.bags.classes)[cell.bags.labels]
    forest = RandomForestClassifier(random_state=0).fit(cell.bags.instances(), np.repeat(labels, cell.bags.sizes))
    return forest.predict_proba(cell.test), forest.classes_


def divided_forest(cell: Cell) -> Predicted:
    """Its scores divided by the shares of the labels."""
    scores, classes = naive_forest(cell)
    labels = np.array(cell.bags.classes)[cell.bags.labels]
    scores = scores / np.mean(labels[:, None] == classes, axis=0)
    return scores / scores.sum(axis=1, keepdims=True), classes


def with_all_labels(model: Any) -> Callable[[Cell], Predicted]:
    def predict(cell: Cell) -> Predicted:
        bags = cell.bags
        _, first = np.unique(bags.index, return_index=True)
        model.fit(bags.instances()[first], np.array(bags.true_classes)[bags.instance_labels[first]])
        return model.predict_proba(cell.test), model.classes_

    return predict


def trained(**options: Any) -> Callable[[Cell], Predicted]:
    """By `majority.train`, with all bags in the end."""

    def predict(cell: Cell) -> Predicted:
        bags = cell.bags if options.get("method") == "supervised" else cell.bags.without_instance_labels()
        run = majority.train(bags, verbose=False, refit=True, device="cpu", **options)
        return run.classifier.predict_proba(cell.test), np.array(run.classifier.classes)

    return predict


LOGISTIC = make_pipeline(StandardScaler(), LogisticRegressionCV(Cs=[0.001, 0.01, 0.1, 1], cv=3, max_iter=300))
ROWS: dict[str, Callable[[Cell], Predicted]] = {
    "naive forest": naive_forest,
    "divided forest": divided_forest,
    "forest": trained(recipe="forest"),
    "quick": trained(recipe="quick"),
    "default": trained(),
    "all labels, forest": with_all_labels(RandomForestClassifier(random_state=0)),
    "all labels, logistic": with_all_labels(LOGISTIC),
    "all labels, supervised": trained(method="supervised", recipe="quick"),
}


def figures(cell: Cell, probabilities: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    found, confidence = classes[probabilities.argmax(axis=1)], probabilities.max(axis=1)
    right, bins = found == cell.true, np.minimum((confidence * 10).astype(int), 9)
    gaps = np.abs(np.bincount(bins, confidence) - np.bincount(bins, right)).sum() / len(right)
    macro_f1 = f1_score(cell.true, found, average="macro", zero_division=0)
    named = {"accuracy": right.mean(), "macro_f1": macro_f1, "calibration_error": gaps}
    return {name: round(float(value), 4) for name, value in named.items()}


def measure(folder: Path, name: Name, row: str) -> dict[str, Any]:
    torch.set_num_threads(1)
    cell = make(folder, name)
    start = time.process_time()
    found = figures(cell, *ROWS[row](cell))
    about = {"cell": str(name), "set": name.source, "row": row}
    return about | {"development": name.is_development, "cpu_seconds": round(time.process_time() - start, 1)} | found


def table(lines: list[dict[str, Any]]) -> str:
    """Accuracy of each set, the mean of its cells; then means over all cells of all figures."""
    text = ""
    for title, of in pd.DataFrame(lines).groupby(pd.Series(lines).map(title_of), sort=False):
        shown = of["row"].unique()
        rows = [("accuracy", 3, name, of[of["set"] == name]) for name in of["set"].unique()]
        rows += [(figure, digits, f"mean of cells: {figure}", of) for figure, digits in FIGURES.items()]
        cells = (
            [name, *(mean(part[part["row"] == row][figure].tolist(), digits) for row in shown)]
            for figure, digits, name, part in rows
        )
        text += f"### {title}\n\n{markdown(['test accuracy', *shown], cells)}\n"
    return text


def title_of(line: dict[str, Any]) -> str:
    return "Sets that were developed on" if line["development"] else "Other sets and folds"


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--sets", default=",".join((*DEVELOPMENT, *NATURAL, *DIGITS, *HELD_BACK)))
    parser.add_argument("--folds", type=numbers, default="0-4")
    parser.add_argument("--rows", nargs="+", choices=[*ROWS], default=[*ROWS])
    options = parser.parse_args()
    done = {(line["cell"], line["row"]) for line in (read_lines(options.out) if options.out.exists() else [])}
    about = {"commit": options.commit or commit(), "processors": os.cpu_count()}
    cells = [(cell, row) for row in options.rows for cell in all_cells(options.sets.split(","), options.folds)]
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        missing = [(cell, row) for cell, row in cells if (str(cell), row) not in done]
        for future in as_completed([pool.submit(measure, options.data, *one) for one in missing]):
            append_line(options.out, future.result() | about)
    options.out.with_name("tables.md").write_text(table(read_lines(options.out)))


if __name__ == "__main__":
    main()
