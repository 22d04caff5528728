"""Content: the arrays read from a table or a folder, and the bags that are made from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ...data.bags import Bags
from ...data.column_encoder import ColumnEncoder
from ...data.columns import offsets_of
from ...data.instance_labels import UNKNOWN
from ...data.labels import split_label
from ...data.stores import Store
from ...data.validation import LARGEST_COORDINATE, WEIGHT_CURE, is_weight
from ...errors import InputError
from ..embedding import Embedding
from ..image_summary import ImageFileSummary
from .custom_bags import CustomBags
from .findings import Findings, ProblemError
from .options import ReadOptions
from .tables import as_numbers, as_text

NO_CLASS = "unlabelled"  # stands for the classes of bags without labels, where no classifier says which there are


@dataclass
class Content:
    """What a source contains, sorted by bag; it is valid only if the findings have no problem."""

    file: Path  # the table
    bags: pd.DataFrame  # columns: bag; label, second_label, split and group if given
    sizes: np.ndarray  # (b,)
    store: Store | None  # (N, ...); None if images cannot be read
    index: np.ndarray  # (n,) positions in the store
    facts: dict[str, np.ndarray] = field(default_factory=dict)  # (n, ...) of instances: labels, coordinates, weights
    paths: np.ndarray | None = None  # (N,)
    encoder: ColumnEncoder | None = None
    image_files: ImageFileSummary | None = None
    numbered_within_bags: bool = False
    embedding: Embedding | None = None


def has_instance_labels(frame: pd.DataFrame) -> bool:
    return "label" in frame and bool((frame["label"] != "").any())


def read_facts(
    frame: pd.DataFrame, path: Path, order: np.ndarray, options: ReadOptions, findings: Findings
) -> dict[str, np.ndarray]:
    """What the table says of the instances, in this order."""
    facts: dict[str, np.ndarray] = {}
    if options.labels and has_instance_labels(frame):
        facts["instance_labels"] = frame["label"].to_numpy()
    if ("x" in frame) != ("y" in frame):
        raise ProblemError(path, 1, "there is only one of the columns x and y", "give both x and y, or neither")
    if "x" in frame:
        cure = f"write a number of up to ±{LARGEST_COORDINATE:,}, or remove the columns x and y"
        sides = [_numbers(frame[name], path, _is_coordinate, cure, findings) for name in ("x", "y")]
        places = np.stack(sides, axis=1)
        whole = _is_coordinate(places).all() and (places % 1 == 0).all()
        facts["coordinates"] = places.astype(np.int64) if whole else places
    if "weight" in frame:
        cure = f"{WEIGHT_CURE}; rename the column if it is a feature"
        facts["weights"] = _numbers(frame["weight"], path, is_weight, cure, findings)
        findings.warn(
            "column weight is how much each instance counts: the label of a bag is the class with the largest sum of "
            "weights; rename the column if it is a feature"
        )
    return {name: values[order] for name, values in facts.items()}


def _is_coordinate(values: np.ndarray) -> np.ndarray:
    return np.abs(values) <= LARGEST_COORDINATE


def _numbers(column: pd.Series, path: Path, is_right: Any, cure: str, findings: Findings) -> np.ndarray:
    numbers = as_numbers(column)
    for row, cell in as_text(column[~is_right(numbers)]).items():
        findings.add_problem(path, row, f"{column.name} is {cell or 'empty'}", cure)
    return numbers


def make_bags(content: Content, name: str, options: ReadOptions, findings: Findings) -> CustomBags:
    assert content.store is not None  # otherwise the findings have problems
    columns = {str(column): content.bags[column].to_numpy(str) for column in content.bags}
    labels, seconds = (columns.get(column) if options.labels else None for column in ("label", "second_label"))
    if labels is not None and options.classes is not None:
        unknown = _find_unknown(columns, options.classes, findings)
        labels, seconds = (None if texts is None else np.where(unknown, "", texts) for texts in (labels, seconds))
    if labels is not None and not (labels != "").any():
        labels = seconds = None
    classes = options.classes
    if classes is None:
        names = {part for text in ([] if labels is None else labels) for part in split_label(text)}
        if labels is None:
            names = {*content.facts.get("instance_labels", ())}
        classes = sorted_classes({*names, *([] if seconds is None else seconds)} - {""})
    bags = Bags(
        content.store,
        content.index,
        offsets_of(content.sizes),
        np.full(len(content.bags), UNKNOWN) if labels is None else labels,
        classes or (NO_CLASS,),
        second_labels=seconds,
        groups=columns.get("group"),
        names=columns["bag"],
        **content.facts,
    )
    return CustomBags(
        name,
        bags,
        split=columns.get("split") if options.labels else None,
        paths=content.paths,
        encoder=content.encoder,
        numbered_within_bags=content.numbered_within_bags,
        files=content.image_files,
        embedding=content.embedding,
        for_training=options.training,
    )


def _find_unknown(columns: dict[str, np.ndarray], classes: tuple[str, ...], findings: Findings) -> np.ndarray:  # (b,)
    """The bags with a label that a classifier cannot predict, such as one of few training bags."""
    labels, known = columns["label"].tolist(), {*classes, ""}
    seconds = columns.get("second_label", columns["label"]).tolist()
    unknown = np.array(
        [
            not {*split_label(label, classes), *split_label(second, classes)} <= known
            for label, second in zip(labels, seconds, strict=True)
        ]
    )
    if unknown.all():
        raise InputError(f"no bag has a label that the run knows ({', '.join(classes)}): correct the labels of bags")
    if unknown.any():
        first = int(unknown.argmax())
        findings.warn(
            f"labels that the run does not know: {unknown.sum():,} (e.g. {labels[first]} of bag "
            f"{columns['bag'][first]}): left out of the figures of bags"
        )
    return unknown


def sorted_classes(names: set[str]) -> tuple[str, ...]:
    """Sorted by value if all names are numbers, otherwise alphabetically.

    >>> sorted_classes({"10", "9", "2"}), sorted_classes({"b", "10", "a"})
    (('2', '9', '10'), ('10', 'a', 'b'))
    """
    try:
        return tuple(sorted(sorted(names), key=float))
    except ValueError:
        return tuple(sorted(names))
