"""What a reader gives back, and the bags that are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.bags import Bags
from ...data.instance_labels import UNKNOWN
from ...errors import count_noun
from ..image_summary import ImageFileSummary
from .bag_table import sorted_classes
from .custom_bags import CustomBags
from .findings import Findings
from .request import ReadOptions


@dataclass
class Content:
    """What a source holds, bag after bag; good only where the findings hold no problem."""

    file: Path  # the table
    bags: pd.DataFrame  # bag; label, split, group where given
    sizes: np.ndarray  # (b,)
    store: object  # (N, ...) array or files read in place; None where images are faulty
    index: np.ndarray  # (n,) into the store
    instance_labels: np.ndarray | None = None  # (n,) text, "" where not known; None where none is
    coordinates: np.ndarray | None = None  # (n, 2)
    paths: np.ndarray | None = None  # (N,)
    columns: tuple[str, ...] | None = None
    image_files: ImageFileSummary | None = None
    numbered_within_bags: bool = False

    def column(self, name: str) -> np.ndarray | None:
        return self.bags[name].to_numpy(str) if name in self.bags else None

    def true_counts(self) -> pd.DataFrame:  # (bags, true classes)
        """Of the bags all of whose instances are known; its index holds their numbers."""
        bag, known = np.repeat(np.arange(len(self.sizes)), self.sizes), self.instance_labels != ""
        full = np.bincount(bag, weights=~known) == 0
        counted = full[bag]
        return pd.crosstab(bag[counted], self.instance_labels[counted])

    def make(self, name: str, wish: ReadOptions, findings: Findings) -> CustomBags:
        labels = self.column("label") if wish.labels else None
        classes = sorted_classes(labels) if wish.classes is None else wish.classes
        bags = Bags(
            self.store,
            self.index,
            np.concatenate([[0], np.cumsum(self.sizes)]),
            np.zeros(len(self.bags), np.int64) if labels is None else labels,
            classes,
            instance_labels=self.instance_labels,
            groups=self.column("group"),
            coordinates=self.coordinates,
            names=self.column("bag"),
        )
        if labels is None:
            bags = bags._with(labels=np.full(len(bags), UNKNOWN))
        split = self.column("split") if wish.labels else None
        return CustomBags(
            name,
            bags,
            split,
            self.paths,
            self.columns,
            self.numbered_within_bags,
            tuple(findings.warnings),
            findings.class_warnings,
            self.image_files,
        )


def check_known_classes(content: Content, wish: ReadOptions, findings: Findings) -> None:
    """Of bags for a classifier that exists: it knows every label."""
    if not wish.labels or wish.classes is None or "label" not in content.bags:
        return
    for row, label in content.bags["label"].items():
        if label and label not in wish.classes:
            what = f"bag {content.bags['bag'][row]} has label {label}, the run knows {', '.join(wish.classes)}"
            findings.problem(content.file, row, what, "correct the label or leave the bag out")


def warn_of_further_classes(content: Content, wish: ReadOptions, findings: Findings) -> None:
    """True classes that no bag has as its label, or that the classifier does not know."""
    named, unless = (content.bags["label"], ", unless it is the --background") if wish.training else (wish.classes, "")
    names, counts = np.unique(content.instance_labels[content.instance_labels != ""], return_counts=True)
    further = ~np.isin(names, [*named])
    if further.all():
        return  # a problem, which Bags name
    for name, count in zip(names[further], counts[further], strict=True):
        lacks = "no bag's label" if wish.training else "no class of the run"
        what = f"label {name} of {count_noun(count, 'instance')} is {lacks}"
        findings.class_warnings[name] = f"{what}: the classifier cannot answer it, so it counts as wrong{unless}"
        findings.warn(findings.class_warnings[name])
