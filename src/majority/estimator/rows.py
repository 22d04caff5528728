"""Bags from what scikit-learn passes: rows, and on each row the label and the id of its bag. Bag accuracy of these."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest

from ..data.bags import Bags
from ..data.columns import as_objects, find_missing
from ..data.labels import SEPARATOR, split_label
from ..errors import InputError


def make_bags(
    rows: np.ndarray,
    y: ArrayLike,
    groups: ArrayLike | None,
    second_labels: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> tuple[np.ndarray, Bags]:
    """The classes, and the bags; some may have no label, one of several, or a runner-up."""
    ids = np.arange(len(rows)) if groups is None else _bag_ids(groups, rows)
    given = [as_objects(values) for values in (y, second_labels) if values is not None]
    check_consistent_length(rows, *given, weights)
    names: dict[str, Any] = {}  # text -> class as the caller writes it
    columns = []
    for column in given:
        codes, values = pd.factorize(column)  # -1: missing
        texts = np.array([*map(str, values), ""], object)
        for value, text in zip(values, texts[:-1], strict=True):
            parts = split_label(text) if isinstance(value, str) else (value,)
            names |= {str(part): part for part in parts if text}
        columns.append(texts[codes])
    classes = np.unique(np.array([*names.values()]))
    seconds = columns[1] if len(columns) > 1 else None
    labelled = [str(name) for name in classes.tolist()]
    of_rows = None if weights is None else np.asarray(weights)
    bags = Bags.from_table(rows, ids, columns[0], labelled, second_labels=seconds, weights=of_rows)
    bags.check_labels()
    return classes, bags


def is_special(y: ArrayLike) -> bool:
    """Whether labels are missing, or name several classes."""
    column = as_objects(y)
    if column.ndim != 1 or column.dtype.kind not in "OfU":
        return False
    return bool(pd.isna(column).any()) or any(
        isinstance(text, str) and (not text or SEPARATOR in text) for text in column
    )


def _bag_ids(groups: ArrayLike, rows: np.ndarray) -> np.ndarray:
    ids: np.ndarray = column_or_1d(groups)
    check_consistent_length(rows, ids)
    refuse_missing(ids, "bag id")
    return ids.astype(str) if ids.dtype == object else ids


def refuse_missing(values: ArrayLike, what: str) -> None:
    column = np.asarray(values, dtype=object).ravel()
    if len(rows := find_missing(column)):
        raise InputError(f"row {rows[0]} has no {what} ({column[rows[0]]}): give every row the {what} of its bag")


# ---------------------------------------------------------------------- bag accuracy


def share_of_bags_right(
    y: ArrayLike, predicted: np.ndarray, groups: ArrayLike | None, weights: ArrayLike | None = None
) -> float:
    """Over the bags with a label; right is any of several classes. Without groups, the share of rows."""
    if groups is None:
        refuse_missing(y, "label")
        return float(accuracy_score(column_or_1d(y), predicted))
    _, bags = make_bags(np.zeros((len(predicted), 1)), y, groups, weights=weights)
    classes, codes = np.unique(predicted, return_inverse=True)
    winners = bags.count_classes(codes[bags.index], len(classes), weighted=True).argmax(axis=1)  # (b,)
    number = {name: i for i, name in enumerate(bags.classes)}
    numbers = np.array([number.get(str(name), -1) for name in classes.tolist()])[winners]  # -1: no label has that name
    right = bags.bag_labels.allows(np.maximum(numbers, 0)) & (numbers >= 0)
    return float(right[bags.bag_labels.known].mean())


class BagAccuracy:
    """Scorer: share of bags whose most common predicted class is their label. It requests groups by metadata routing.

    `bag_accuracy(estimator, X, y, groups)` works with any classifier of rows.

    >>> from sklearn.dummy import DummyClassifier
    >>> model = DummyClassifier().fit([[0.0], [1.0], [2.0]], ["oak", "oak", "pine"])
    >>> bag_accuracy(model, [[0.0], [1.0], [2.0]], ["oak", "oak", "pine"], groups=[1, 1, 2])
    0.5
    """

    def __call__(
        self,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        groups: ArrayLike | None = None,
        instance_weights: ArrayLike | None = None,
    ) -> float:
        if groups is None:
            raise InputError(
                "bag_accuracy got no groups: pass groups=bag_ids (for GridSearchCV and others, first call "
                "sklearn.set_config(enable_metadata_routing=True))"
            )
        return share_of_bags_right(y, estimator.predict(X), groups, instance_weights)

    def __repr__(self) -> str:
        return "bag_accuracy"

    def get_metadata_routing(self) -> MetadataRequest:
        request = MetadataRequest(owner=repr(self))
        request.score.add_request(param="groups", alias=True)
        request.score.add_request(param="instance_weights", alias=True)
        return request


bag_accuracy = BagAccuracy()
