"""Predictions for sets whose instances are known: one small classifier per cell, kept as an .npz file.

    python benchmarks/audit_cells.py DATA --cells FOLDER

DATA holds tables.npz, crops.csv, brain.csv, traps.npz and nuclei.npz; those that are missing are left out. Digits,
pathmnist and cifar10 are read as everywhere (MAJORITY_DATA). Cells of the three labelled sets are those of
`results/losses/matrix.csv`; tables give bags of 32 in scenario various with winners 4:1, files of bags are divided in
five folds. One network per cell, recipe quick, 30 epochs. Images are k-means patch features (`matrix_bags.py`).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from matrix_bags import as_vectors, combinations, make_parts, patch_features

from majority import Bags, Classifier, build_model, fit
from majority.data.device import choose_device
from majority.io import LabelledSet, Parts, load
from majority.io.custom.custom_bags import CustomBags
from majority.recipes import RECIPES, TaskInfo

EPOCHS, FOLDS, LEAST, RARE = 30, 5, 4, 10
IMAGES = {"traps": "bag", "nuclei": "tile"}
Cells = Iterator[tuple[str, Parts]]


def labelled_cells(name: str) -> Cells:
    labelled = as_vectors(load(name))
    for scenario, ratio, sizes in combinations():
        yield f"{name}-{scenario}-{ratio}-{sizes}", make_parts(labelled, scenario, float(ratio), sizes, 2)


def table_cells(path: Path) -> Cells:
    with np.load(path, allow_pickle=True) as arrays:
        for name in sorted(key[:-2] for key in arrays.files if key.endswith("_x")):
            rows, (classes, numbers) = (
                arrays[f"{name}_x"],
                np.unique(arrays[f"{name}_y"].astype(str), return_inverse=True),
            )
            labelled = LabelledSet(name, rows, numbers, tuple(map(str, classes)), stratified=True)
            yield name, labelled.make_parts(bags=200, bag_size=32, winner_ratio=4, with_replacement=True)


def bag_cells(path: Path) -> Cells:
    """Bags whose class wins fewer than RARE bags are left out: some fold would not train that class."""
    frame = pd.read_csv(path, dtype={"bag": str})
    wins = frame.drop_duplicates("bag")["bag_label"].value_counts()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / path.name
        frame[frame["bag_label"].isin(wins.index[wins >= RARE])].to_csv(kept, index=False)
        source = load(str(kept))
    for fold in range(FOLDS):
        yield f"{path.stem}-{fold}", source.make_parts(folds=FOLDS, fold=fold)


def image_cells(path: Path) -> Cells:
    """Bags of traps (cards) or of nuclei (tiles of 250 pixels); their label is the most common class."""
    with np.load(path, allow_pickle=True) as arrays:
        images, labels = arrays["images"], arrays["label"].astype(str)
        bags = arrays["bag"].astype(str) if "bag" in arrays.files else _tiles(arrays["image"], arrays["xy"])
        groups = bags if "bag" in arrays.files else arrays["image"].astype(str)
    features = patch_features(images, np.random.default_rng(0))
    classes, numbers = np.unique(labels, return_inverse=True)
    names, bag_of = np.unique(bags, return_inverse=True)
    counts = np.zeros((len(names), len(classes)), int)
    np.add.at(counts, (bag_of, numbers), 1)
    most = np.sort(counts, axis=1)
    kept = (counts.sum(axis=1) >= LEAST) & (most[:, -1] > most[:, -2])
    rows = kept[bag_of]
    winners = classes[counts.argmax(axis=1)][bag_of]
    made = Bags.from_table(
        features[rows], bags[rows], winners[rows], classes, instance_labels=labels[rows], groups=groups[rows]
    )
    for fold in range(FOLDS):
        yield f"{path.stem}-{fold}", CustomBags(path.stem, made).make_parts(folds=FOLDS, fold=fold)


def _tiles(image: np.ndarray, xy: np.ndarray) -> np.ndarray:
    return np.array([f"{name}_{x // 250}_{y // 250}" for name, (x, y) in zip(image, xy, strict=True)])


def predictions(parts: Parts) -> dict[str, np.ndarray]:
    """What an audit of the test bags knows, and the true classes."""
    plan = RECIPES["quick"].plan_for(TaskInfo("", parts.train.store.shape[1:], on_gpu=False))
    model = build_model(parts.train, "soft-count", plan.backbone, seed=0)
    settings = replace(plan.training, epochs=EPOCHS, seed=0)
    fit(model, parts.train, parts.val, settings, device="cpu", title=None)
    classifier, test = Classifier(model, str(choose_device("cpu"))), parts.test
    found = np.empty((len(test.index), len(test.classes)), np.float32)
    for numbers, probabilities in classifier.stream(test):
        found[test.positions(numbers)] = probabilities
    return {"probabilities": found, "true": test.instance_labels, "bag": test.ids, "label": test.labels}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--cells", type=Path, required=True)
    parser.add_argument(
        "--only", nargs="*", default=["digits", "tables", "crops", "brain", "traps", "pathmnist", "cifar10", "nuclei"]
    )
    options = parser.parse_args()
    options.cells.mkdir(parents=True, exist_ok=True)
    for name in options.only:
        path = next((path for path in sorted(options.data.glob(f"{name}.*")) if path.suffix in (".npz", ".csv")), None)
        if name in ("digits", "pathmnist", "cifar10"):
            cells = labelled_cells(name)
        elif path is None:
            continue
        else:
            cells = table_cells(path) if name == "tables" else image_cells(path) if name in IMAGES else bag_cells(path)
        for cell, parts in cells:
            out = options.cells / f"{cell}.npz"
            if out.exists():
                continue
            arrays = predictions(parts)
            np.savez_compressed(out, **arrays)
            accuracy = np.mean(arrays["probabilities"].argmax(axis=1) == arrays["true"])
            print(cell, len(arrays["true"]), f"{accuracy:.3f}", flush=True)


if __name__ == "__main__":
    main()
