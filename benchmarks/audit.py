"""Audits of classifiers whose accuracy is known: coverage and width of the intervals, bias, class shares, calibration.

    python benchmarks/audit_cells.py DATA --cells CELLS
    python benchmarks/audit.py CELLS --out results/audit

Each cell is sampled 1,000 times with 30, 50, 100 and 200 labels. `ratio`: mean half-width per that of simple random
sampling with Wilson's interval. Class shares and calibration are over 100 of these samples. Calibration error: mean
over 15 bins of equal width, of all instances. The design and the constants of the interval were chosen on the
`development` cells and not on the `other` ones (OTHER); the loss of the temperature on every third cell of both.

    python benchmarks/audit.py --summarise --out results/audit     # the table of the raw file that is there
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from helpers import commit

from majority.predict.audit import Design, Sample, class_shares, expected_right, fit_temperature, with_temperature
from majority.predict.audit_interval import error_interval
from majority.predict.metrics import calibration_error, calibration_table

LABELS, DRAWS, FEW = (30, 50, 100, 200), 1_000, 100
Z = 1.959964
OTHER = ("cifar10", "nuclei")  # all their cells, and these:
OTHER_CELLS = (
    "brain-1",
    "brain-3",
    "pathmnist-large-100-ragged",
    "pathmnist-large-4-ragged",
    "pathmnist-small-100-ragged",
    "pathmnist-small-4-ragged",
    "pathmnist-various-100-equal",
    "pathmnist-various-4-equal",
    "traps-0",
    "traps-2",
    "traps-4",
)
ACCURACY = ("coverage", "half_width", "ratio", "bias", "simulation_error")


def wilson_half_width(wrong: int, total: int, labels: int, rng: np.random.Generator) -> float:
    share = rng.hypergeometric(wrong, total - wrong, labels, size=20_000) / labels
    widths = Z * np.sqrt(share * (1 - share) / labels + (Z / 2 / labels) ** 2) / (1 + Z**2 / labels)
    return float(widths.mean())


def accuracy_row(design: Design, wrong: np.ndarray, labels: int, rng: np.random.Generator, draws: int) -> dict:
    sizes, each = design.sizes, labels // len(design.sizes)
    of_stratum = np.bincount(design.stratum, wrong).astype(int)
    taken = np.minimum(each, sizes)
    errors = np.stack(
        [rng.hypergeometric(w, s - w, t, draws) for w, s, t in zip(of_stratum, sizes, taken, strict=True)], 1
    )
    rows, inverse = np.unique(errors, axis=0, return_inverse=True)
    ends = error_interval(rows, taken, design.weights, design.expected, grid=512)[inverse.ravel()]
    truth, estimates = wrong.mean(), errors / taken @ design.weights
    half = (ends[:, 1] - ends[:, 0]).mean() / 2
    return {
        "coverage": np.mean((ends[:, 0] <= truth) & (truth <= ends[:, 1])),
        "half_width": half,
        "ratio": half / wilson_half_width(int(wrong.sum()), len(wrong), labels, rng),
        "bias": truth - estimates.mean(),
        "simulation_error": estimates.std() / np.sqrt(draws),
    }


def shares_row(design: Design, probabilities: np.ndarray, true: np.ndarray, labels: int, draws: int) -> dict:
    classes = probabilities.shape[1]
    predicted, true = probabilities.argmax(axis=1), np.minimum(true, classes)
    naive, actual = (np.bincount(of, minlength=classes + 1) / len(true) for of in (predicted, true))
    shares, covered, after = [], [], []
    for seed in range(draws):
        drawn = Design(design.stratum, design.expected, seed).draw(labels)
        strata = design.stratum[drawn]
        sample = Sample(
            strata, true[drawn], probabilities[drawn], design.sizes, design.expected,
            naive[:-1], probabilities.mean(axis=0), float(probabilities.max(axis=1).mean()),
        )  # fmt: skip
        found = class_shares(sample)
        shares.append(np.abs([one.value for one in found] - actual).mean())
        covered.append(np.mean([one.low <= share <= one.high for one, share in zip(found, actual, strict=True)]))
        weights = (design.weights / np.bincount(strata, minlength=len(design.sizes)))[strata]
        temperature = fit_temperature(probabilities[drawn], true[drawn], weights)
        after.append(error_of(with_temperature(probabilities, temperature), true))
    return {
        "naive_share_error": np.abs(naive - actual).mean(),
        "share_error": np.mean(shares),
        "share_coverage": np.mean(covered),
        "calibration_before": error_of(probabilities, true),
        "calibration_after": np.mean(after),
    }


def error_of(probabilities: np.ndarray, true: np.ndarray) -> float:
    return float(calibration_error(calibration_table(probabilities.max(axis=1), probabilities.argmax(axis=1) == true)))


def cell_rows(path: Path, draws: int, kept: list[dict]) -> list[dict]:
    with np.load(path) as arrays:
        probabilities, true, bag = arrays["probabilities"].astype(float), arrays["true"], arrays["bag"]
        labels_of_bags = arrays["label"]
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    design, wrong = Design.of(expected_right(probabilities, bag, labels_of_bags)), probabilities.argmax(axis=1) != true
    rows = []
    for labels in LABELS:
        rng = np.random.default_rng([labels, len(true)])
        row = {"cell": path.stem, "instances": len(true), "accuracy": 1 - wrong.mean(), "labels": labels}
        same = [old for old in kept if old["cell"] == path.stem and int(old["labels"]) == labels]
        if same:
            row |= {name: float(same[0][name]) for name in ACCURACY}
        else:
            row |= accuracy_row(design, wrong, labels, rng, draws)
        if labels in (50, 100):
            row |= shares_row(design, probabilities, true, labels, FEW)
        rows.append({name: round(float(v), 5) if isinstance(v, float) else v for name, v in row.items()})
    return rows


def summary(rows: list[dict]) -> dict:
    of = {n: [row for row in rows if row["labels"] == n] for n in LABELS}
    values = lambda n, name: np.array([row[name] for row in of[n]], float)  # noqa: E731
    before, after = values(50, "calibration_before"), values(50, "calibration_after")
    naive, corrected = values(100, "naive_share_error"), values(100, "share_error")
    return {
        "cells": len(of[50]),
        "least_coverage": {n: float(values(n, "coverage").min()) for n in LABELS},
        "mean_coverage": {n: round(float(values(n, "coverage").mean()), 4) for n in LABELS},
        "cells_below_.93": {n: int((values(n, "coverage") < 0.93).sum()) for n in LABELS},
        "mean_ratio_50": round(float(values(50, "ratio").mean()), 3),
        "greatest_ratio_50": round(float(values(50, "ratio").max()), 3),
        "cells_ratio_above_.9": int((values(50, "ratio") > 0.9).sum()),
        "greatest_bias": {n: round(float(np.abs(values(n, "bias")).max()), 4) for n in LABELS},
        "naive_share_error": round(float(naive.mean()), 4),
        "share_error_100": round(float(corrected.mean()), 4),
        "share_coverage_100": round(float(values(100, "share_coverage").mean()), 3),
        "cells_half_of_naive": int((corrected <= naive / 2).sum()),
        "calibration_before": round(float(before.mean()), 4),
        "calibration_after_50": round(float(after.mean()), 4),
        "cells_worse_by_.01": int((after > before + 0.01).sum()),
    }


def table(found: dict) -> str:
    """The summary as Markdown."""
    parts = [found[part] for part in ("development", "other", "all")]
    lines = ["| | development | other | all |", "|---|---|---|---|"]

    def add(title: str, *names: str, form: str = "{}", labels: str = "") -> None:
        cells = [", ".join(form.format(of[name][labels] if labels else of[name]) for name in names) for of in parts]
        lines.append(f"| {title} | {' | '.join(cells)} |")

    add("cells", "cells")
    for labels in map(str, LABELS):
        title = f"coverage of the 95 % interval, {labels} labels: least, mean"
        add(title, "least_coverage", "mean_coverage", form="{:.3f}", labels=labels)
    title = "half-width at 50 labels per that of simple random sampling: mean, greatest"
    add(title, "mean_ratio_50", "greatest_ratio_50", form="{:.3f}")
    add("cells in which it is above 0.9", "cells_ratio_above_.9")
    add("mean error of a class share, by count", "naive_share_error", form="{:.4f}")
    add("the same, 100 labels", "share_error_100", form="{:.4f}")
    add("coverage of the intervals of class shares, 100 labels: mean", "share_coverage_100", form="{:.3f}")
    add("calibration error before", "calibration_before", form="{:.4f}")
    add("with the temperature from 50 labels", "calibration_after_50", form="{:.4f}")
    add("cells in which it is worse by more than 0.01", "cells_worse_by_.01")
    return "\n".join(lines) + "\n"


def write_summary(out: Path, facts: dict) -> None:
    """summary.json and table.md of the raw file."""
    with (out / "cells.csv").open(newline="") as file:
        rows: list[dict] = [
            {name: _number(value) for name, value in row.items() if value != ""} for row in csv.DictReader(file)
        ]
    parts = {name: [row for row in rows if row["part"] == name] for name in ("development", "other")}
    found = facts | {name: summary(of) for name, of in (parts | {"all": rows}).items()}
    found = json.loads(json.dumps(found))
    (out / "summary.json").write_text(json.dumps(found, indent=1) + "\n")
    (out / "table.md").write_text(table(found))
    print(table(found))


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def part_of(cell: str) -> str:
    return "other" if cell.startswith(OTHER) or cell in OTHER_CELLS else "development"


def measure(options: argparse.Namespace) -> None:
    """cells.csv: one row per cell and number of labels."""
    kept = [*csv.DictReader(options.keep.open(newline=""))] if options.keep else []
    paths = sorted(options.cells.glob("*.npz"))[:: options.every]
    rows = []
    with ProcessPoolExecutor(options.processes) as pool:
        found = pool.map(cell_rows, paths, [options.draws] * len(paths), [kept] * len(paths))
        for path, of_cell in zip(paths, found, strict=True):
            rows += [{"part": part_of(path.stem)} | row for row in of_cell]
            print(path.stem, [(row["labels"], row["coverage"], row["ratio"]) for row in of_cell], flush=True)
    with (options.out / "cells.csv").open("w", newline="") as file:
        names = list(dict.fromkeys(name for row in rows for name in row))
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", type=Path, nargs="?")
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--every", type=int, default=1, help="only every so many cells: to test the code")
    parser.add_argument("--keep", type=Path, help="a cells.csv whose coverage and widths are kept")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--summarise", action="store_true", help="only the summary of the raw file in OUT")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.summarise:
        before = json.loads((options.out / "summary.json").read_text())
        write_summary(options.out, {name: before[name] for name in ("command", "commit", "hardware", "draws")})
        return
    measure(options)
    facts = {"command": " ".join(["python", *sys.argv]), "commit": commit(), "hardware": f"{os.cpu_count()} CPU cores"}
    write_summary(options.out, facts | {"draws": options.draws})


if __name__ == "__main__":
    main()
