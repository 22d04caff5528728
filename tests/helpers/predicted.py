"""Predictions that are made up from numbers of instances."""

import numpy as np

from majority import Bags
from majority.data.labels import BagLabels
from majority.predict.predictions import Predictions


def predicted(labels, counts, by_method=None, classes=None, background=None):
    """Labels of bags, -1 if a bag has none, and (b, C) how many of its instances are predicted as each class."""
    counts = np.asarray(counts, int)
    classes = tuple(classes or map(str, range(counts.shape[1])))
    offsets = np.cumsum([0, *counts.sum(axis=1)])
    guess = np.concatenate([np.repeat(np.arange(counts.shape[1]), row) for row in counts])
    bags = Bags(np.zeros((1, 1), np.float32), np.zeros(len(guess), int), offsets, np.zeros(len(counts), int), classes)
    bags = bags._with(bag_labels=BagLabels.of(labels, len(classes)))
    by_method = None if by_method is None else np.asarray(by_method)
    return Predictions(bags, classes, guess, np.full(len(guess), 0.9), by_method, background)
