"""CustomBags: bags that a user made, and their division into training, validation and test bags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...data.bags import Bags
from ...data.column_encoder import ColumnEncoder
from ...data.splitting import MIN_BAGS, group_split, stratified_split
from ...errors import InputError, count_noun
from ..base import IN_MEMORY, Parts, Source
from ..embedding import Embedding
from ..image_summary import ImageFileSummary
from .findings import abbreviate_names

SPLITS = ("train", "val", "test")
DEFAULT_SHARES = (0.6, 0.2, 0.2)  # train, val, test
LEFT_OUT = len(SPLITS)  # the number of the part of a bag that is in none
VALIDATION = 0.2  # share of the training bags that is used for validation if the splits name no val bags


def check_labelled(bags: Bags, name: str, all_of_them: bool = False) -> None:
    if not bags.labelled:
        raise InputError(f"{name} have no labels: training needs labelled bags; read them with labels")
    without = np.flatnonzero(~bags.bag_labels.known)
    if all_of_them and len(without):
        raise InputError(
            f"{name} are used for validation, but {bags.describe(int(without[0]))} has no label: leave it out, or "
            "label it"
        )


@dataclass(frozen=True, eq=False, repr=False)
class CustomBags(Source):
    """Bags that a user made, with the splits that were given, if any.

    >>> bags = Bags.from_lists([np.ones((2, 3))] * 10, labels=["a", "b"] * 5)
    >>> CustomBags("example", bags)
    CustomBags(example: 10 bags of 2, 20 instances of shape (3,), classes: a, b)
    >>> [len(part) for part in CustomBags("example", bags).make_parts()]
    [6, 2, 2]
    """

    name: str
    bags: Bags
    split: np.ndarray | None = None  # (b,) "train", "val" or "test"
    paths: np.ndarray | None = None  # (N,) paths of the images in the store, as the manifest writes them
    encoder: ColumnEncoder | None = None  # how columns of a manifest became features
    numbered_within_bags: bool = False  # instances are identified by their row in the file of their bag
    warnings: tuple[str, ...] = ()  # found by the check: no errors, but worth knowing before training
    files: ImageFileSummary | None = None  # the image files from which the store was made
    embedding: Embedding | None = None  # the network that made the features
    for_training: bool = True

    def __repr__(self) -> str:
        return f"CustomBags({self.name}: {repr(self.bags).removeprefix('Bags(')}"

    @property
    def image_files(self) -> ImageFileSummary | None:
        return self.files

    def warnings_for(self, background: str | None, min_bags: int = MIN_BAGS) -> list[str]:
        """All warnings; instances of the background class do not count as wrong."""
        warnings = [*self.warnings, *self._describe_further(background)]
        rare = [self.bags.classes[number] for number in self.rare_classes(min_bags)] if self.for_training else []
        if rare:
            warnings.append(
                f"{', '.join(rare)}: the label of fewer than {min_bags} bags: too few to train and evaluate, so bags "
                "with this label are used as bags without one, and nothing is classified as it (--min-bags 1 keeps it)"
            )
        return warnings

    def _describe_further(self, background: str | None) -> Iterator[str]:
        """How many instances have a class that no bag label names, or that the classifier does not know."""
        bags, labels = self.bags, self.bags.bag_labels
        if bags.instance_labels is None:
            return
        counts = np.bincount(bags.instance_labels[bags.instance_labels >= 0], minlength=len(bags.true_classes))
        named = labels.allowed.any(axis=0) | (labels.second_counts > 0)
        every = not self.for_training or not bags.labelled
        known = {name for name, used in zip(bags.classes, named, strict=True) if used or every} | {background}
        further = [number for number, name in enumerate(bags.true_classes) if name not in known and counts[number]]
        if further:
            names = abbreviate_names([f"{bags.true_classes[number]}: {counts[number]:,}" for number in further])
            count, total = counts[further].sum(), counts.sum()
            share = f"{count:,} of {count_noun(total, 'instance')} ({count / total:.1%})"
            lack = "the label of any bag, nor the --background" if self.for_training else "a class of the run"
            yield f"the class of {share} is not {lack} ({names}): it is never predicted, so it counts as wrong"

    def rare_classes(self, min_bags: int = MIN_BAGS) -> list[int]:
        """The classes that too few bags have as their label or runner-up; none if fewer than two would be left."""
        counts = self.bags.bag_labels.counts + self.bags.bag_labels.second_counts
        rare = np.flatnonzero((counts > 0) & (counts < min_bags)).tolist()
        return rare if (counts >= min_bags).sum() > 1 else []

    def make_parts(
        self,
        *,
        fold: int = 0,
        folds: int | None = None,
        data_seed: int = 0,
        background: str | None = None,
        min_bags: int = MIN_BAGS,
        **benchmark_options: object,
    ) -> Parts:
        """Training, validation and test bags; test is None where splits are given without test bags.

        If splits are given, they are used; without `val`, a fifth of the training bags is used for validation. Without
        splits, the bags are divided 60/20/20, or, with `folds`, into that many folds: fold i is for testing, the next
        one for validation, and the rest for training. The division is stratified by label and divides no group. Bags
        without a label are training bags, unless their group is in another part: then they are `left_out`. Bags whose
        label fewer than `min_bags` bags have count as bags without a label.
        Options that make bags from a labelled set (`scenario`, `bags`, ...) are refused.
        """
        refused = sorted(name for name, value in benchmark_options.items() if value is not None and value is not False)
        if refused:
            options = ", ".join("--" + name.replace("_", "-") for name in refused)
            raise InputError(
                f"the bags of {self.name} are used as they are: leave out {', '.join(refused)} ({options}), for making "
                "bags from a labelled set"
            )
        self.bags.check_labels()
        bags, part_of = self._divide(fold, folds, data_seed, background, min_bags)
        parts = {name: bags.subset(part_of == number) for number, name in enumerate(SPLITS) if number in part_of}
        for name in parts.keys() - {"train"}:
            check_labelled(parts[name], f"the {name} bags of {self.name}", all_of_them=name == "val")
        missing = sorted(bags.bag_labels.named_classes() - parts["train"].bag_labels.named_classes())
        if missing and folds is None:  # a fold may lack a class
            names = ", ".join(bags.classes[label] for label in missing)
            of_label = bags.bag_labels.allowed[:, missing[0]]
            first = int(np.argmax(of_label | (bags.bag_labels.seconds == missing[0])))
            raise InputError(
                f"no training bag has the label {names}, as {bags.describe(first)} has: correct it if it is a mistake, "
                "give more bags of it (or of more groups), or a split column that puts one into train"
            )
        return Parts(parts["train"], parts["val"], parts.get("test"))

    def left_out(
        self, fold: int, folds: int | None, data_seed: int, background: str | None, min_bags: int = MIN_BAGS
    ) -> Bags | None:
        """The bags that `make_parts` leaves out, None if there are none: they have no label, and another bag of their
        group is a validation or test bag."""
        bags, part_of = self._divide(fold, folds, data_seed, background, min_bags)
        return bags.subset(part_of == LEFT_OUT) if LEFT_OUT in part_of else None

    def _divide(
        self, fold: int, folds: int | None, data_seed: int, background: str | None, min_bags: int
    ) -> tuple[Bags, np.ndarray]:  # (b,)
        """The bags without rare classes, and the number of the part of each."""
        check_labelled(self.bags, f"the bags of {self.name}" if self.name != IN_MEMORY else "these bags")
        if data_seed < 0:
            raise InputError(f"the data seed is {data_seed}: give a whole number of at least 0")
        if folds is None and fold != 0:
            raise InputError(f"fold {fold} without folds: give the number of folds too, e.g. --folds 5 (folds=5)")
        bags = self.bags.without_classes(self.rare_classes(min_bags))
        bags = bags if background is None else bags.with_background(background)
        known, part_of = bags.bag_labels.known, np.zeros(len(bags), np.int64)
        if folds is not None:
            part_of[known] = self._folds(bags.with_labels(), fold, folds, data_seed)
        elif self.split is None:
            part_of[known] = bags.with_labels().divide(DEFAULT_SHARES, data_seed)
        else:
            part_of = np.array([SPLITS.index(name) for name in self.split])
            if 0 not in part_of:
                raise InputError(f"{self.name} has no bag in split train: mark the bags to train on")
            if 1 in part_of:
                return bags, part_of
            known = known & (part_of == 0)
            check_labelled(bags.subset(part_of == 0), f"the train bags of {self.name}")
            part_of[known] = bags.subset(known).divide([1 - VALIDATION, VALIDATION], data_seed)
        if bags.groups is not None:  # what is learned from a group must not be tested on it
            elsewhere = np.isin(bags.groups, bags.groups[part_of > 0])
            part_of[~bags.bag_labels.known & (part_of == 0) & elsewhere] = LEFT_OUT
        return bags, part_of

    def _folds(self, bags: Bags, fold: int, folds: int, data_seed: int) -> np.ndarray:  # (b,)
        if self.split is not None:
            cure = "leave out --folds (folds=), or remove the split column to cross-validate"
            raise InputError(f"{self.name} has a split column: {cure}")
        if folds < 3 or fold not in range(folds):
            raise InputError(f"fold {fold} of {folds}: give 3 or more folds, and a fold from 0 to folds - 1")
        strata, rng, shares = bags.bag_labels.strata, np.random.default_rng(data_seed), np.full(folds, 1 / folds)
        if bags.groups is None:
            fold_of = stratified_split(strata, shares, rng)
        else:
            fold_of = group_split(np.unique(bags.groups, return_inverse=True)[1], strata, shares, rng)
        if len({*fold_of.tolist()}) < folds:
            unit = "bags" if bags.groups is None else "groups"
            raise InputError(f"{self.name} has too few {unit} for {folds} folds: give fewer folds or more {unit}")
        return np.select([fold_of == (fold + 1) % folds, fold_of == fold], [1, 2], 0)
