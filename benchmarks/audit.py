"""Audits of classifiers whose accuracy is known: coverage and width of the intervals, bias, class shares, calibration.

    python benchmarks/audit_cells.py DATA --cells CELLS
    python benchmarks/audit.py CELLS --out results/audit

Each cell is sampled 1,000 times with 30, 50, 100 and 200 labels. `ratio`: mean half-width per that of simple random
sampling with Wilson's interval. Class shares and calibration are over 100 of these samples. Calibration error: mean
over 15 bins of equal width, of all instances. The design and all constants were chosen on the `development` cells and
not on the `other` ones.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from majority.predict.audit import Sample, class_shares, fit_temperature
from majority.predict.audit_design import Design, Whole, expected_right, with_temperature
from majority.predict.audit_interval import error_interval

LABELS, OF_SHARES, DRAWS, FEW, BINS = (30, 50, 100, 200), (50, 100), 1_000, 100, 15
Z = 1.959964
OTHER = (  # cells on which nothing was chosen, by how their names begin
    *("cifar10", "nuclei", "brain-1", "brain-3", "traps-0", "traps-2", "traps-4"),
    *("pathmnist-large-100", "pathmnist-large-4", "pathmnist-small-100", "pathmnist-small-4"),
    *("pathmnist-various-100", "pathmnist-various-4"),
)


def measure(path: Path, draws: int) -> list[dict]:
    """One row per number of labels."""
    with np.load(path) as arrays:
        probabilities, true, bags, labels_of_bags = (arrays[name] for name in ("probabilities", "true", "bag", "label"))
    probabilities = probabilities / probabilities.sum(axis=1, keepdims=True, dtype=float)
    true, wrong = np.minimum(true, probabilities.shape[1]), probabilities.argmax(axis=1) != true
    design = Design.of(expected_right(probabilities, bags, labels_of_bags))
    about = {"part": "other" if path.stem.startswith(OTHER) else "development", "cell": path.stem}
    about |= {"instances": len(true), "accuracy": 1 - wrong.mean()}
    return [
        about
        | {"labels": labels}
        | accuracy(design, wrong, labels, draws)
        | (shares_and_calibration(design, probabilities, true, labels) if labels in OF_SHARES else {})
        for labels in LABELS
    ]


def accuracy(design: Design, wrong: np.ndarray, labels: int, draws: int) -> dict:
    rng, sizes = np.random.default_rng([labels, len(wrong)]), design.sizes
    taken, of_stratum = np.minimum(labels // len(sizes), sizes), np.bincount(design.stratum, wrong).astype(int)
    strata = zip(of_stratum, sizes, taken, strict=True)
    errors = np.stack([rng.hypergeometric(bad, size - bad, t, draws) for bad, size, t in strata], axis=1)
    rows, inverse = np.unique(errors, axis=0, return_inverse=True)
    low, high = error_interval(rows, taken, sizes, design.expected, grid=512)[inverse.ravel()].T
    truth, estimates, half = wrong.mean(), errors / taken @ (sizes / sizes.sum()), (high - low).mean() / 2
    share = rng.hypergeometric(wrong.sum(), (~wrong).sum(), labels, size=20_000) / labels
    wilson = Z * np.sqrt(share * (1 - share) / labels + (Z / 2 / labels) ** 2) / (1 + Z**2 / labels)
    return {
        "coverage": np.mean((low <= truth) & (truth <= high)),
        "half_width": half,
        "ratio": half / wilson.mean(),
        "bias": truth - estimates.mean(),
        "simulation_error": estimates.std() / np.sqrt(draws),
    }


def shares_and_calibration(design: Design, probabilities: np.ndarray, true: np.ndarray, labels: int) -> dict:
    classes = probabilities.shape[1]
    naive, actual = (np.bincount(of, minlength=classes + 1) / len(true) for of in (probabilities.argmax(axis=1), true))
    whole = Whole.of(map(str, range(classes)), design, probabilities)
    errors, covered, after = [], [], []
    for seed in range(FEW):
        drawn = Design(design.stratum, design.expected, seed).draw(labels)
        sample = Sample.of(whole, design.stratum[drawn], true[drawn], probabilities[drawn])
        values, lows, highs = np.array([(one.value, one.low, one.high) for one in class_shares(sample)]).T
        errors.append(np.abs(values - actual).mean())
        covered.append(np.mean((lows <= actual) & (actual <= highs)))
        after.append(calibration_error(with_temperature(probabilities, fit_temperature(sample)), true))
    return {
        "naive_share_error": np.abs(naive - actual).mean(),
        "share_error": np.mean(errors),
        "share_coverage": np.mean(covered),
        "calibration_before": calibration_error(probabilities, true),
        "calibration_after": np.mean(after),
    }


def calibration_error(probabilities: np.ndarray, true: np.ndarray) -> float:
    confidence, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == true
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    return float(np.abs(np.bincount(bins, confidence) - np.bincount(bins, right)).sum() / len(true))


def summary(rows: pd.DataFrame) -> dict[str, str]:
    """Title -> figures of these cells, as text."""
    at = {labels: rows[rows["labels"] == labels] for labels in LABELS}
    worse = at[50]["calibration_after"] - at[50]["calibration_before"]
    found = {"cells": str(len(at[50]))}
    for labels, of in at.items():
        title = f"coverage of the 95 % interval, {labels} labels: least, mean"
        found[title] = f"{of['coverage'].min():.3f}, {of['coverage'].mean():.3f}"
    for labels in (50, 200):
        title = f"half-width at {labels} labels per that of simple random sampling: mean, greatest"
        found[title] = f"{at[labels]['ratio'].mean():.3f}, {at[labels]['ratio'].max():.3f}"
    return found | {
        "cells in which it is above 0.9 at 50 labels": str((at[50]["ratio"] > 0.9).sum()),
        "mean error of a class share, by count": f"{at[100]['naive_share_error'].mean():.4f}",
        "the same, 100 labels": f"{at[100]['share_error'].mean():.4f}",
        "coverage of the intervals of class shares, 100 labels: mean": f"{at[100]['share_coverage'].mean():.3f}",
        "calibration error before": f"{at[50]['calibration_before'].mean():.4f}",
        "with the temperature from 50 labels": f"{at[50]['calibration_after'].mean():.4f}",
        "cells in which it is worse by more than 0.01": str((worse > 0.01).sum()),
    }


def table_of(rows: pd.DataFrame) -> str:
    """The summary as Markdown."""
    parts = {name: summary(of) for name, of in rows.groupby("part")} | {"all": summary(rows)}
    lines = [f"| | {' | '.join(parts)} |", "|---" * (len(parts) + 1) + "|"]
    lines += [f"| {title} | {' | '.join(of[title] for of in parts.values())} |" for title in parts["all"]]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cells", type=Path)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.processes) as pool:
        found = pool.map(partial(measure, draws=options.draws), sorted(options.cells.glob("*.npz")))
        rows = pd.DataFrame([row for of_cell in found for row in of_cell]).round(5)
    rows.to_csv(options.out / "cells.csv", index=False)
    (options.out / "table.md").write_text(table_of(rows))
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip()
    facts = {"command": " ".join(["python", *sys.argv]), "commit": commit, "draws": options.draws}
    facts["hardware"] = f"{os.cpu_count()} CPU cores"
    (options.out / "about.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(table_of(rows))


if __name__ == "__main__":
    main()
