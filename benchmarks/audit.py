"""Audits of classifiers whose accuracy is known: coverage and width of the intervals, bias, class shares, calibration.

    python benchmarks/audit.py DATA --cells FOLDER --out results/audit

DATA holds tables.npz, crops.csv, brain.csv, traps.npz and nuclei.npz; those that are missing are left out. Digits,
pathmnist and cifar10 are read as everywhere (MAJORITY_DATA), with 200 training and 50 validation bags of 32 instances
(equal), or 40 each of 6, 12, 24, 48 and 96 (ragged), for every second combination of scenario, winner ratio and sizes.
Tables give bags of 32 in scenario various with winners 4:1, files of bags are divided in five folds. Digits are vectors
of 64 pixels; other images are 128 principal components of k-means patch features (Coates, Lee and Ng, AISTATS 2011).
One network per cell, recipe quick, 30 epochs; its predictions are kept in FOLDER, and made once.

Each cell is sampled 1,000 times with 30, 50, 100 and 200 labels. `ratio`: mean half-width per that of simple random
sampling with Wilson's interval. Class shares and calibration are over 100 of these samples. Calibration error: mean
over 15 bins of equal width, of all instances. The design and all constants were chosen on the `development` cells and
not on the `other` ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from helpers import SCENARIOS, bags_of, commit, make_parser, markdown, tables_of

from majority import Classifier, build_model, fit
from majority.data.joining import join
from majority.files import write_json
from majority.io import LabelledSet, Parts, load
from majority.predict.audit import Sample, class_shares, fit_temperature
from majority.predict.audit_design import Design, Whole, expected_right, with_temperature
from majority.predict.audit_interval import error_interval
from majority.recipes import RECIPES, TaskInfo

LABELS, OF_SHARES, DRAWS, FEW, BINS = (30, 50, 100, 200), (50, 100), 1_000, 100, 15
Z = 1.959964
OTHER = (  # cells on which nothing was chosen, by how their names begin
    *("cifar10", "nuclei", "brain-1", "brain-3", "traps-0", "traps-2", "traps-4"),
    *("pathmnist-large-100", "pathmnist-large-4", "pathmnist-small-100", "pathmnist-small-4"),
    *("pathmnist-various-100", "pathmnist-various-4"),
)
EPOCHS, FOLDS = 30, 5
RATIOS, SIZES = (1, 4, 20, 100), ("equal", "ragged")
RAGGED, IMAGES = (6, 12, 24, 48, 96), 12_000
PATCH, CENTROIDS, COMPONENTS = 6, 300, 128


# ---------------------------------------------------------------------- cells


def all_cells(data: Path, benchmarks: list[str]) -> Iterator[tuple[str, Parts]]:
    for name in benchmarks:
        yield from labelled_cells(name)
    for name, (instances, labels) in (tables_of(data) if (data / "tables.npz").exists() else {}).items():
        classes, numbers = np.unique(labels, return_inverse=True)
        labelled = LabelledSet(name, instances, numbers, tuple(map(str, classes)), stratified=True)
        yield name, labelled.make_parts(bags=200, bag_size=32, winner_ratio=4, with_replacement=True)
    for name in ("crops", "brain", "traps", "nuclei"):
        if [*data.glob(f"{name}.*")]:
            source = bags_of(name, data, patch_features if name in ("traps", "nuclei") else None)
            yield from ((f"{name}-{fold}", source.make_parts(folds=FOLDS, fold=fold)) for fold in range(FOLDS))


def labelled_cells(name: str) -> Iterator[tuple[str, Parts]]:
    labelled = load(name)
    if name == "digits":
        vectors = replace(labelled, store=labelled.store.reshape(len(labelled.store), -1).astype(np.float32))
    else:
        some = np.sort(np.random.default_rng(0).permutation(len(labelled.labels))[:IMAGES])
        features = patch_features(labelled.store[some])
        vectors = replace(labelled, store=features, labels=labelled.labels[some], groups=None)
    for (i, scenario), (j, ratio), (k, sizes) in product(*map(enumerate, (SCENARIOS, RATIOS, SIZES))):
        if (i + j + k) % 2:
            continue
        options = {"scenario": scenario, "winner_ratio": float(ratio), "fold": 2}
        if sizes == "equal":
            parts = vectors.make_parts(bags=200, bag_size=32, **options)
        else:
            by_size = [vectors.make_parts(bags=40, bag_size=s, with_replacement=True, **options) for s in RAGGED]
            parts = Parts(*map(join, zip(*by_size, strict=True)))
        yield f"{name}-{scenario}-{ratio}-{sizes}", parts


def patch_features(images: np.ndarray) -> np.ndarray:  # (n, h, w, c) -> (n, COMPONENTS)
    """How near whitened patches are to k-means centroids, pooled over quadrants; their principal components."""
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.decomposition import PCA
    from sklearn.feature_extraction.image import PatchExtractor

    n, side, _, channels = images.shape
    some = images[np.random.default_rng(0).integers(n, size=3_000)].astype(np.float32)
    sampled = PatchExtractor(patch_size=(PATCH, PATCH), max_patches=20, random_state=0).transform(some)
    whiten = PCA(0.99, whiten=True, random_state=0).fit(sampled.reshape(len(sampled), -1))
    centroids = MiniBatchKMeans(CENTROIDS, random_state=0).fit(whiten.transform(sampled.reshape(len(sampled), -1)))
    pooled, rows = [], side - PATCH + 1
    for image in images.astype(np.float32):
        windows = np.lib.stride_tricks.sliding_window_view(image, (PATCH, PATCH, channels)).reshape(rows**2, -1)
        distances = centroids.transform(whiten.transform(windows))
        near = np.maximum(distances.mean(axis=1, keepdims=True) - distances, 0).reshape(rows, rows, -1)
        halves = slice(rows // 2), slice(rows // 2, None)
        pooled.append(np.concatenate([near[place].mean(axis=(0, 1)) for place in product(halves, halves)]))
    return PCA(COMPONENTS, random_state=0).fit_transform(np.sqrt(pooled)).astype(np.float32)


def predictions(parts: Parts) -> dict[str, np.ndarray]:
    """What an audit of the test bags knows, and the true classes."""
    plan = RECIPES["quick"].plan_for(TaskInfo("", parts.train.store.shape[1:], on_gpu=False))
    model = build_model(parts.train, "soft-count", plan.backbone, seed=0)
    fit(model, parts.train, parts.val, replace(plan.training, epochs=EPOCHS, seed=0), device="cpu", title=None)
    test = parts.test
    found = np.empty((len(test.index), len(test.classes)), np.float32)
    for numbers, probabilities in Classifier(model, "cpu").stream(test):
        found[test.positions(numbers)] = probabilities
    return {"probabilities": found, "true": test.instance_labels, "bag": test.ids, "label": test.labels}


# ---------------------------------------------------------------------- figures


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
    return markdown(["", *parts], ([title, *(of[title] for of in parts.values())] for title in parts["all"]))


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--benchmarks", nargs="*", default=["digits", "pathmnist", "cifar10"])
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    for folder in (options.cells, options.out):
        folder.mkdir(parents=True, exist_ok=True)
    for name, parts in all_cells(options.data, options.benchmarks):
        if not (options.cells / f"{name}.npz").exists():
            np.savez_compressed(options.cells / f"{name}.npz", **predictions(parts))
            print(name, flush=True)
    with ProcessPoolExecutor(options.processes) as pool:
        found = pool.map(partial(measure, draws=options.draws), sorted(options.cells.glob("*.npz")))
        rows = pd.DataFrame([row for of_cell in found for row in of_cell]).round(5)
    rows.to_csv(options.out / "cells.csv", index=False)
    (options.out / "table.md").write_text(table_of(rows))
    about = {"command": "python benchmarks/audit.py DATA --cells FOLDER --out results/audit", "draws": options.draws}
    about |= {"commit": options.commit or commit(), "hardware": f"{os.cpu_count()} CPU cores"}
    write_json(options.out / "about.json", about)


if __name__ == "__main__":
    main()
