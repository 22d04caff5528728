"""Instance labels that training may use: only where the user asks for it, and then no figure is computed from them."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .bags import Bags
from .columns import Column
from .instance_labels import UNKNOWN, encode_instance_labels, none_if_unknown
from .stores import Store


def use_instance_labels(bags: Bags, per_class: int | None = None, seed: int = 0) -> Bags:
    """The same bags, with known instance labels moved from `instance_labels` to `training_labels`.

    With `per_class`, only those of so many random instances of each class are moved, or of all that there are. An
    instance that is in several bags is drawn once and has its label in all of them. Classes that are the label of no
    bag are not moved: a classifier cannot predict them.

    >>> bags = Bags.from_lists([np.ones((3, 2))], ["a"], ["a", "b"], instance_labels=[[0, 0, 1]])
    >>> few = use_instance_labels(bags, per_class=1)
    >>> sorted(few.training_labels.tolist()), sorted(few.instance_labels.tolist())
    ([-1, 0, 1], [-1, -1, 0])
    """
    usable, codes = usable_labels(bags), bags.instance_labels
    if codes is None or not usable.any():
        cure = "fill the cells of some instances (column label), or do not ask to use instance labels"
        raise InputError(f"no instance of the training bags has a label that could be used: {cure}")
    if per_class is not None:
        if per_class < 1:
            raise InputError(f"{per_class} instance labels per class: give 1 or more")
        usable &= np.isin(bags.index, _draw(bags.index[usable], codes[usable], per_class, seed))
    before = UNKNOWN if bags.training_labels is None else bags.training_labels
    left = none_if_unknown(np.where(usable, UNKNOWN, codes))
    return bags._with(training_labels=np.where(usable, codes, before), instance_labels=left)


def usable_labels(bags: Bags) -> np.ndarray:  # (n,)
    """Whether the class of each instance is known, and a classifier can predict it."""
    codes = np.full(len(bags.index), UNKNOWN) if bags.instance_labels is None else bags.instance_labels
    return (codes != UNKNOWN) & (codes < len(bags.classes))


def with_training_labels(bags: Bags, labels: Column) -> Bags:
    """The same bags with the labels of some instances: one entry per instance of the store, empty where unknown."""
    codes, classes = encode_instance_labels(labels, bags.classes, False, lambda row: f"row {row}")
    if codes is None:
        raise InputError("instance labels: no instance has one: leave them out, or label some")
    if classes != bags.classes:
        name, row = classes[len(bags.classes)], int(np.argmax(codes == len(bags.classes)))
        raise InputError(f"row {row} has instance label {name}, which is the label of no bag: correct it, or empty it")
    return bags._with(training_labels=none_if_unknown(codes[bags.index]))


def _draw(positions: np.ndarray, codes: np.ndarray, per_class: int, seed: int) -> np.ndarray:
    """So many different positions of each class."""
    rng = np.random.default_rng([seed, per_class])
    order = rng.permutation(len(positions))
    instances, first = np.unique(positions[order], return_index=True)
    shuffled = np.argsort(first)  # the order of the draw, each instance once
    instances, classes = instances[shuffled], codes[order][first[shuffled]]
    chosen = [instances[classes == number][:per_class] for number in np.unique(classes)]
    return np.concatenate(chosen)


def used_instances(bags: Bags) -> np.ndarray:
    """The positions in the store of the instances whose labels training uses, each once."""
    if bags.training_labels is None:
        return np.empty(0, np.int64)
    return np.unique(bags.index[bags.training_labels != UNKNOWN])


def without_labels_of(bags: Bags, store: Store, positions: np.ndarray) -> Bags:
    """The same bags, in which the classes of these instances of the store are unknown: they were learned from."""
    if bags.instance_labels is None or bags.store is not store:
        return bags
    known = np.where(np.isin(bags.index, positions), UNKNOWN, bags.instance_labels)
    return bags._with(instance_labels=none_if_unknown(known))
