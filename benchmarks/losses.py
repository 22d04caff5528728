"""Which bag loss is right? Single losses, and their mean weighted by validation bags, on a matrix of bags.

    python benchmarks/losses.py digits pathmnist cifar10 --folds 2 --out results/losses/matrix.csv
    python benchmarks/losses.py crops.csv --folds 0-4 --out results/losses/matrix.csv

A source that is a file of bags is used as it is, in five folds. A labelled set gives 200 training and 50 validation
bags for each scenario and winner ratio: of 32 instances (equal), or 40 each of 6, 12, 24, 48 and 96 (ragged). Every
second combination is left out, so that each scenario and each ratio has both sizes. Digits are vectors of 64 pixels;
images are 128 principal components of k-means patch features (Coates, Lee and Ng, AISTATS 2011) of 12,000 images.

Every loss trains one network as census trains a teacher from random weights. `auto` is the weighted mean of the
networks of `LOSSES` with class offsets, as census learns it; distilled teachers and the student are left out.
`weighted-mean` is the same without offsets. A combination that has rows in OUT is not trained again. share_ratio: the
largest factor between predicted and true number of test instances, in either direction, over the classes that win at
least 5 training bags.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from torch import Tensor

from majority import Bags, build_model, fit
from majority.cli.options import parse_folds
from majority.io import LabelledSet, Parts, is_custom_source, load
from majority.nn.model import Model
from majority.recipes import RECIPES, TaskInfo
from majority.recipes.census.class_offsets import find_offsets, with_offsets
from majority.recipes.census.trainings import instance_probabilities
from majority.recipes.losses import LOSSES, label_counts, label_log_likelihood, loss_weights
from majority.training.objectives import Averaged

METHODS = ("adjusted-mean", "log-mean", "soft-count", "count-only", "count", "vote", "naive")
COLUMNS = (
    *("set", "scenario", "winner_ratio", "sizes", "method", "fold"),
    *("instance_accuracy", "chosen", "share_ratio", "seconds"),
)
SCENARIOS, RATIOS, SIZES = ("small", "various", "large"), (1, 4, 20, 100), ("equal", "ragged")
RAGGED = (6, 12, 24, 48, 96)
BAGS, BAG_SIZE, IMAGES = 200, 32, 12_000
PATCH, CENTROIDS, COMPONENTS = 6, 300, 128


# ---------------------------------------------------------------------- features


def as_vectors(labelled: LabelledSet) -> LabelledSet:
    """Tiny images as their pixels, larger ones as k-means patch features."""
    if max(labelled.store.shape[1:3]) <= 12:
        return replace(labelled, store=labelled.store.reshape(len(labelled.store), -1).astype(np.float32))
    rng = np.random.default_rng(0)
    some = np.sort(rng.choice(len(labelled.labels), min(IMAGES, len(labelled.labels)), replace=False))
    features = patch_features(labelled.store[some], rng)
    return replace(labelled, store=features, labels=labelled.labels[some], groups=None)


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


# ---------------------------------------------------------------------- bags


def make_parts(labelled: LabelledSet, scenario: str, ratio: float, sizes: str, fold: int) -> Parts:
    options = {"scenario": scenario, "winner_ratio": ratio, "fold": fold}
    if sizes == "equal":
        return labelled.make_parts(bags=BAGS, bag_size=BAG_SIZE, **options)
    by_size = [
        labelled.make_parts(bags=BAGS // len(RAGGED), bag_size=size, with_replacement=True, **options)
        for size in RAGGED
    ]
    return Parts(*map(_join, zip(*by_size, strict=True)))


def _join(parts: tuple[Bags, ...]) -> Bags:
    """Bags of one store."""
    index, labels, known = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("index", "labels", "instance_labels")
    )
    offsets = np.concatenate([[0], np.concatenate([part.sizes for part in parts]).cumsum()])
    return Bags(parts[0].store, index, offsets, labels, parts[0].classes, instance_labels=known)


# ---------------------------------------------------------------------- training


def train_network(parts: Parts, method: str, seed: int) -> tuple[Model, float]:
    plan = RECIPES["census"].plan_for(TaskInfo("", parts.train.store.shape[1:], on_gpu=False))
    model = build_model(parts.train, method, plan.backbone, seed=seed)
    settings = replace(plan.training, epochs=min(plan.training.epochs, plan.own.teacher_epochs), seed=seed)
    objective = Averaged(model, plan.own.momentum)
    fitted = fit(model, parts.train, parts.val, settings, device="cpu", title=None, objective=objective)
    return model, fitted.seconds


def results(parts: Parts, seed: int = 0) -> list[dict]:
    """One row per loss, and one for `auto`."""
    rows, test, train, log_likelihoods = [], {}, {}, {}
    for method in METHODS:
        model, seconds = train_network(parts, method, seed)
        test[method] = instance_probabilities(model, parts.test, "cpu")
        rows.append({"method": method, "seconds": round(seconds, 1)} | figures(test[method], parts))
        if method in LOSSES:
            train[method] = instance_probabilities(model, parts.train, "cpu")
            log_likelihoods[method] = label_log_likelihood(model, parts.train, parts.val, "cpu")
    methods = {loss: loss for loss in LOSSES}
    weights = loss_weights(log_likelihoods, methods, len(parts.val), label_counts(parts.train))
    of_train, of_test = (sum(weight * each[loss] for loss, weight in weights.items()) for each in (train, test))
    offsets = find_offsets(of_train, parts.train.without_instance_labels())
    chosen = max(weights, key=lambda loss: weights[loss])
    for method, found in (("weighted-mean", of_test), ("auto", with_offsets(of_test, offsets))):
        rows.append({"method": method, "chosen": chosen} | figures(found, parts))
    return rows


def figures(probabilities: Tensor, parts: Parts) -> dict:
    predicted, true, classes = probabilities.argmax(dim=1).numpy(), parts.test.instance_labels, len(parts.train.classes)
    wins = np.bincount(parts.train.labels, minlength=classes)
    of_predicted, of_true = (np.bincount(values, minlength=classes)[wins >= 5] for values in (predicted, true))
    ratios = np.maximum(of_predicted, 0.5) / np.maximum(of_true, 0.5)
    ratio = np.maximum(ratios, 1 / ratios).max()
    return {"instance_accuracy": round(float(np.mean(predicted == true)), 4), "share_ratio": round(float(ratio), 2)}


# ---------------------------------------------------------------------- the matrix


def combinations(source: str) -> list[tuple[str, str, str]]:
    """Scenario, winner ratio and sizes; every second one. A file of bags has one combination."""
    if is_custom_source(source):
        return [("", "", "")]
    everything = product(enumerate(SCENARIOS), enumerate(RATIOS), enumerate(SIZES))
    return [(name, str(ratio), sizes) for (i, name), (j, ratio), (k, sizes) in everything if (i + j + k) % 2 == 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--folds", type=parse_folds, default="2")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for source in options.sources:
        opened = load(source)
        labelled = as_vectors(opened) if isinstance(opened, LabelledSet) else None
        for fold, (scenario, ratio, sizes) in product(options.folds, combinations(source)):
            key = {"set": Path(source).stem, "scenario": scenario, "winner_ratio": ratio, "sizes": sizes}
            key["fold"] = str(fold)
            if any(key.items() <= row.items() for row in read(options.out)):
                continue
            if labelled is None:
                parts = opened.make_parts(folds=5, fold=fold)
            else:
                parts = make_parts(labelled, scenario, float(ratio), sizes, fold)
            rows = [key | row for row in results(parts)]
            write(options.out, [*read(options.out), *rows])
            print(*key.values(), *(f"{row['method']} {row['instance_accuracy']:.3f}" for row in rows), flush=True)


def read(path: Path) -> list[dict]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [*csv.DictReader(file)]


def write(path: Path, rows: list[dict]) -> None:
    unfinished = path.with_suffix(".unfinished")
    with unfinished.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS, restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    unfinished.rename(path)


if __name__ == "__main__":
    main()
