"""LabelledSet: instances with true classes, the folds they are cut into, and the bags made of them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...data.bags import Bags
from ...data.scenarios import BACKGROUND_SHARES, make_bags, winner_weights
from ...data.validation import check_lengths, check_store, encode, whole_numbers
from ...errors import InputError

N_FOLDS = 5


class Parts(NamedTuple):
    """Bags to train on, to choose the epoch by, and to report on; no two share an instance."""

    train: Bags
    val: Bags
    test: Bags | None  # None where a source of one's own marks none


@dataclass(frozen=True, eq=False, repr=False)
class LabelledSet:
    """Instances with their true classes, from which benchmark bags are made.

    >>> from majority import sources
    >>> digits = sources.load("digits")
    >>> digits
    LabelledSet(digits: 1797 instances of shape (8, 8, 1), 10 classes)
    >>> [len(part) for part in digits.folds(data_seed=0)]
    [359, 359, 359, 359, 359]
    """

    name: str
    store: np.ndarray  # (N, height, width, channels) uint8 or (N, d) floating
    labels: np.ndarray  # (N,) class numbers
    classes: tuple[str, ...]
    groups: np.ndarray | None = None  # (N,) patients, sites: never cut by a fold
    stratified: bool = False  # every fold part gets its share of every class
    bags: int = 400  # training bags unless asked otherwise
    bag_size: int = 64

    def __post_init__(self):
        check_store(self.store)
        check_lengths({"labels": self.labels, "groups": self.groups}, len(self.store), "instance")
        labels = encode(whole_numbers(self.labels, "labels"), self.classes, lambda i: f"{self.name}, instance {i}")
        object.__setattr__(self, "labels", labels)

    def __repr__(self) -> str:
        shape, classes = self.store.shape[1:], len(self.classes)
        return f"LabelledSet({self.name}: {len(self.store)} instances of shape {shape}, {classes} classes)"

    def folds(self, data_seed: int = 0) -> list[np.ndarray]:
        """Five disjoint parts of the store positions, the same for the same seed.

        The published way: shuffle, cut into five equal parts, drop the remainder. Where the set is
        stratified, each class is dealt over the parts as equally as can be. Where it has groups, whole
        groups are dealt, largest first, each to the smallest part so far: no group is cut and no
        instance dropped, but then the parts are only about equal.
        """
        rng = _generator(data_seed, N_FOLDS)
        if self.groups is not None:
            return _deal_groups(self.name, self.groups, rng)
        order = rng.permutation(len(self.labels))
        each = len(order) // N_FOLDS
        if each == 0:
            raise InputError(f"{self.name} has {len(order)} instances: {N_FOLDS} folds need at least {N_FOLDS}")
        if self.stratified:
            order = order[np.argsort(self.labels[order], kind="stable")]
            return list(order[: each * N_FOLDS].reshape(each, N_FOLDS).T)
        return list(order[: each * N_FOLDS].reshape(N_FOLDS, each))

    def make_parts(
        self,
        *,
        scenario: str | tuple[float, float] = "various",
        fold: int = 0,
        bags: int | None = None,
        bag_size: int | None = None,
        data_seed: int = 0,
        shared: bool = True,
        with_replacement: bool = False,
        ties: str = "lowest",
        classes: int | None = None,
        winner_prior: Sequence[float] | None = None,
        winner_ratio: float | None = None,
        background: str | None = None,
        background_shares: tuple[float, float] = BACKGROUND_SHARES,
    ) -> Parts:
        """Bags of one fold: it tests on its own part, validates on the next, trains on the other three.

        `bags` training bags come with a quarter as many validation and test bags. What a part holds
        depends on the data seed, the fold and these arguments alone, so every method sees the same bags.
        `classes` uses the first so many classes of the set; its folds stay as they are. `winner_ratio` is
        short for a geometric `winner_prior`: the first class wins so many times as often as the last.

        >>> from majority import sources
        >>> train, val, test = sources.load("digits").make_parts(fold=2)
        >>> len(train), len(val), len(test)
        (200, 50, 50)
        """
        bags, size = self.bags if bags is None else bags, self.bag_size if bag_size is None else bag_size
        if fold not in range(N_FOLDS):
            raise InputError(f"there is no fold {fold}: the folds are numbered 0 to {N_FOLDS - 1}")
        if bags < 4:
            raise InputError(f"{bags} training bags: give at least 4, so that a quarter of them is a bag")
        names = self._first_classes(classes)
        if winner_ratio is not None:
            if winner_prior is not None:
                raise InputError("winner_ratio and winner_prior both say how often each class wins: give one of them")
            winner_prior = winner_weights(winner_ratio, len(names) - (background is not None))
        used = self.labels < len(names)
        folds = self.folds(data_seed)
        turned = folds[fold:] + folds[:fold]
        positions = {"train": np.concatenate(turned[2:]), "val": turned[1], "test": turned[0]}
        made = [
            make_bags(
                self.store,
                np.where(used, self.labels, 0),  # what is not used is at no position
                names,
                n_bags=bags if part == "train" else bags // 4,
                size=size,
                scenario=scenario,
                rng=_generator(data_seed, fold, number),
                positions=positions[part][used[positions[part]]],
                part=part,
                winner_prior=winner_prior,
                background=background,
                background_shares=background_shares,
                shared=shared,
                with_replacement=with_replacement,
                ties=ties,
            )
            for number, part in enumerate(Parts._fields)
        ]
        return Parts(*made)

    def _first_classes(self, n: int | None) -> tuple[str, ...]:
        if n is not None and not 2 <= n <= len(self.classes):
            raise InputError(f"{n} of the {len(self.classes)} classes of {self.name}: give 2 to {len(self.classes)}")
        return self.classes[:n]


def _generator(data_seed: int, fold: int, part: int = 0) -> np.random.Generator:
    """One stream a part of a fold; `N_FOLDS`, which no fold has as its number, is that of the cutting itself."""
    if data_seed < 0:
        raise InputError(f"the data seed is {data_seed}: give a whole number from 0 up")
    return np.random.default_rng([data_seed, fold, part])


def _deal_groups(name: str, groups: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    _, group_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < N_FOLDS:
        raise InputError(f"{name} has {len(sizes)} groups: {N_FOLDS} folds that cut no group need at least {N_FOLDS}")
    order = rng.permutation(len(sizes))
    part_of = np.empty(len(sizes), dtype=np.int64)
    parts = [(0, part) for part in range(N_FOLDS)]  # (instances so far, part)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        held, part = parts[0]
        part_of[group] = part
        heapq.heapreplace(parts, (held + int(sizes[group]), part))
    return [np.flatnonzero(part_of[group_of] == part) for part in range(N_FOLDS)]
