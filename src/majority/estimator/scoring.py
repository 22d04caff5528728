"""Bag accuracy of predicted rows, and the scorer `bag_accuracy`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import accuracy_score
from sklearn.utils import check_consistent_length, column_or_1d
from sklearn.utils.metadata_routing import MetadataRequest

from ..errors import InputError
from .rows import make_special_bags, refuse_missing, weights_of


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


def share_of_bags_right(
    y: ArrayLike, predicted: np.ndarray, groups: ArrayLike | None, weights: ArrayLike | None = None
) -> float:
    """Over the bags with a label; right is any of several classes. Without groups, the share of rows."""
    if groups is None:
        refuse_missing(y, "label")
        labels: np.ndarray = column_or_1d(y)
        check_consistent_length(labels, predicted)
        return float(accuracy_score(labels, predicted))
    _, bags = make_special_bags(np.zeros((len(predicted), 1)), y, None, groups)
    classes, codes = np.unique(predicted, return_inverse=True)
    votes = np.eye(len(classes))[codes[bags.index]]  # (n, classes), in the order of the bags
    if weights is not None:
        votes = votes * weights_of(bags, weights)[:, None]
    winners = np.add.reduceat(votes, bags.offsets[:-1]).argmax(axis=1)  # (b,)
    number = {name: i for i, name in enumerate(bags.classes)}
    numbers = np.array([number.get(str(name), -1) for name in classes.tolist()])[winners]  # -1: no label has that name
    right = bags.bag_labels.allows(np.maximum(numbers, 0)) & (numbers >= 0)
    return float(right[bags.bag_labels.known].mean())
