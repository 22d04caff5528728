"""The labelled sets of `results/losses/matrix.csv` as vectors, and their bags.

A labelled set gives 200 training and 50 validation bags for each scenario and winner ratio: of 32 instances (equal), or
40 each of 6, 12, 24, 48 and 96 (ragged). Every second combination is left out, so that each scenario and each ratio has
both sizes. Digits are vectors of 64 pixels; images are 128 principal components of k-means patch features (Coates, Lee
and Ng, AISTATS 2011) of 12,000 images.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from majority import Bags, LabelledSet
from majority.io import Parts

SCENARIOS, RATIOS, SIZES = ("small", "various", "large"), (1, 4, 20, 100), ("equal", "ragged")
RAGGED = (6, 12, 24, 48, 96)
BAGS, BAG_SIZE, IMAGES = 200, 32, 12_000
PATCH, CENTROIDS, COMPONENTS = 6, 300, 128


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


def combinations() -> list[tuple[str, str, str]]:
    """Scenario, winner ratio and sizes; every second one."""
    everything = product(enumerate(SCENARIOS), enumerate(RATIOS), enumerate(SIZES))
    return [(name, str(ratio), sizes) for (i, name), (j, ratio), (k, sizes) in everything if (i + j + k) % 2 == 0]


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
