"""Bag accuracy of predicted rows, and the scorer `bag_accuracy`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest

from ..data.bags import Bags
from ..errors import InputError
from .rows import bag_ids, is_special, make_special_bags, refuse_missing, weights_of


class BagAccuracy:
    """Scorer: share of bags whose most common predicted class is their label. It requests groups by metadata routing.

    `bag_accuracy(estimator, X, y, groups)` works with any classifier of rows.
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


def share_of_bags_right(
    y: ArrayLike, predicted: np.ndarray, groups: ArrayLike | None, weights: ArrayLike | None = None
) -> float:
    if groups is not None and is_special(y):
        return _special_bag_accuracy(y, predicted, groups, weights)
    refuse_missing(y, "label")
    labels: np.ndarray = column_or_1d(y)
    check_consistent_length(labels, predicted)
    if groups is None:
        return float(accuracy_score(labels, predicted))
    classes, codes = np.unique(predicted, return_inverse=True)
    votes = np.eye(len(classes), dtype=np.float32)[codes]  # (n, C)
    bags = Bags.from_table(votes, bag_ids(groups, len(labels)), labels.astype(str))
    counts = _count_votes(bags.instances(), bags, weights)  # (b, C)
    bag_labels = labels[bags.index[bags.offsets[:-1]]]  # (b,)
    return float((classes[counts.argmax(axis=1)] == bag_labels).mean())


def _special_bag_accuracy(y: ArrayLike, predicted: np.ndarray, groups: ArrayLike, weights: ArrayLike | None) -> float:
    """Over the bags with a label; right is any of several classes."""
    _, bags = make_special_bags(np.zeros((len(predicted), 1)), y, None, groups)
    classes, codes = np.unique(predicted, return_inverse=True)
    votes = np.eye(len(classes), dtype=np.int64)[codes[bags.index]]  # (n, classes)
    winners = _count_votes(votes, bags, weights).argmax(axis=1)  # (b,)
    number = {name: i for i, name in enumerate(bags.classes)}
    numbers = np.array([number.get(str(name), -1) for name in classes.tolist()])[winners]  # -1: no label has that name
    right = bags.bag_labels.allows(np.maximum(numbers, 0)) & (numbers >= 0)
    return float(right[bags.bag_labels.known].mean())


def _count_votes(votes: np.ndarray, bags: Bags, weights: ArrayLike | None) -> np.ndarray:  # (n, C) -> (b, C)
    """Rows are in the order of the bags."""
    if weights is not None:
        votes = votes * weights_of(bags, weights)[:, None]
    sums: np.ndarray = np.add.reduceat(votes, bags.offsets[:-1])
    return sums
