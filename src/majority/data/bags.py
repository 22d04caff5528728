"""Bags: instances in a store, an index into it, offsets that cut the index into bags, a label a bag."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..errors import InputError
from .background import lead_of, place_background, voter_counts
from .bag_folder import REQUIRED_ARRAYS, damaged_folder, read_bag_folder, write_bag_folder
from .instance_labels import UNKNOWN, as_label_column, encode_instance_labels, joined, renumber
from .splitting import group_split, stratified_split
from .stores import RowsOnDisk, iterate_chunks, wrap_memmap
from .validation import (
    as_array,
    check_coordinates,
    check_lengths,
    check_positions,
    check_store,
    encode,
    first_not_finite,
    missing,
    name_classes,
    sortable,
    whole_numbers,
)

OPTIONAL_ARRAYS = ("coordinates", "groups", "names")


class Bags:
    """Bags of instances, each bag with the label that most of its instances have.

    Bag ``i`` holds the instances ``store[index[offsets[i]:offsets[i + 1]]]``. Nothing is padded and
    bags may be of any mix of sizes from 1 up. ``instance_labels`` are for evaluation alone: training
    takes ``without_instance_labels()`` bags unless its method says that it needs them. They number ``true_classes``, which begin with
    ``classes`` and go on with those that no bag label names; -1 is an instance whose class is not known. They are
    None where no instance's is.

    >>> bags = Bags.from_lists([[[0.0], [0.1], [0.9]], [[1.0]]], labels=["cat", "dog"])
    >>> bags
    Bags(2 bags of 1 to 3, 4 instances of shape (1,), classes: cat, dog)
    >>> bags.labels.tolist(), bags.sizes.tolist()
    ([0, 1], [3, 1])
    """

    background: int | None = None  # a class that does not vote; see `with_background`

    def __init__(
        self,
        store: np.ndarray,  # (N, height, width, channels) uint8 or (N, d) floating; or a store on disk (store.py)
        index: np.ndarray,  # (n,) positions in the store
        offsets: np.ndarray,  # (b + 1,)
        labels: Sequence,  # (b,) class names, or class numbers where `classes` is given
        classes: Sequence[str] | None = None,
        *,
        instance_labels: Sequence | None = None,  # (n,) evaluation only; "", None, NaN or -1 where it is not known
        groups: Sequence | None = None,  # (b,) patients, sites: never cut by a split
        coordinates: np.ndarray | None = None,  # (n, 2)
        names: Sequence[str] | None = None,  # (b,)
    ):
        self.store = store = wrap_memmap(store) if isinstance(store, np.ndarray | RowsOnDisk) else as_array(store)
        check_store(store)
        self.index = whole_numbers(index, "index")
        self.offsets = whole_numbers(offsets, "offsets")
        check_positions(self.index, self.offsets, len(store))
        self.names = None if names is None else np.asarray([str(name) for name in names])
        self.groups = None if groups is None else sortable(np.asarray(groups))
        self.coordinates = None if coordinates is None else np.asarray(coordinates)
        per_bag = {"labels": labels, "groups": groups, "names": names}
        check_lengths(per_bag, len(self), "bag")
        check_lengths({"instance labels": instance_labels, "coordinates": coordinates}, len(self.index), "instance")
        check_coordinates(self.coordinates)
        numbers = classes is not None
        if classes is None:
            labels, classes = name_classes(labels)
        self.classes = self.true_classes = tuple(str(name) for name in classes)
        self.labels = encode(labels, self.classes, self.describe)
        self.instance_labels = None
        if instance_labels is not None:
            numbered = encode_instance_labels(instance_labels, self.classes, numbers, self.describe_instance)
            self.instance_labels, self.true_classes = numbered
        bad = first_not_finite(store, self.index)
        if bad is not None:
            what = f"{self.describe_instance(bad)} holds NaN or infinity (as float32)"
            raise InputError(f"{what}: mend or leave out that instance")

    # ------------------------------------------------------------------ ways to make them

    @classmethod
    def from_lists(
        cls, instances: Sequence, labels: Sequence, classes=None, *, instance_labels=None, coordinates=None, **more
    ) -> Bags:
        """One array, tensor or frame of instances a bag (and, where given, one of instance labels, of coordinates)."""
        arrays = [as_array(bag) for bag in instances]
        if not arrays:
            raise InputError("no bags were given: pass at least one array of instances")
        names = range(len(arrays)) if more.get("names") is None else more["names"]
        for i, (name, array) in enumerate(zip(names, arrays, strict=False)):
            if array.ndim == 0 or len(array) == 0:
                raise InputError(f"bag {name} is empty: leave it out or give it at least one instance")
            if array.shape[1:] != arrays[0].shape[1:]:
                raise InputError(
                    f"bag {name} has instances of shape {array.shape[1:]}, the bags before it "
                    f"{arrays[0].shape[1:]}: all instances must have one shape"
                )
            if array.dtype != arrays[0].dtype:
                raise InputError(
                    f"bag {name} has dtype {array.dtype}, the bags before it {arrays[0].dtype}: "
                    "convert all bags to one dtype"
                )
            if instance_labels is not None and (len(instance_labels) <= i or len(instance_labels[i]) != len(array)):
                have = len(instance_labels[i]) if len(instance_labels) > i else 0
                raise InputError(
                    f"bag {name} has {len(array)} instances and {have} instance labels: give one label an instance"
                )
            if coordinates is not None and (len(coordinates) <= i or len(coordinates[i]) != len(array)):
                raise InputError(f"bag {name} needs one (x, y) for each of its {len(array)} instances")
        offsets = np.concatenate([[0], np.cumsum([len(array) for array in arrays])])
        return cls(
            np.concatenate(arrays),
            np.arange(offsets[-1]),
            offsets,
            labels,
            classes,
            instance_labels=None if instance_labels is None else joined(instance_labels),
            coordinates=None if coordinates is None else np.concatenate([as_array(bag) for bag in coordinates]),
            **more,
        )

    @classmethod
    def from_table(
        cls,
        store: np.ndarray,
        bag_ids: Sequence,
        labels: Sequence,
        classes=None,
        *,
        instance_labels=None,
        groups=None,
        coordinates=None,
    ) -> Bags:
        """Rows with a bag id each; labels (and groups) stand on every row and agree within a bag.

        Rows of one bag need not be neighbours, and the store, if it is an array, is not copied.

        >>> Bags.from_table(np.eye(4), ["a", "b", "a", "a"], [7, 9, 7, 7]).classes
        ('7', '9')
        """
        bag_ids, labels = as_array(bag_ids), as_array(labels)
        if len(bag_ids) == 0:
            raise InputError("no rows were given: pass at least one instance")
        for what, values in {
            "labels": labels,
            "instances": store,
            "instance_labels": instance_labels,
            "groups": groups,
            "coordinates": coordinates,
        }.items():
            if values is not None and len(values) != len(bag_ids):
                raise InputError(f"{len(bag_ids)} bag ids but {len(values)} {what}: give one an instance")
        if len(rows := missing(bag_ids)):
            raise InputError(f"row {rows[0]} has no bag id ({bag_ids[rows[0]]}): fill it in, or leave the row out")
        names, first, which = np.unique(sortable(bag_ids), return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")  # bags in the order of their first row
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        which = rank[which]
        index = np.argsort(which, kind="stable")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(which))])
        starts = index[offsets[:-1]]
        groups = None if groups is None else as_array(groups)
        for what, values in {"label": labels, "group": groups}.items():
            if values is None:
                continue
            if len(rows := missing(values)):
                row = rows[0]
                raise InputError(f"bag {bag_ids[row]} has no {what} (row {row}): fill it in, or leave the bag out")
            wrong = np.flatnonzero(values != values[starts][which])
            if len(wrong):
                row = wrong[0]
                raise InputError(
                    f"bag {bag_ids[row]} has two {what}s, {values[starts][which[row]]} (row {starts[which[row]]}) and "
                    f"{values[row]} (row {row}): a bag has one {what} on all its rows"
                )
        take = lambda values: None if values is None else as_array(values)[index]
        return cls(
            store,
            index,
            offsets,
            labels[starts],
            classes,
            instance_labels=None if instance_labels is None else as_label_column(instance_labels)[index],
            groups=None if groups is None else groups[starts],
            coordinates=take(coordinates),
            names=names[order],
        )

    @classmethod
    def from_indices(
        cls, store: np.ndarray, indices: Sequence[np.ndarray], labels: Sequence, classes=None, **more
    ) -> Bags:
        """One array of positions in a shared store a bag; an instance may be in many bags."""
        sizes = [len(positions) for positions in indices]
        if not sizes:
            raise InputError("no bags were given: pass at least one array of positions")
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        arrays = [np.asarray(positions, dtype=np.int64 if len(positions) == 0 else None) for positions in indices]
        return cls(store, np.concatenate(arrays), offsets, labels, classes, **more)

    # ------------------------------------------------------------------ what they are

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        sizes = self.sizes
        span = f"{sizes.min()} to {sizes.max()}" if sizes.min() != sizes.max() else f"{sizes[0]}"
        shown = ", ".join(self.classes[:10]) + (", ..." if len(self.classes) > 10 else "")
        instances = f"{len(self.index)} instances of shape {self.store.shape[1:]}"
        return f"Bags({len(self)} bags of {span}, {instances}, classes: {shown})"

    @property
    def sizes(self) -> np.ndarray:  # (b,)
        return np.diff(self.offsets)

    @property
    def ids(self) -> np.ndarray:  # (n,) the bag of each instance
        return np.repeat(np.arange(len(self)), self.sizes)

    def bag_of(self, position: int) -> int:
        return int(np.searchsorted(self.offsets, position, side="right")) - 1

    def positions(self, bags: np.ndarray) -> np.ndarray:
        """Where the instances of these bags stand in the index, bag after bag."""
        sizes = self.sizes[bags]
        ends = np.cumsum(sizes)
        return np.repeat(self.offsets[:-1][bags] - (ends - sizes), sizes) + np.arange(ends[-1])

    def describe(self, i: int) -> str:
        return f"bag {i}" if self.names is None else f"bag {i} ({self.names[i]})"

    def describe_instance(self, position: int) -> str:
        bag = self.bag_of(position)
        return f"{self.describe(bag)}, instance {position - self.offsets[bag]}"

    def bag(self, i: int) -> np.ndarray:
        """The instances of one bag; a view where its positions are neighbours in the store."""
        positions = self.index[self.offsets[i] : self.offsets[i + 1]]
        if np.array_equal(positions, np.arange(positions[0], positions[0] + len(positions))):
            return self.store[positions[0] : positions[0] + len(positions)]
        return self.store[positions]

    def instances(self) -> np.ndarray:
        """All instances, bag after bag."""
        return self.store[self.index]

    @property
    def labelled(self) -> bool:
        """Whether bags have labels: those read without them are of UNKNOWN class, all together."""
        return bool((self.labels != UNKNOWN).all())

    @property
    def fully_known(self) -> np.ndarray:  # (b,) whether the true class of every instance of the bag is known
        if self.instance_labels is None:
            return np.zeros(len(self), bool)
        return np.logical_and.reduceat(self.instance_labels != UNKNOWN, self.offsets[:-1])

    def class_counts(self) -> np.ndarray:  # (b, true classes)
        """Instances of each true class in each bag, of those whose class is known."""
        if self.instance_labels is None:
            raise InputError("these bags carry no instance labels: counts of true classes need them")
        n_classes, known = len(self.true_classes), self.instance_labels != UNKNOWN
        flat = (self.ids * n_classes + self.instance_labels)[known]
        return np.bincount(flat, minlength=len(self) * n_classes).reshape(len(self), -1)

    def majority_proportions(self) -> np.ndarray:  # (b,) of the instances that vote; 0 where none does
        return lead_of(self._true_votes())[0]

    def tie_rate(self) -> float:
        """Share of bags in which two or more classes share the top count."""
        counts = self._true_votes()
        return float(((counts == counts.max(axis=1, keepdims=True)).sum(axis=1) > 1).mean())

    def _true_votes(self) -> np.ndarray:  # (b, true classes)
        counts = self.class_counts()
        partly = np.flatnonzero(~self.fully_known)
        if len(partly):
            raise InputError(
                f"{self.describe(partly[0])} has instances of unknown class: a majority needs all of a bag; "
                "take bags.subset(bags.fully_known)"
            )
        return voter_counts(counts, self.background)

    def fingerprint(self) -> str:
        """A short hash of what training and figures see of these bags; of `without_instance_labels()` ones, of what any method may."""
        digest = hashlib.blake2b(digest_size=16)
        more = () if self.background is None else (self.background,)
        if self.classes != self.true_classes:
            more += (self.classes,)
        digest.update(repr((self.store.shape[1:], self.store.dtype.str, self.true_classes, *more)).encode())
        for array in (self.offsets, self.labels, self.instance_labels):
            if array is not None:
                digest.update(np.ascontiguousarray(array))
        for block in iterate_chunks(self.store, self.index):
            digest.update(np.ascontiguousarray(block))
        return digest.hexdigest()

    # ------------------------------------------------------------------ other bags from these

    def without_instance_labels(self) -> Bags:
        """The same bags without instance labels: all that training and selection may see."""
        return self._with(instance_labels=None, true_classes=self.classes)

    def with_background(self, name: str) -> Bags:
        """The same bags, one class of which does not vote; a class that is not there yet is added, last.

        >>> bags = Bags.from_lists([np.ones((2, 3))] * 2, labels=["tumour", "stroma"]).with_background("normal")
        >>> bags.classes, bags.background
        (('stroma', 'tumour', 'normal'), 2)
        """
        classes, background = place_background(name, self.classes, self.labels, self.describe)
        true_classes = tuple(dict.fromkeys((*classes, *self.true_classes)))
        truth = renumber(self.instance_labels, self.true_classes, true_classes)
        return self._with(classes=classes, background=background, true_classes=true_classes, instance_labels=truth)

    def subset(self, bags: Sequence[int]) -> Bags:
        """These bags, in this order, on the same store (not copied)."""
        bags = np.asarray(bags)
        if bags.dtype == bool:
            check_lengths({"mask entries": bags}, len(self), "bag")
            bags = np.flatnonzero(bags)
        if len(bags) == 0:
            raise InputError("a subset of no bags: give at least one bag number")
        bags = whole_numbers(bags, "the list of bags")
        outside = bags[(bags < -len(self)) | (bags >= len(self))]
        if len(outside):
            raise InputError(f"there is no bag {outside[0]}: the bags are numbered 0 to {len(self) - 1}")
        sizes = self.sizes[bags]
        offsets = np.concatenate([[0], np.cumsum(sizes)])
        positions = self.positions(bags)
        take = lambda values, where: None if values is None else values[where]
        truth = take(self.instance_labels, positions)
        return self._with(
            index=self.index[positions],
            offsets=offsets,
            labels=self.labels[bags],
            instance_labels=None if truth is None or (truth == UNKNOWN).all() else truth,
            groups=take(self.groups, bags),
            coordinates=take(self.coordinates, positions),
            names=take(self.names, bags),
        )

    def split(self, fractions: Sequence[float], seed: int = 0) -> tuple[Bags, ...]:
        """Cut into parts of these fractions, stratified by label; bags of one group stay together.

        >>> bags = Bags.from_lists([np.ones((2, 3))] * 10, labels=["a", "b"] * 5)
        >>> [len(part) for part in bags.split([0.6, 0.4])]
        [6, 4]
        """
        fractions = np.asarray(fractions, float)
        if fractions.ndim != 1 or not (fractions > 0).all() or abs(fractions.sum() - 1) > 1e-6:
            raise InputError(f"fractions {fractions.tolist()} must be positive and sum to 1")
        rng, what = np.random.default_rng(seed), f"{len(self)} bags"
        if self.groups is None:
            parts = stratified_split(self.labels, fractions / fractions.sum(), rng)
        else:
            names, groups = np.unique(self.groups, return_inverse=True)
            parts, what = group_split(groups, self.labels, fractions, rng), f"{len(names)} groups"
        for part, fraction in enumerate(fractions):
            if not (parts == part).any():
                more = "bags" if self.groups is None else "groups, or say in a split column which bags are for what"
                raise InputError(f"part {part} ({fraction:.0%}) of {what} would be empty: give more {more}")
        return tuple(self.subset(parts == part) for part in range(len(fractions)))

    # ------------------------------------------------------------------ files

    def save(self, folder: str | Path) -> Path:
        """Write a folder of .npy files and one bags.json (no pickle); only instances in use are kept."""
        used, index = np.unique(self.index, return_inverse=True)
        arrays = {name: getattr(self, name) for name in ("offsets", "labels", "instance_labels", *OPTIONAL_ARRAYS)}
        facts = {"classes": self.classes, "true_classes": self.true_classes}
        if self.background is not None:
            facts["background"] = self.classes[self.background]
        return write_bag_folder(folder, self.store, used, {"index": index, **arrays}, facts)

    @classmethod
    def load(cls, folder: str | Path, in_place: bool = False) -> Bags:
        """Read what `save` wrote; with `in_place` the store stays on disk and is read as it is used."""
        arrays, facts = read_bag_folder(folder, in_place)
        optional = {name: arrays[name] for name in OPTIONAL_ARRAYS if name in arrays}
        try:
            bags = cls(*(arrays[name] for name in REQUIRED_ARRAYS), facts["classes"], **optional)
            if "instance_labels" in arrays:
                bags = bags._with_truth(arrays["instance_labels"], tuple(facts.get("true_classes", bags.classes)))
            return bags.with_background(facts["background"]) if "background" in facts else bags
        except (ValueError, KeyError) as error:
            raise damaged_folder(folder, error) from error

    def _with_truth(self, instance_labels: np.ndarray, true_classes: tuple[str, ...]) -> Bags:
        check_lengths({"instance labels": instance_labels}, len(self.index), "instance")
        codes, _ = encode_instance_labels(instance_labels, true_classes, True, self.describe_instance)
        return self._with(instance_labels=codes, true_classes=true_classes)

    def _with(self, **changes) -> Bags:
        """A copy with some fields changed, unchecked: a part of good bags is good."""
        other = object.__new__(Bags)
        other.__dict__.update(self.__dict__ | changes)
        return other
