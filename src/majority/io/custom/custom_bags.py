"""CustomBags: bags that a user made, and their division into training, validation and test bags."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...data.bags import Bags, check_not_only_together
from ...data.column_encoder import ColumnEncoder
from ...data.splitting import MIN_BAGS, group_split, stratified_split
from ...errors import InputError, count_noun
from ..base import IN_MEMORY, Parts, Source
from ..embedding import Embedding
from ..image_summary import ImageFileSummary
from .findings import abbreviate_names

SPLITS = ("train", "val", "test")
DEFAULT_SHARES = (0.6, 0.2, 0.2)  # train, val, test
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
        rare = self._describe_rare(min_bags) if self.for_training else ()
        return [*self.warnings, *self._describe_further(background), *rare]

    def _describe_further(self, background: str | None) -> Iterator[str]:
        """How many instances have a class that no bag label names, or that the classifier does not know."""
        bags = self.bags
        if bags.instance_labels is None:
            return
        counts = np.bincount(bags.instance_labels + 1, minlength=len(bags.true_classes) + 1)[1:]
        spoken_of = bags.bag_labels.allowed.any(axis=0) | (bags.bag_labels.second_counts > 0)
        known = spoken_of if self.for_training and bags.labelled else np.ones(len(bags.classes), bool)
        is_background = np.array([name == background for name in bags.true_classes[len(known) :]], bool)
        known = np.concatenate([known, is_background])
        further = np.flatnonzero(~known & (counts > 0)).tolist()
        if further:
            names = abbreviate_names([f"{bags.true_classes[number]}: {counts[number]:,}" for number in further])
            count, total = counts[further].sum(), counts.sum()
            share = f"{count:,} of {count_noun(total, 'instance')} ({count / total:.1%})"
            lack = "the label of any bag" if self.for_training else "a class of the run"
            unless = ", unless it is the --background" if self.for_training else ""
            cannot = f"the classifier cannot predict it, so it counts as wrong{unless}"
            yield f"the class of {share} is not {lack} ({names}): {cannot}"

    def rare_classes(self, min_bags: int = MIN_BAGS) -> list[int]:
        """The classes that too few bags have as their label or runner-up; none if fewer than two would be left."""
        counts = self.bags.bag_labels.counts + self.bags.bag_labels.second_counts
        rare = np.flatnonzero((counts > 0) & (counts < min_bags)).tolist()
        return rare if (counts >= min_bags).sum() > 1 else []

    def _describe_rare(self, min_bags: int) -> Iterator[str]:
        names = [self.bags.classes[number] for number in self.rare_classes(min_bags)]
        if names:
            yield (
                f"{', '.join(names)}: the label of fewer than {min_bags} bags: too few to train and evaluate, so bags "
                "with this label are used as bags without one, and nothing is classified as it (--min-bags 1 keeps it)"
            )

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
        if data_seed < 0:
            raise InputError(f"the data seed is {data_seed}: give a whole number of at least 0")
        check_labelled(self.bags, f"the bags of {self.name}" if self.name != IN_MEMORY else "these bags")
        check_not_only_together(self.bags)
        bags = self._prepared(background, min_bags)
        if folds is not None:
            return self._cross_validation_parts(bags, fold, folds, data_seed)  # a fold may lack a class
        if fold != 0:
            raise InputError(f"fold {fold} without folds: give the number of folds too, e.g. --folds 5 (folds=5)")
        if self.split is not None:
            parts = self._given_parts(bags, self.split, data_seed)
        else:
            parts = Parts(*_subsets(bags, bags.with_labels().divide(DEFAULT_SHARES, data_seed), 3))
        self._check_all_classes_trained(bags, parts.train)
        return parts

    def _prepared(self, background: str | None, min_bags: int) -> Bags:
        bags = self.bags.without_classes(self.rare_classes(min_bags))
        return bags if background is None else bags.with_background(background)

    def left_out(self, parts: Parts, background: str | None = None, min_bags: int = MIN_BAGS) -> Bags | None:
        """The bags that `make_parts` left out, None if there are none: they have no label, and another bag of their
        group is a validation or test bag."""
        bags = self._prepared(background, min_bags)
        if self.bags.groups is None or (self.split is not None and "val" in self.split):
            return None
        tested = [parts.val] if self.split is not None or parts.test is None else [parts.val, parts.test]
        elsewhere = ~bags.bag_labels.known & np.isin(self.bags.groups, np.concatenate([part.groups for part in tested]))
        if self.split is not None:
            elsewhere &= self.split == "train"
        return bags.subset(elsewhere) if elsewhere.any() else None

    def _given_parts(self, bags: Bags, split: np.ndarray, data_seed: int) -> Parts:
        parts = {name: bags.subset(split == name) for name in SPLITS if (split == name).any()}
        if "train" not in parts:
            raise InputError(f"{self.name} has no bag in split train: mark the bags to train on")
        for name in parts.keys() - {"train"}:
            check_labelled(parts[name], f"the {name} bags of {self.name}", all_of_them=name == "val")
        if "val" in parts:
            return Parts(parts["train"], parts["val"], parts.get("test"))
        check_labelled(parts["train"], f"the train bags of {self.name}")
        part_of = parts["train"].with_labels().divide([1 - VALIDATION, VALIDATION], data_seed)
        train, val = _subsets(parts["train"], part_of, 2)
        return Parts(train, val, parts.get("test"))

    def _cross_validation_parts(self, bags: Bags, fold: int, folds: int, data_seed: int) -> Parts:
        if self.split is not None:
            raise InputError(
                f"{self.name} has a split column: leave out --folds (folds=), or remove the split column to "
                "cross-validate"
            )
        if folds < 3 or fold not in range(folds):
            raise InputError(f"fold {fold} of {folds}: give 3 or more folds, and a fold from 0 to folds - 1")
        everything, bags = bags, bags.with_labels()
        strata = bags.bag_labels.strata
        rng, shares = np.random.default_rng(data_seed), np.full(folds, 1 / folds)
        if bags.groups is None:
            fold_of = stratified_split(strata, shares, rng)
        else:
            fold_of = group_split(np.unique(bags.groups, return_inverse=True)[1], strata, shares, rng)
        if set(range(folds)) - set(fold_of):  # at least one fold is empty
            unit = "bags" if bags.groups is None else "groups"
            raise InputError(f"{self.name} has too few {unit} for {folds} folds: give fewer folds or more {unit}")
        val = (fold + 1) % folds
        part_of = np.select([fold_of == val, fold_of == fold], [1, 2], 0)
        return Parts(*_subsets(everything, part_of, 3))

    def _check_all_classes_trained(self, bags: Bags, train: Bags) -> None:
        missing = untrained_classes(bags, train)
        if missing:
            names = ", ".join(bags.classes[label] for label in missing)
            example = _first_with(bags, missing[0])
            raise InputError(
                f"no training bag has the label {names}; {example}: correct it if it is a mistake, give more bags of "
                "it (or of more groups), or a split column that puts one into train"
            )


def untrained_classes(bags: Bags, train: Bags) -> list[int]:
    """The classes that are a label of bags, but of none of the training bags."""
    return sorted(bags.bag_labels.named_classes() - train.bag_labels.named_classes())


def _first_with(bags: Bags, label: int) -> str:
    """The first bag whose label or runner-up this class is."""
    named = bags.bag_labels.allowed[:, label]
    kind = "label" if named.any() else "second_label"
    first = named if named.any() else bags.bag_labels.seconds == label
    return f"the {kind} of {bags.describe(int(np.argmax(first)))} is {bags.classes[label]}"


def _subsets(bags: Bags, part_of: np.ndarray, parts: int) -> tuple[Bags, ...]:
    """The bags of each part; `part_of` has one number per bag with a label, 0 for training.

    Bags without a label are for training. Those whose group is in another part are left out: what is learned from a
    group must not be tested on it.
    """
    known = bags.bag_labels.known
    of_all = np.zeros(len(bags), np.int64)
    of_all[known] = part_of
    if bags.groups is not None:
        elsewhere = np.isin(bags.groups, bags.groups[of_all > 0])
        of_all[~known & elsewhere] = parts
    return tuple(bags.subset(of_all == part) for part in range(parts))
