"""Bags: instances in a store, an index into it, offsets that divide the index into bags, and one label per bag."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Unpack

import numpy as np

from ..errors import InputError, count_noun
from .columns import (
    BagColumns,
    Column,
    as_array,
    as_integers,
    as_objects,
    check_lengths,
    group_rows,
    offsets_of,
    one_per_bag,
    pack_column,
    pack_instances,
    take,
)
from .instance_labels import UNKNOWN, encode_instance_labels, none_if_unknown, read_labels, renumber
from .labels import check_not_only_together, encode_bag_labels, refuse_background
from .splitting import divide
from .stores import MappedRows, RowsOnDisk, Store, iterate_chunks
from .validation import as_weights, check_coordinates, check_finite, check_positions, check_store
from .winners import lead_of, voter_counts


class Bags:
    """Bags of instances. The label of a bag is the most common class of its instances, or, if they have weights, the
    class with the largest sum of weights.

    A bag may also have no label, a label that is one of several classes (``"cat|dog"``), or a second label: the
    runner-up. `bag_labels` has all of that; `labels` has the class number where exactly one class is named, else -1.

    ``instance_labels`` are for evaluation only: training gets bags ``without_instance_labels()`` unless its method
    needs them. Those that the user allows training to see are ``training_labels`` instead. Both are indices into
    ``true_classes``: first the ``classes`` of bag labels, then those that only instances have; -1 is an unknown class.

    Args:
        store: All instances: images (N, height, width, channels) as uint8, or vectors (N, d).
        index: Positions in the store, bag after bag.
        offsets: Where each bag begins in the index, and the end: ``store[index[offsets[i]:offsets[i + 1]]]`` is bag i.
        labels: One per bag: names of classes or, with `classes`, numbers; "", None, NaN or -1: no label.
        classes: All classes that can be labels (default: those that occur).
        second_labels: The runner-up of each bag.
        instance_labels: One per position of the index.
        groups: One per bag, such as the patient; a group is not divided.
        coordinates: x and y per position of the index.
        names: One per bag.
        weights: How much each instance counts, above 0.

    >>> Bags.from_lists([[[0.0], [0.1], [0.9]], [[1.0]]], labels=["cat", "dog"])
    Bags(2 bags of 1 to 3, 4 instances of shape (1,), classes: cat, dog)
    """

    background: int | None = None  # the class that does not vote; see `with_background`
    training_labels: np.ndarray | None = None  # (n,) instance labels that training may see; see `training_labels.py`

    def __init__(
        self,
        store: Store | Column,  # (N, height, width, channels) uint8 or (N, d) floating; may be on disk (stores.py)
        index: Column,  # (n,) positions in the store
        offsets: Column,  # (b + 1,)
        labels: Column,  # (b,) class names, or class numbers if `classes` is given; "", None, NaN or -1: no label
        classes: Iterable[str] | None = None,
        *,
        second_labels: Column | None = None,
        instance_labels: Column | None = None,
        groups: Column | None = None,
        coordinates: Column | None = None,
        names: Column | None = None,
        weights: Column | None = None,
    ):
        store = MappedRows(store) if isinstance(store, np.memmap) else store
        self.store: Store = store if isinstance(store, RowsOnDisk) else as_array(store)
        check_store(self.store)
        self.index, self.offsets = as_integers(index, "index"), as_integers(offsets, "offsets")
        check_positions(self.index, self.offsets, len(self.store))
        of_bags = {"labels": labels, "second labels": second_labels, "groups": groups, "names": names}
        check_lengths(of_bags, len(self), "bag")
        of_instances = {"instance labels": instance_labels, "coordinates": coordinates, "weights": weights}
        check_lengths(of_instances, len(self.index), "instance")
        self.names = None if names is None else np.asarray([str(name) for name in names])
        self.groups = None if groups is None else as_array(groups)
        if self.groups is not None and self.groups.dtype == object:  # text and numbers have no common order
            self.groups = self.groups.astype(str)
        self.coordinates = None if coordinates is None else check_coordinates(as_array(coordinates))
        self.weights = None if weights is None else as_weights(weights, self.describe_instance)
        self.bag_labels, self.classes = encode_bag_labels(labels, second_labels, classes, self.describe)
        self.true_classes = self.classes
        self.instance_labels: np.ndarray | None = None
        if instance_labels is not None:
            self.instance_labels, self.true_classes = encode_instance_labels(
                instance_labels, self.classes, classes is not None, self.describe_instance
            )
        check_finite(self.store, self.index, self.describe_instance)

    # ------------------------------------------------------------------ constructors

    @classmethod
    def from_lists(
        cls,
        instances: Sequence[Any],
        labels: Column,
        classes: Iterable[str] | None = None,
        **columns: Unpack[BagColumns],
    ) -> Bags:
        """Make bags from one array, tensor or frame per bag; likewise for instance labels, coordinates and weights. All
        that bags may have besides (`columns`, of this and of the functions below) are arguments of `Bags`, too."""
        store, offsets = pack_instances(instances, columns.get("names"))
        given: dict[str, Any] = {**columns}
        for name in ("instance_labels", "coordinates", "weights"):
            if given.get(name) is not None:
                read = as_objects if name == "instance_labels" else as_array
                given[name] = pack_column(name.replace("_", " "), given[name], offsets, read)
        return cls(store, np.arange(len(store)), offsets, labels, classes, **given)

    @classmethod
    def from_table(
        cls,
        store: Store | Column,
        bag_ids: Column,
        labels: Column,
        classes: Iterable[str] | None = None,
        **columns: Unpack[BagColumns],
    ) -> Bags:
        """Make bags from rows, each with a bag id. Labels (and groups) are given on every row.

        The rows of a bag need not be neighbours. The instances are not copied if they are an array.

        >>> Bags.from_table(np.eye(4), ["a", "b", "a", "a"], [7, 9, 7, 7]).classes
        ('7', '9')
        """
        ids = as_array(bag_ids)
        rows = group_rows(ids)
        of_bags = {"labels": "label", "second_labels": "second label", "groups": "group"}
        given: dict[str, Any] = {"labels": labels, **columns}
        check_lengths({**given, "instances": store}, len(ids), "bag id")
        for name, values in given.items():
            if values is None:
                continue
            column = read_labels(values)[1] if name.endswith("labels") else as_array(values)
            if name in of_bags:
                given[name] = one_per_bag(of_bags[name], column, ids, rows)
            else:
                given[name] = column[rows.index]
        return cls(store, rows.index, rows.offsets, given.pop("labels"), classes, names=rows.names, **given)

    @classmethod
    def from_indices(
        cls,
        store: Store | Column,
        indices: Sequence[Column],
        labels: Column,
        classes: Iterable[str] | None = None,
        **columns: Unpack[BagColumns],
    ) -> Bags:
        """Make bags from one array of positions in a shared store per bag. An instance may be in many bags."""
        arrays = [as_array(positions) if len(positions) else np.empty(0, np.int64) for positions in indices]
        index = np.concatenate(arrays) if arrays else np.empty(0, np.int64)
        return cls(store, index, offsets_of([len(array) for array in arrays]), labels, classes, **columns)

    # ------------------------------------------------------------------ properties

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        sizes, shape, without = self.sizes, self.store.shape[1:], int((~self.bag_labels.known).sum())
        span = f"{sizes.min()} to {sizes.max()}" if sizes.min() != sizes.max() else f"{sizes[0]}"
        shown = f"classes: {', '.join(self.classes[:10])}{', ...' if len(self.classes) > 10 else ''}"
        more = f", {count_noun(without, 'bag')} without a label" if without else ""
        return f"Bags({len(self)} bags of {span}, {len(self.index)} instances of shape {shape}, {shown}{more})"

    @property
    def labels(self) -> np.ndarray:  # (b,)
        """The class number where the label names exactly one class, else -1 (see `bag_labels`)."""
        return self.bag_labels.winners

    @property
    def voting_classes(self) -> np.ndarray:  # the numbers of the classes that a label may name: all but the background
        return np.flatnonzero(np.arange(len(self.classes)) != self.background)

    @property
    def sizes(self) -> np.ndarray:  # (b,)
        return np.diff(self.offsets)

    @property
    def ids(self) -> np.ndarray:  # (n,) the number of each instance's bag
        return np.repeat(np.arange(len(self)), self.sizes)

    def bag_of(self, position: int) -> int:
        return int(np.searchsorted(self.offsets, position, side="right")) - 1

    def positions(self, bags: np.ndarray) -> np.ndarray:
        """Return the positions in the index of the instances of these bags, bag after bag."""
        sizes = self.sizes[bags]
        ends = np.cumsum(sizes)
        return np.repeat(self.offsets[:-1][bags] - (ends - sizes), sizes) + np.arange(ends[-1])

    def describe(self, i: int) -> str:
        return f"bag {i}" if self.names is None else f"bag {i} ({self.names[i]})"

    def describe_instance(self, position: int) -> str:
        bag = self.bag_of(position)
        return f"{self.describe(bag)}, instance {position - self.offsets[bag]}"

    def bag_names(self) -> list[str]:
        """The name of each bag, or its number if bags have no names."""
        return [str(number) for number in range(len(self))] if self.names is None else self.names.tolist()

    def bag(self, i: int) -> np.ndarray:
        """Return the instances of one bag."""
        return self.store[self.index[self.offsets[i] : self.offsets[i + 1]]]

    def instances(self) -> np.ndarray:
        """Return all instances, bag after bag."""
        return self.store[self.index]

    @property
    def labelled(self) -> bool:
        """Whether any bag has a label."""
        return bool(self.bag_labels.known.any())

    @property
    def fully_known(self) -> np.ndarray:  # (b,) whether the true class of every instance of the bag is known
        if self.instance_labels is None:
            return np.zeros(len(self), bool)
        return np.logical_and.reduceat(self.instance_labels != UNKNOWN, self.offsets[:-1])

    def class_counts(self, weighted: bool = False) -> np.ndarray:  # (b, true classes)
        """Return how many instances of each bag are of each true class; unknown ones are not counted.

        With `weighted`, return the sums of their weights if they have weights.
        """
        if self.instance_labels is None:
            raise InputError("these bags have no instance labels: counts of true classes need them")
        return self.count_classes(self.instance_labels, len(self.true_classes), weighted)

    def count_classes(self, codes: np.ndarray, n_classes: int, weighted: bool) -> np.ndarray:  # (b, classes)
        """The same for the classes (n,) that are given, -1 if unknown."""
        known = codes != UNKNOWN
        weights = self.weights[known] if weighted and self.weights is not None else None
        cells = (self.ids * n_classes + codes)[known]
        return np.bincount(cells, weights, minlength=len(self) * n_classes).reshape(len(self), -1)

    def majority_proportions(self) -> np.ndarray:  # (b,) of the (weights of) instances that vote; 0 if none does
        return lead_of(self._true_votes())[0]

    def tie_rate(self) -> float:
        """Return the share of bags in which two or more classes have the top count."""
        return float((lead_of(self._true_votes())[1] == 0).mean())

    def _true_votes(self) -> np.ndarray:  # (b, true classes)
        counts = self.class_counts(weighted=True)
        if not self.fully_known.all():
            what = f"{self.describe(int(np.argmin(self.fully_known)))} has instances of unknown class"
            raise InputError(f"{what}, and a majority needs all: use bags.subset(bags.fully_known)")
        return voter_counts(counts, self.background)

    def fingerprint(self) -> str:
        """Return a short hash of everything that training and evaluation see of these bags.

        The fingerprint of bags `without_instance_labels()` covers what every method may see.
        """
        digest = hashlib.blake2b(digest_size=16)
        more: tuple[object, ...] = () if self.background is None else (self.background,)
        if self.classes != self.true_classes:
            more += (self.classes,)
        digest.update(repr((self.store.shape[1:], self.store.dtype.str, self.true_classes, *more)).encode())
        labels = (*self.bag_labels.arrays(), self.instance_labels, self.training_labels, self.weights)
        for array in chain((self.offsets, *labels), iterate_chunks(self.store, self.index)):
            if array is not None:
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()

    # ------------------------------------------------------------------ new bags from these

    def with_labels(self) -> Bags:
        """Return the bags that have a label; these bags themselves if all have one."""
        known = self.bag_labels.known
        return self if known.all() else self.subset(known)

    def without_instance_labels(self) -> Bags:
        """Return the same bags without instance labels: all that training and model selection may see."""
        return self._with(instance_labels=None, true_classes=self.classes)

    def with_background(self, name: str) -> Bags:
        """Return the same bags with one class that does not vote. A new class is appended to the classes.

        >>> bags = Bags.from_lists([np.ones((2, 3))] * 2, labels=["tumour", "stroma"]).with_background("normal")
        >>> bags.classes, bags.background
        (('stroma', 'tumour', 'normal'), 2)
        """
        classes = tuple(dict.fromkeys((*self.classes, name)))
        number = classes.index(name)
        refuse_background(self.bag_labels, number, name, self.describe)
        if not name.strip() or len(classes) < 3:
            raise InputError(f"classes {', '.join(classes)}, background {name!r}: give it a name, and 2 other classes")
        labels = self.bag_labels.with_classes(len(classes))
        return self._with_classes(classes, background=number, bag_labels=labels)

    def without_classes(self, numbers: Sequence[int]) -> Bags:
        """Return the same bags, in which these classes are the label of none: bags with such a label have no label, and
        instances of these classes are of a class that cannot be predicted.

        >>> bags = Bags.from_lists([np.ones((2, 3))] * 3, labels=["oak", "pine", "elm"]).without_classes([0])
        >>> bags.classes, bags.labels.tolist(), bags.true_classes
        (('oak', 'pine'), [0, 1, -1], ('oak', 'pine', 'elm'))
        """
        if not numbers:
            return self
        kept = tuple(name for number, name in enumerate(self.classes) if number not in numbers)
        return self._with_classes(kept, bag_labels=self.bag_labels.without_classes(numbers))

    def _with_classes(self, classes: tuple[str, ...], **changes: Any) -> Bags:
        true_classes = tuple(dict.fromkeys((*classes, *self.true_classes)))
        codes = renumber(self.instance_labels, self.true_classes, true_classes)
        return self._with(classes=classes, true_classes=true_classes, instance_labels=codes, **changes)

    def with_other_labels(self, labels: Mapping[int, str]) -> Bags:
        """Return the same bags, those with these numbers with another label. A runner-up of such a bag is left out.

        >>> bags = Bags.from_lists([np.ones((2, 3))] * 2, labels=["oak", "pine"])
        >>> bags.with_other_labels({1: "oak"}).labels.tolist()
        [0, 0]
        """
        if not labels:
            return self
        bags = np.array([*labels], np.int64)

        def describe(number: int) -> str:
            return self.describe(int(bags[number]))

        others, _ = encode_bag_labels([*labels.values()], None, self.classes, describe)
        if self.background is not None:
            refuse_background(others, self.background, self.classes[self.background], describe)
        return self._with(bag_labels=self.bag_labels.with_others(bags, others))

    def check_labels(self) -> None:
        check_not_only_together(self.bag_labels, self.classes, self.describe)

    def subset(self, bags: Column) -> Bags:
        """Return the bags with these numbers, in this order, or those selected by a mask. The store is not copied."""
        chosen = as_array(bags)
        numbers = np.arange(len(self))[chosen] if chosen.size else chosen
        if len(numbers) == 0:
            raise InputError("the subset is empty: give at least one bag number, or bags with a label")
        positions = self.positions(numbers)
        return self._with(
            index=self.index[positions],
            offsets=offsets_of(self.sizes[numbers]),
            bag_labels=self.bag_labels.take(numbers),
            instance_labels=none_if_unknown(take(self.instance_labels, positions)),
            training_labels=none_if_unknown(take(self.training_labels, positions)),
            groups=take(self.groups, numbers),
            coordinates=take(self.coordinates, positions),
            names=take(self.names, numbers),
            weights=take(self.weights, positions),
        )

    def one_per_instance(self) -> Bags:
        """Return every instance of these bags once, each in a bag of its own; the labels have no meaning.

        >>> Bags.from_indices(np.eye(4), [[0, 1], [1, 3]], labels=["a", "b"]).one_per_instance().index.tolist()
        [0, 1, 3]
        """
        used = np.unique(self.index)
        alone = Bags(self.store, used, np.arange(len(used) + 1), np.zeros(len(used), np.int64), self.classes)
        return alone._with(background=self.background)

    def split(self, fractions: Sequence[float], seed: int = 0) -> tuple[Bags, ...]:
        """Split into parts of these fractions, stratified by label. Bags of one group stay together.

        Bags without a label are divided like those of one more class; call `with_labels()` first to leave them out.

        >>> bags = Bags.from_lists([np.ones((2, 3))] * 10, labels=["a", "b"] * 5)
        >>> [len(part) for part in bags.split([0.6, 0.4])]
        [6, 4]
        """
        parts = self.divide(fractions, seed)
        return tuple(self.subset(parts == part) for part in range(len(fractions)))

    def divide(self, fractions: Sequence[float], seed: int = 0) -> np.ndarray:  # (b,)
        """Return the number of the part that each bag has in `split`."""
        return divide(self.bag_labels.strata, self.groups, fractions, seed)

    def _with(self, **changes: Any) -> Bags:
        """Return a copy with some fields changed, without checks: a part of valid bags is valid."""
        assert not any(isinstance(getattr(Bags, name, None), property) for name in changes)  # such as `labels`
        other = object.__new__(Bags)
        other.__dict__.update(self.__dict__ | changes)
        return other
