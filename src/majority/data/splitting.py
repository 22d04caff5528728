"""Which part each bag goes to when bags are split: stratified by label, groups kept together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import InputError

MIN_BAGS = 3  # by default, a class that is the label of fewer bags takes no part as a label


def divide(labels: np.ndarray, groups: np.ndarray | None, fractions: Sequence[float], seed: int) -> np.ndarray:
    """(b,) labels -> (b,) the number of the part of each bag; bags of one group are in one part."""
    shares, rng = np.asarray(fractions, float), np.random.default_rng(seed)
    if not (shares > 0).all() or abs(shares.sum() - 1) > 1e-6:
        raise InputError(f"fractions {shares.tolist()} must be positive and sum to 1")
    if groups is None:
        parts, found = stratified_split(labels, shares / shares.sum(), rng), f"{len(labels)} bags"
    else:
        names, numbers = np.unique(groups, return_inverse=True)
        parts, found = group_split(numbers, labels, shares, rng), f"{len(names)} groups of bags"
    if len(np.unique(parts)) < len(shares):
        what = f"{found} cannot be divided into {', '.join(f'{share:.0%}' for share in shares)}"
        raise InputError(f"{what} without an empty part: give more, or say where each bag goes (split)")
    return parts


def training_part(fractions: np.ndarray) -> int | None:
    """The number of the largest part, which is for training; None for folds of equal size."""
    largest = int(fractions.argmax())
    return largest if (np.delete(fractions, largest) < fractions[largest] - 1e-9).all() else None


def stratified_split(labels: np.ndarray, fractions: np.ndarray, rng: np.random.Generator) -> np.ndarray:  # (b,) -> (b,)
    """Give each part its fraction of the bags of each label, rounded so that the sizes of the parts come out right.

    A label with too few bags for every part has at least one bag in the largest part, which is for training.

    >>> parts = stratified_split(np.arange(20) % 10, np.array([0.8, 0.2]), np.random.default_rng(0))
    >>> np.bincount(parts).tolist()
    [16, 4]
    """
    totals = np.bincount(labels)  # (C,)
    exact = fractions[:, None] * totals  # (parts, C)
    counts = np.floor(exact + 1e-9).astype(np.int64)
    largest = training_part(fractions)
    if largest is not None:
        counts[largest] = np.maximum(counts[largest], totals > 0)
    for label in rng.permutation(len(totals)):
        may_round_up = exact[:, label] - counts[:, label] > 1e-9
        lacking = np.where(may_round_up, (exact - counts).sum(axis=1), -np.inf)
        left = totals[label] - counts[:, label].sum()
        counts[np.argsort(-lacking, kind="stable")[:left], label] += 1
    parts = np.empty(len(labels), dtype=np.int64)
    for label, numbers in enumerate(counts.T):
        shuffled = rng.permutation(np.flatnonzero(labels == label))
        parts[shuffled] = np.repeat(np.arange(len(fractions)), numbers)
    return parts


def group_split(
    groups: np.ndarray, labels: np.ndarray, fractions: np.ndarray, rng: np.random.Generator
) -> np.ndarray:  # (b,) -> (b,)
    """Assign groups from the largest to the smallest, each to the part that lacks its labels most.

    The last groups go to parts that are still empty. A label that the largest part, which is for training, would lack
    has its smallest group there.
    """
    table = np.zeros((groups.max() + 1, labels.max() + 1))  # (groups, C)
    np.add.at(table, (groups, labels), 1)
    total = np.maximum(table.sum(axis=0), 1)
    lacking = fractions[:, None] * table.sum(axis=0)  # (parts, C)
    part_of = np.full(len(table), -1)
    order = rng.permutation(len(table))
    for assigned, group in enumerate(order[np.argsort(-table[order].sum(axis=1), kind="stable")]):
        need = (table[group] * lacking / total).sum(axis=1) + 1e-3 * lacking.sum(axis=1) / len(labels)
        empty = ~np.isin(np.arange(len(fractions)), part_of)
        if empty.sum() >= len(table) - assigned:
            need[~empty] = -np.inf
        part_of[group] = need.argmax()
        lacking[part_of[group]] -= table[group]
    largest = training_part(fractions)
    if largest is not None:
        for label in np.flatnonzero(table[part_of == largest].sum(axis=0) == 0):
            having = np.flatnonzero(table[:, label])
            group = having[table[having].sum(axis=1).argmin()]
            if (part_of == part_of[group]).sum() > 1:  # no part becomes empty
                part_of[group] = largest
    return part_of[groups]
