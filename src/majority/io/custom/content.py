"""Content: the arrays read from a table or a folder, and the bags that are made from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...data.bags import Bags
from ...data.column_encoder import ColumnEncoder
from ...data.instance_labels import UNKNOWN
from ...data.labels import split_label
from ...data.stores import Store
from ...errors import InputError
from ..embedding import Embedding
from ..image_summary import ImageFileSummary
from .custom_bags import CustomBags
from .findings import Findings, counted
from .options import ReadOptions

NO_CLASS = "unlabelled"  # stands for the classes of bags without labels, where no classifier says which there are


class Facts(NamedTuple):
    """What a table says of the instances."""

    labels: np.ndarray | None = None  # (n,) text, "" if unknown; None if all are unknown
    coordinates: np.ndarray | None = None  # (n, 2)
    weights: np.ndarray | None = None  # (n,)


@dataclass
class Content:
    """What a source contains, sorted by bag; it is valid only if the findings have no problem."""

    file: Path  # the table
    bags: pd.DataFrame  # columns: bag; label, second_label, split and group if given
    sizes: np.ndarray  # (b,)
    store: Store | None  # (N, ...); None if images cannot be read
    index: np.ndarray  # (n,) positions in the store
    facts: Facts
    paths: np.ndarray | None = None  # (N,)
    encoder: ColumnEncoder | None = None
    image_files: ImageFileSummary | None = None
    numbered_within_bags: bool = False
    embedding: Embedding | None = None

    def column(self, name: str) -> np.ndarray | None:
        return self.bags[name].to_numpy(str) if name in self.bags else None

    def _find_unknown(self, classes: tuple[str, ...], findings: Findings) -> np.ndarray:  # (b,)
        """The bags with a label that a classifier cannot predict, such as one of few training bags."""
        labels, seconds = self.bags["label"].tolist(), self.bags.get("second_label", self.bags["label"]).tolist()
        known = {*classes, ""}
        named = (
            {*split_label(label, classes), *split_label(second, classes)}
            for label, second in zip(labels, seconds, strict=True)
        )
        unknown = np.array([not names <= known for names in named])
        if unknown.all():
            known_ones = ", ".join(classes)
            raise InputError(f"no bag has a label that the run knows ({known_ones}): correct the labels of bags")
        if unknown.any():
            first = int(unknown.argmax())
            findings.warn(
                f"{counted(int(unknown.sum()), 'bag')} a label that the run does not know (e.g. {labels[first]} of bag "
                f"{self.bags['bag'].iloc[first]}): left out of the figures of bags"
            )
        return unknown

    def to_custom_bags(self, name: str, options: ReadOptions, findings: Findings) -> CustomBags:
        assert self.store is not None  # otherwise the findings have problems
        labels, seconds = (self.column(column) if options.labels else None for column in ("label", "second_label"))
        if labels is not None and options.classes is not None:
            unknown = self._find_unknown(options.classes, findings)
            labels, seconds = (None if texts is None else np.where(unknown, "", texts) for texts in (labels, seconds))
        if labels is not None and not (labels != "").any():
            labels = seconds = None
        classes = options.classes
        if classes is None:
            names = [] if labels is None else [part for text in labels.tolist() for part in split_label(text)]
            known = self.facts.labels if labels is None and self.facts.labels is not None else names
            classes = sorted_classes({*known, *(() if seconds is None else seconds)} - {""})
        bags = Bags(
            self.store,
            self.index,
            np.concatenate([[0], np.cumsum(self.sizes)]),
            np.full(len(self.bags), UNKNOWN) if labels is None else labels,
            classes or (NO_CLASS,),
            second_labels=seconds,
            instance_labels=self.facts.labels,
            groups=self.column("group"),
            coordinates=self.facts.coordinates,
            names=self.column("bag"),
            weights=self.facts.weights,
        )
        return CustomBags(
            name,
            bags,
            split=self.column("split") if options.labels else None,
            paths=self.paths,
            encoder=self.encoder,
            numbered_within_bags=self.numbered_within_bags,
            warnings=tuple(findings.warnings),
            image_files=self.image_files,
            embedding=self.embedding,
            for_training=options.training,
        )


def sorted_classes(names: set[str]) -> tuple[str, ...]:
    """Sorted by value if all names are numbers, otherwise alphabetically.

    >>> sorted_classes({"10", "9", "2"}), sorted_classes({"b", "10", "a"})
    (('2', '9', '10'), ('10', 'a', 'b'))
    """
    try:
        return tuple(sorted(sorted(names), key=float))
    except ValueError:
        return tuple(sorted(names))
