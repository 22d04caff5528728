"""Predictions as rows of a CSV file, streamed bag by bag."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from .bags import Bags
from .classifier import Classifier
from .files import write_atomically


def write_predictions(path: Path, classifier: Classifier, parts: dict[str, Bags]) -> int:
    """A row an instance: part, bag, instance (its position in the source), class, probability of each class."""
    rows = 0

    def write(place: Path) -> None:
        nonlocal rows
        with place.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["part", "bag", "instance", "class", *(f"p({name})" for name in classifier.classes)])
            for part, bags in parts.items():
                for which, probabilities in classifier.stream(bags):
                    instances = bags.index[bags.positions(which)]
                    bag = np.repeat(which, bags.sizes[which]) if bags.names is None else bags.names[bags.ids]
                    names = classifier.classes[probabilities.argmax(axis=1)]
                    shown = np.char.mod("%.6g", probabilities)
                    table.writerows(
                        [part, b, i, name, *p] for b, i, name, p in zip(bag, instances, names, shown, strict=True)
                    )
                    rows += len(names)

    write_atomically(path, write)
    return rows
