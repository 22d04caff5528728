"""OwnBags: bags as their owner made them, and the parts they are trained, chosen and reported on."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ...data.bags import Bags
from ...data.splitting import group_split, stratified_split
from ...errors import InputError
from ..benchmarks.labelled import Parts
from .image_summary import ImageFileSummary

SPLITS = ("train", "val", "test")
DEALT = (0.6, 0.2, 0.2)  # train, val, test
VALIDATION = 0.2  # of the training bags where splits are given without val


@dataclass(frozen=True, eq=False)
class CustomBags:
    """Bags of one's own, with the splits that were given with them, if any.

    >>> bags = Bags.from_lists([np.ones((2, 3))] * 10, labels=["a", "b"] * 5)
    >>> [len(part) for part in OwnBags("example", bags).make_parts()]
    [6, 2, 2]
    """

    name: str
    bags: Bags
    split: np.ndarray | None = None  # (b,) "train", "val" or "test"
    paths: np.ndarray | None = None  # (N,) of the store's images, as the manifest writes them
    columns: tuple[str, ...] | None = None  # of the manifest that are the features
    numbered_within_bags: bool = False  # an instance is known by its row in its bag's file, not in the whole source
    warnings: tuple[str, ...] = ()  # of the check: nothing wrong, but worth knowing before training
    of_classes: dict[str, str] = field(default_factory=dict)  # the warning that a true class counts as wrong
    originals: ImageFileSummary | None = None  # the image files behind the store

    def warnings_given(self, background: str | None) -> list[str]:
        """All but the one that instances of the background count as wrong."""
        return [warning for warning in self.warnings if warning != self.of_classes.get(background)]

    def make_parts(
        self,
        *,
        fold: int = 0,
        folds: int | None = None,
        data_seed: int = 0,
        background: str | None = None,
        **benchmark_options,
    ) -> Parts:
        """Training, validation and test bags; test is None where splits are given without test bags.

        Splits that are given are used; without `val`, a fifth of the training bags validates. Without
        splits the bags are dealt 60/20/20, or, with `folds`, into so many parts: fold i tests on part i,
        validates on the next and trains on the rest. Dealing is stratified by label and cuts no group.
        """
        made = sorted(name for name, value in benchmark_options.items() if value not in (None, False))
        if made:
            raise InputError(
                f"{', '.join(made)}: these make bags of a labelled set, but the bags of {self.name} are taken as they "
                f"are: leave out {' and '.join('--' + name.replace('_', '-') for name in made)}"
            )
        if data_seed < 0:
            raise InputError(f"the data seed is {data_seed}: give a whole number from 0 up")
        bags = self.bags if background is None else self.bags.with_background(background)
        if folds is not None:
            parts = self._folded(bags, fold, folds, data_seed)
        elif fold != 0:
            raise InputError(f"--fold {fold} without --folds: say into how many parts to cut the bags, e.g. --folds 5")
        elif self.split is not None:
            parts = self._given(bags, data_seed)
        else:
            parts = Parts(*bags.split(DEALT, data_seed))
        self._check_trained(parts.train)
        return parts

    def _given(self, bags: Bags, data_seed: int) -> Parts:
        of = {split: bags.subset(self.split == split) for split in SPLITS if (self.split == split).any()}
        if "train" not in of:
            raise InputError(f"{self.name} has no bag in split train: mark the bags to train on")
        if "val" not in of:
            of["train"], of["val"] = of["train"].split([1 - VALIDATION, VALIDATION], data_seed)
        return Parts(of["train"], of["val"], of.get("test"))

    def _folded(self, bags: Bags, fold: int, folds: int, data_seed: int) -> Parts:
        if self.split is not None:
            raise InputError(
                f"{self.name} names its splits itself: leave out --folds, or remove the split column to cross-validate"
            )
        if folds < 3 or fold not in range(folds):
            raise InputError(f"fold {fold} of {folds}: give --folds 3 or more, and --fold from 0 to folds - 1")
        rng, shares = np.random.default_rng(data_seed), np.full(folds, 1 / folds)
        if bags.groups is None:
            part_of = stratified_split(bags.labels, shares, rng)
        else:
            part_of = group_split(np.unique(bags.groups, return_inverse=True)[1], bags.labels, shares, rng)
        empty = set(range(folds)) - set(part_of)
        if empty:
            unit = "bags" if bags.groups is None else "groups"
            raise InputError(f"{self.name} has too few {unit} for {folds} folds: give fewer --folds or more {unit}")
        val = (fold + 1) % folds
        masks = (~np.isin(part_of, [fold, val]), part_of == val, part_of == fold)
        return Parts(*(bags.subset(mask) for mask in masks))

    def _check_trained(self, train: Bags) -> None:
        unseen = sorted(set(self.bags.labels) - set(train.labels))
        if unseen:
            names = ", ".join(self.bags.classes[label] for label in unseen)
            raise InputError(
                f"no training bag has the label {names}: give more bags of it (or of more groups), "
                "or a split column that puts one into train"
            )
