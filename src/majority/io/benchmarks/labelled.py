"""LabelledSet: instances with true classes, their five folds, and the benchmark bags that are made from them."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...data.bags import Bags
from ...data.columns import as_integers, check_lengths
from ...data.instance_labels import encode_labels
from ...data.scenarios import BACKGROUND_SHARES, make_bags, make_labels_wrong, winner_weights
from ...data.validation import check_store
from ...errors import InputError
from ..base import Parts, Source
from ..image_summary import ImageFileSummary

N_FOLDS = 5


@dataclass(frozen=True, eq=False, repr=False)
class LabelledSet(Source):
    """Instances with their true classes, from which benchmark bags are made.

    Args:
        name: Of the set.
        store: Images (N, height, width, channels) as uint8, or vectors (N, d).
        labels: One class number per instance.
        classes: Their names.
        groups: One number per instance, such as the patient; a group is not divided.
        stratified: Whether folds have the same class frequencies.
        bags: Training bags by default.
        bag_size: Instances per bag by default.
        kind: The name under which it is registered, if it is.

    >>> from majority import io as sources
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
    groups: np.ndarray | None = None  # (N,) e.g. patients or sites: a group is never divided between folds
    stratified: bool = False  # whether each fold has the same share of each class
    bags: int = 400  # default number of training bags
    bag_size: int = 64  # default number of instances per bag
    kind: str = ""  # the name under which it is registered; "": it is from a file or made by the caller

    def __post_init__(self) -> None:
        names = isinstance(self.classes, list | tuple) and all(isinstance(name, str) for name in self.classes)
        if not isinstance(self.store, np.ndarray) or not names:
            raise InputError("LabelledSet: give the instances as an array, and the names of the classes as a list")
        check_store(self.store)
        check_lengths({"labels": self.labels, "groups": self.groups}, len(self.store), "instance")
        labels = encode_labels(as_integers(self.labels, "labels"), self.classes, lambda i: f"{self.name}, instance {i}")
        object.__setattr__(self, "labels", labels)

    def __repr__(self) -> str:
        shape, classes = self.store.shape[1:], len(self.classes)
        return f"LabelledSet({self.name}: {len(self.store)} instances of shape {shape}, {classes} classes)"

    @property
    def image_files(self) -> ImageFileSummary | None:
        return ImageFileSummary.of_store(self.store)

    def folds(self, data_seed: int = 0) -> list[np.ndarray]:
        """Five disjoint arrays of store positions, the same for the same seed.

        As published: shuffle, divide into five equal folds, drop the remainder. In a stratified set, each class is
        distributed over the folds as equally as possible. In a set with groups, whole groups are distributed, largest
        first, each to the smallest fold so far: no group is divided and no instance is dropped, but the folds are
        only approximately equal in size.
        """
        rng = _generator(data_seed, N_FOLDS)
        if self.groups is not None:
            return _distribute_groups(self.name, self.groups, rng)
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
        scenario: str | tuple[float, float] | None = None,  # None: various
        fold: int = 0,
        folds: int | None = None,
        bags: int | None = None,
        bag_size: int | None = None,
        data_seed: int = 0,
        shared: bool = True,
        with_replacement: bool = False,
        ties: str | None = None,  # None: lowest
        labels: str | None = None,  # None: winner; or top2
        wrong_labels: float | None = None,  # None: 0
        classes: int | None = None,
        winner_prior: Sequence[float] | np.ndarray | None = None,
        winner_ratio: float | None = None,
        background: str | None = None,
        background_shares: tuple[float, float] = BACKGROUND_SHARES,
    ) -> Parts[Bags]:
        """Bags of one fold: test bags from this fold, validation bags from the next, training bags from the other
        three.

        With `bags` training bags there are a quarter as many validation bags and test bags. The bags depend only on
        the data seed, the fold and these arguments, so every method gets the same bags. `classes` is the number
        of classes to use, the first ones of the set; the folds do not change. `winner_ratio` is short for a geometric
        `winner_prior`: how many times as often the first class is the bag label as the last class. `folds` is refused:
        their number is fixed. With `labels="top2"`, bags also have a second label: the runner-up. With `wrong_labels`,
        this share of the training bags and of the validation bags has another label than the most common class; the
        test bags do not change.

        >>> from majority import io as sources
        >>> train, val, test = sources.load("digits").make_parts(fold=2)
        >>> len(train), len(val), len(test)
        (200, 50, 50)
        """
        if folds is not None:
            raise InputError(f"folds {folds}: benchmark sets always have five folds; choose one with --fold (fold=)")
        bags, size = self.bags if bags is None else bags, self.bag_size if bag_size is None else bag_size
        if fold not in range(N_FOLDS):
            raise InputError(f"there is no fold {fold}: the folds are numbered 0 to {N_FOLDS - 1}")
        if bags < 4:
            raise InputError(
                f"{bags} training bags: give at least 4, because validation and test have a quarter as many"
            )
        if classes is not None and not 2 <= classes <= len(self.classes):
            what = f"{classes} of the {len(self.classes)} classes of {self.name}"
            raise InputError(f"{what}: give 2 to {len(self.classes)}")
        names = self.classes[:classes]
        if winner_ratio is not None:
            if winner_prior is not None:
                raise InputError("winner_ratio and winner_prior both set how often each class wins: give only one")
            winner_prior = winner_weights(winner_ratio, len(names) - (background is not None))
        used = self.labels < len(names)
        all_folds = self.folds(data_seed)
        rotated = all_folds[fold:] + all_folds[:fold]
        positions = {"train": np.concatenate(rotated[2:]), "val": rotated[1], "test": rotated[0]}
        parts = [
            make_bags(
                self.store,
                np.where(used, self.labels, 0),  # instances of unused classes are at none of the positions
                names,
                n_bags=bags if part == "train" else bags // 4,
                size=size,
                scenario="various" if scenario is None else scenario,
                rng=_generator(data_seed, fold, number),
                positions=positions[part][used[positions[part]]],
                part=part,
                winner_prior=winner_prior,
                background=background,
                background_shares=background_shares,
                shared=shared,
                with_replacement=with_replacement,
                ties="lowest" if ties is None else ties,
                labels_say="winner" if labels is None else labels,
            )
            for number, part in enumerate(Parts._fields)
        ]
        for number, part in enumerate(parts[:2] if wrong_labels else []):
            parts[number] = make_labels_wrong(part, wrong_labels or 0, _generator(data_seed, fold, len(parts) + number))
        train, val, test = parts
        return Parts(train, val, test)


def _generator(data_seed: int, fold: int, part: int = 0) -> np.random.Generator:
    """One random stream per part of a fold. The stream of fold number `N_FOLDS`, which no fold has, makes the folds."""
    if data_seed < 0:
        raise InputError(f"the data seed is {data_seed}: give a whole number of at least 0")
    return np.random.default_rng([data_seed, fold, part])


def _distribute_groups(name: str, groups: np.ndarray, rng: np.random.Generator) -> list[np.ndarray]:
    _, group_of, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    if len(sizes) < N_FOLDS:
        raise InputError(
            f"{name} has {len(sizes)} groups: {N_FOLDS} folds that divide no group need at least {N_FOLDS}"
        )
    order = rng.permutation(len(sizes))
    fold_of = np.empty(len(sizes), dtype=np.int64)
    folds = [(0, fold) for fold in range(N_FOLDS)]  # a heap of (instances so far, fold)
    for group in order[np.argsort(-sizes[order], kind="stable")]:
        count, fold = folds[0]
        fold_of[group] = fold
        heapq.heapreplace(folds, (count + int(sizes[group]), fold))
    return [np.flatnonzero(fold_of[group_of] == fold) for fold in range(N_FOLDS)]
