"""Content: the arrays read from a manifest or a folder, and the bags that are made from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from ...data.bags import Bags
from ...data.instance_labels import UNKNOWN
from ...data.labels import split_label
from ...data.stores import Store
from ...errors import count_noun
from ..embedding import Embedding
from ..image_summary import ImageFileSummary
from .bag_table import named_classes, sorted_classes
from .custom_bags import CustomBags
from .findings import Findings
from .read_options import ReadOptions

NO_CLASS = "unlabelled"  # stands for the classes of bags without labels, where no classifier says which there are


@dataclass
class Content:
    """What a source contains, sorted by bag; it is valid only if the findings have no problem."""

    file: Path  # the table
    bags: pd.DataFrame  # columns: bag; label, split and group if given
    sizes: np.ndarray  # (b,)
    store: Store | None  # (N, ...); None if images cannot be read
    index: np.ndarray  # (n,) positions in the store
    instance_labels: np.ndarray | None = None  # (n,) text, "" if unknown; None if all are unknown
    coordinates: np.ndarray | None = None  # (n, 2)
    weights: np.ndarray | None = None  # (n,)
    paths: np.ndarray | None = None  # (N,)
    columns: tuple[str, ...] | None = None
    image_files: ImageFileSummary | None = None
    numbered_within_bags: bool = False
    embedding: Embedding | None = None

    def column(self, name: str) -> np.ndarray | None:
        return self.bags[name].to_numpy(str) if name in self.bags else None

    def to_custom_bags(self, name: str, options: ReadOptions, findings: Findings) -> CustomBags:
        assert self.store is not None  # otherwise the findings have problems
        labels = self.column("label") if options.labels else None
        classes = options.classes
        if classes is None:
            known = named_classes(self.bags) if labels is not None else self.instance_labels
            classes = tuple(sorted_classes({*(() if known is None else known)} - {""}))
        bags = Bags(
            self.store,
            self.index,
            np.concatenate([[0], np.cumsum(self.sizes)]),
            np.full(len(self.bags), UNKNOWN) if labels is None else labels,
            classes or (NO_CLASS,),
            second_labels=None if labels is None else self.column("second_label"),
            instance_labels=self.instance_labels,
            groups=self.column("group"),
            coordinates=self.coordinates,
            names=self.column("bag"),
            weights=self.weights,
        )
        return CustomBags(
            name,
            bags,
            split=self.column("split") if options.labels else None,
            paths=self.paths,
            columns=self.columns,
            numbered_within_bags=self.numbered_within_bags,
            warnings=tuple(findings.warnings),
            class_warnings=findings.class_warnings,
            image_files=self.image_files,
            embedding=self.embedding,
        )


def count_true_classes(
    sizes: np.ndarray, instance_labels: np.ndarray, weights: np.ndarray | None = None
) -> pd.DataFrame:  # (bags, true classes)
    """Counts, or sums of weights, in the bags in which the class of every instance is known; the index holds the
    numbers of these bags."""
    bag, known = np.repeat(np.arange(len(sizes)), sizes), instance_labels != ""
    complete = np.bincount(bag, weights=~known) == 0
    counted = complete[bag]
    if weights is None:
        return pd.crosstab(bag[counted], instance_labels[counted])
    return pd.crosstab(bag[counted], instance_labels[counted], weights[counted], aggfunc="sum").fillna(0)


def check_known_classes(content: Content, options: ReadOptions, findings: Findings) -> None:
    """Check that the classifier for which the bags are read knows every label."""
    if not options.labels or options.classes is None or "label" not in content.bags:
        return
    bags = content.bags
    seconds = bags["second_label"] if "second_label" in bags else [""] * len(bags)
    named = (
        (*split_label(label, options.classes), second) for label, second in zip(bags["label"], seconds, strict=True)
    )
    for row, bag, label in (
        (row, bag, label) for row, bag, of_bag in zip(bags.index, bags["bag"], named, strict=True) for label in of_bag
    ):
        if label and label not in options.classes:
            what = f"bag {bag} has label {label}, but the run knows only {', '.join(options.classes)}"
            findings.add_problem(content.file, row, what, "correct the label or leave the bag out")


def warn_of_further_classes(
    bags: pd.DataFrame, instance_labels: np.ndarray, options: ReadOptions, findings: Findings
) -> None:
    """Warn of true classes that are the label of no bag, or that the classifier does not know."""
    if options.training:
        known, lack, unless = named_classes(bags), "not the label of any bag", ", unless it is the --background"
    else:
        known, lack, unless = [*(options.classes or ())], "not a class of the run", ""
    names, counts = np.unique(instance_labels[instance_labels != ""], return_counts=True)
    further = ~np.isin(names, known)
    if further.all():
        return  # a problem, which Bags report
    for name, count in zip(names[further], counts[further], strict=True):
        what = f"label {name} of {count_noun(count, 'instance')} is {lack}"
        warning = f"{what}: the classifier cannot predict it, so it counts as wrong{unless}"
        findings.class_warnings[name] = warning
        findings.warn(warning)
