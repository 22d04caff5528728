"""Labels of single instances that a run learns: from the column label, or from the answers of an audit.

An instance is named by its bag and its number there, as predictions number it. `trained_instances` says which ones a
finished run has learned: nothing may be measured on them.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..data.bags import Bags
from ..data.instance_labels import UNKNOWN, none_if_unknown
from ..data.training_labels import has_usable_labels, use_instance_labels, used_instances, without_labels_of
from ..errors import InputError, closest
from ..files import write_text
from ..io import CustomBags, Parts, Source
from ..io.custom.corrections import read_filled
from ..io.predictions import instance_numbers
from .config import ALL, RunConfig
from .folder import is_trained_on, read_config

TRAINED = "trained-instances.csv"  # in a run folder
BAG, INSTANCE, PATH, ANSWER = "bag", "instance", "path", "answer"
NO_CLASS = ("", "cannot tell", "another class")  # answers of an audit that name no class of the run

Answers = Mapping[str, Mapping[str, str]]  # the class by bag and instance


def read_answers(path: Path) -> dict[str, dict[str, str]]:
    """The class by bag and instance. Instances of images may be named by their path instead of their number."""
    frame = read_filled(path, (BAG, ANSWER), "instance_labels", "`majority audit`", optional=(INSTANCE, PATH))
    name = INSTANCE if INSTANCE in frame else PATH
    if name not in frame:
        raise InputError(f"{path} has no column {INSTANCE}: give answers to an audit, or number them as predictions do")
    answers: dict[str, dict[str, str]] = {}
    for row, bag, instance, answer in zip(frame.index, frame[BAG], frame[name], frame[ANSWER], strict=True):
        if answer in NO_CLASS:
            continue
        if answers.setdefault(bag, {}).setdefault(instance, answer) != answer:
            what = f"{path}, row {row}: instance {instance} of bag {bag} is {answer} here"
            raise InputError(f"{what} and {answers[bag][instance]} above: keep one of them")
    if not answers:
        raise InputError(f"{path} names no class: fill the column {ANSWER}, at least in some rows")
    return answers


@dataclass(frozen=True)
class InstanceLabels:
    """Which labels of instances a run learns: those of training bags and, in the training on all bags, of others."""

    choice: str | int  # all, how many per class, or the file
    answers: Answers | None  # the content of the file
    seed: int

    @classmethod
    def of(cls, config: RunConfig) -> InstanceLabels | None:
        labels, seed = config.labels, config.bags.data_seed
        return None if labels.instance_labels is None else cls(labels.instance_labels, labels.answers, seed)

    def in_first_training(self, parts: Parts, source: Source) -> Parts:
        """Figures leave the learned instances out, also where they are in bags of other parts."""
        if self.answers is None:
            train = use_instance_labels(parts.train, None if self.choice == ALL else int(self.choice), self.seed)
        else:
            self._check_answers(parts, source)
            train = with_answers(parts.train, self.answers, source)
        used = used_instances(train)
        val, test = (bags and without_labels_of(bags, train.store, used) for bags in (parts.val, parts.test))
        assert val is not None
        return Parts(train, val, test)

    def in_training_on_all(self, bags: Bags, source: Source) -> Bags:
        """The bags of one part, with the labels that the training on all bags learns."""
        if self.answers is not None:
            return with_answers(bags, self.answers, source)
        return use_instance_labels(bags) if self.choice == ALL and has_usable_labels(bags) else bags

    def _check_answers(self, parts: Parts, source: Source) -> None:
        assert self.answers is not None
        everything = [source.bags] if isinstance(source, CustomBags) else [*parts.present().values()]
        if any(bags.names is None for bags in everything):
            raise InputError(f"{self.choice}: the bags of the source have no names: make them with names=...")
        found = Counter(name for bags in everything for name in bags.bag_names())
        twice = [name for name in self.answers if found[name] > 1]
        if twice:
            raise InputError(f"{self.choice}: {found[twice[0]]} bags have the name {twice[0]}: give each its own name")
        missing = [name for name in self.answers if name not in found]
        if missing:
            raise InputError(f"{self.choice}: the source has no bag {missing[0]}: give answers about its bags")
        classes = parts.train.classes
        known = {name for bags in everything for name in _instances_of(bags, self.answers, source)}
        for bag, of_bag in self.answers.items():
            for instance, answer in of_bag.items():
                place = f"{self.choice}: bag {bag}, instance {instance}"
                if (bag, instance) not in known:
                    raise InputError(f"{place}: the bag has no such instance: number them as predictions do")
                if answer not in classes:
                    similar = closest(answer, classes)
                    guess = f" (did you mean {similar}?)" if similar else ""
                    raise InputError(f"{place} is {answer}, which is no class{guess}: use {', '.join(classes)}")


def with_answers(bags: Bags, answers: Answers, source: Source) -> Bags:
    """The same bags; the answered instances have training labels, and no labels for figures."""
    codes = np.full(len(bags.index), UNKNOWN)
    for (bag, instance), position in _instances_of(bags, answers, source).items():
        if instance in answers[bag]:
            codes[position] = bags.classes.index(answers[bag][instance])
    kept = None if bags.instance_labels is None else np.where(codes != UNKNOWN, UNKNOWN, bags.instance_labels)
    return bags._with(training_labels=none_if_unknown(codes), instance_labels=none_if_unknown(kept))


def _instances_of(bags: Bags, answers: Answers, source: Source) -> dict[tuple[str, str], int]:
    """The position of every instance of the answered bags, by bag and number, and by bag and path."""
    found: dict[tuple[str, str], int] = {}
    for number, bag in enumerate(bags.bag_names()):
        if bag in answers:
            positions = bags.positions(np.array([number]))
            names = instance_numbers(bags, positions, source)
            found |= {(bag, str(name)): int(i) for name, i in zip(names, positions, strict=True)}
            if source.paths is not None:
                paths = source.paths[bags.index[positions]]
                found |= {(bag, str(path)): int(i) for path, i in zip(paths, positions, strict=True)}
    return found


# ---------------------------------------------------------------------- the record of a run


def write_trained(folder: Path, parts: Mapping[str, Bags], source: Source) -> None:
    """List the instances of these parts whose labels were learned."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(("part", BAG, INSTANCE))
    for part, bags in parts.items():
        if bags.training_labels is not None:
            positions = np.flatnonzero(bags.training_labels != UNKNOWN)
            names, of = bags.bag_names(), np.searchsorted(bags.offsets, positions, side="right") - 1
            numbers = instance_numbers(bags, positions, source)
            rows.writerows((part, names[bag], number) for bag, number in zip(of, numbers, strict=True))
    write_text(folder / TRAINED, text.getvalue())


def trained_instances(folder: Path, source: str | None = None) -> set[tuple[str, str]]:
    """The bag and number of each instance that the run's classifier has learned by its label: of the classifier for the
    run's own bags, or of that for this source."""
    if not (folder / TRAINED).is_file() or (source is not None and not is_trained_on(read_config(folder), source)):
        return set()
    with (folder / TRAINED).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row[BAG], row[INSTANCE]) for row in rows if source is not None or row["part"] == "train"}
