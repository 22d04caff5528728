"""Predictions for sets whose instances are known: one small classifier per cell, kept as an .npz file.

    python benchmarks/audit_cells.py DATA --cells FOLDER

DATA holds tables.npz, crops.csv, brain.csv, traps.npz and nuclei.npz; those that are missing are left out. Digits,
pathmnist and cifar10 are read as everywhere (MAJORITY_DATA), with 200 training and 50 validation bags of 32 instances
(equal), or 40 each of 6, 12, 24, 48 and 96 (ragged), for every second combination of scenario, winner ratio and sizes.
Tables give bags of 32 in scenario various with winners 4:1, files of bags are divided in five folds. Digits are vectors
of 64 pixels; other images are 128 principal components of k-means patch features (Coates, Lee and Ng, AISTATS 2011).
One network per cell, recipe quick, 30 epochs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from majority import Bags, Classifier, build_model, fit
from majority.data.joining import join
from majority.io import LabelledSet, Parts, load
from majority.io.custom.custom_bags import CustomBags
from majority.recipes import RECIPES, TaskInfo

EPOCHS, FOLDS, LEAST, RARE = 30, 5, 4, 10
SCENARIOS, RATIOS, SIZES = ("small", "various", "large"), (1, 4, 20, 100), ("equal", "ragged")
RAGGED, IMAGES = (6, 12, 24, 48, 96), 12_000
PATCH, CENTROIDS, COMPONENTS = 6, 300, 128
Cells = Iterator[tuple[str, Parts]]


def labelled_cells(name: str, _: Path) -> Cells:
    labelled = load(name)
    if max(labelled.store.shape[1:3]) <= 12:
        vectors = replace(labelled, store=labelled.store.reshape(len(labelled.store), -1).astype(np.float32))
    else:
        rng, n = np.random.default_rng(0), len(labelled.labels)
        some = np.sort(rng.choice(n, min(IMAGES, n), replace=False))
        features = patch_features(labelled.store[some], rng)
        vectors = replace(labelled, store=features, labels=labelled.labels[some], groups=None)
    everything = product(enumerate(SCENARIOS), enumerate(RATIOS), enumerate(SIZES))
    for (i, scenario), (j, ratio), (k, sizes) in everything:
        if (i + j + k) % 2:
            continue
        options = {"scenario": scenario, "winner_ratio": float(ratio), "fold": 2}
        parts = vectors.make_parts(bags=200, bag_size=32, **options)
        if sizes == "ragged":
            by_size = [vectors.make_parts(bags=40, bag_size=s, with_replacement=True, **options) for s in RAGGED]
            parts = Parts(*map(join, zip(*by_size, strict=True)))
        yield f"{name}-{scenario}-{ratio}-{sizes}", parts


def table_cells(_: str, data: Path) -> Cells:
    with np.load(data / "tables.npz", allow_pickle=True) as arrays:
        for name in sorted(key[:-2] for key in arrays.files if key.endswith("_x")):
            classes, numbers = np.unique(arrays[f"{name}_y"].astype(str), return_inverse=True)
            labelled = LabelledSet(name, arrays[f"{name}_x"], numbers, tuple(map(str, classes)), stratified=True)
            yield name, labelled.make_parts(bags=200, bag_size=32, winner_ratio=4, with_replacement=True)


def bag_cells(name: str, data: Path) -> Cells:
    """Bags whose class wins fewer than RARE bags are left out: some fold would not train that class."""
    frame = pd.read_csv(data / f"{name}.csv", dtype={"bag": str})
    wins = frame.drop_duplicates("bag")["bag_label"].value_counts()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / f"{name}.csv"
        frame[frame["bag_label"].isin(wins.index[wins >= RARE])].to_csv(kept, index=False)
        source = load(str(kept))
    for fold in range(FOLDS):
        yield f"{name}-{fold}", source.make_parts(folds=FOLDS, fold=fold)


def image_cells(name: str, data: Path) -> Cells:
    """Bags of traps (cards) or of nuclei (tiles of 250 pixels); their label is the most common class."""
    with np.load(data / f"{name}.npz", allow_pickle=True) as arrays:
        images, labels = arrays["images"], arrays["label"].astype(str)
        if "bag" in arrays.files:
            bags = groups = arrays["bag"].astype(str)
        else:
            places = zip(arrays["image"], arrays["xy"], strict=True)
            bags, groups = (
                np.array([f"{of}_{x // 250}_{y // 250}" for of, (x, y) in places]),
                arrays["image"].astype(str),
            )
    counts = pd.crosstab(bags, labels)
    most = np.sort(counts.to_numpy(), axis=1)
    winners = counts.idxmax(axis=1)[(counts.sum(axis=1) >= LEAST) & (most[:, -1] > most[:, -2])]
    rows = np.isin(bags, winners.index)
    features = patch_features(images, np.random.default_rng(0))[rows]
    of_rows = {"instance_labels": labels[rows], "groups": groups[rows]}
    made = Bags.from_table(features, bags[rows], winners[bags[rows]].to_numpy(), counts.columns, **of_rows)
    for fold in range(FOLDS):
        yield f"{name}-{fold}", CustomBags(name, made).make_parts(folds=FOLDS, fold=fold)


SETS = dict.fromkeys(("digits", "pathmnist", "cifar10"), labelled_cells) | {"tables": table_cells}
SETS |= dict.fromkeys(("crops", "brain"), bag_cells) | dict.fromkeys(("traps", "nuclei"), image_cells)


def patch_features(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # (n, h, w, c) -> (n, COMPONENTS)
    """Similarities of whitened patches to k-means centroids, pooled over quadrants; their principal components."""
    sampled = [
        rng.permutation(_patches(images[i : i + 1]).reshape(-1, PATCH * PATCH * images.shape[3]))[:20]
        for i in rng.integers(len(images), size=3_000)
    ]
    patches = np.concatenate(sampled)
    mean = patches.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(patches, rowvar=False))
    whitening = (directions / np.sqrt(variances + 0.01 * variances.mean()) @ directions.T).astype(np.float32)
    white = _unit((patches - mean) @ whitening)
    centroids = white[rng.choice(len(white), CENTROIDS, replace=False)]
    for _ in range(10):
        sums = np.zeros_like(centroids)
        np.add.at(sums, (white @ centroids.T).argmax(axis=1), white)
        centroids = _unit(sums)
    pooled = []
    for start in range(0, len(images), 100):
        near = np.maximum(_unit((_patches(images[start : start + 100]) - mean) @ whitening) @ centroids.T - 0.2, 0)
        half = near.shape[1] // 2
        quadrants = product((slice(half), slice(half, None)), repeat=2)
        pooled.append(np.concatenate([near[:, rows, columns].mean(axis=(1, 2)) for rows, columns in quadrants], axis=1))
    features = np.sqrt(np.concatenate(pooled))
    _, directions = np.linalg.eigh(np.cov(features, rowvar=False))
    return ((features - features.mean(axis=0)) @ directions[:, ::-1][:, :COMPONENTS]).astype(np.float32)


def _patches(images: np.ndarray) -> np.ndarray:  # (n, h, w, c) -> (n, rows, columns, PATCH * PATCH * c)
    scaled = images.astype(np.float32) / 255
    views = np.lib.stride_tricks.sliding_window_view(scaled, (PATCH, PATCH), axis=(1, 2))
    return views.reshape(*views.shape[:3], -1)


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / (np.linalg.norm(rows, axis=-1, keepdims=True) + 1e-6)


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[*SETS], choices=[*SETS])
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        if SETS[name] is not labelled_cells and not [*options.data.glob(f"{name}.*")]:
            continue
        for cell, parts in SETS[name](name, options.data):
            arrays = predictions(parts)
            np.savez_compressed(options.cells / f"{cell}.npz", **arrays)
            accuracy = np.mean(arrays["probabilities"].argmax(axis=1) == arrays["true"])
            print(cell, len(arrays["true"]), f"{accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
