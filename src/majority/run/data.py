"""The bags of a run: its source, opened, the training, validation and test bags made or taken from it, and what
training sees of other labels: corrected labels of bags, and labels of single instances.

An instance is named by its bag and its number there, as predictions number it. `trained_instances` says which ones a
finished run has learned: nothing may be measured on them.
"""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ..data.bags import Bags
from ..data.instance_labels import UNKNOWN, none_if_unknown
from ..data.splitting import MIN_BAGS
from ..data.training_labels import usable_labels, use_instance_labels, used_instances, without_labels_of
from ..errors import InputError, count_noun, unknown_name
from ..files import user_path, write_text
from ..io import CustomBags, Parts, Source, load, names, note_on_name
from ..io.custom.tables import TEXT_SUFFIXES, read_table
from ..io.predictions import instance_numbers
from ..log import Log, no_log
from ..nn.methods import sees_instance_labels
from .config import IN_MEMORY, BenchmarkBags, OwnBags, Reading, RunConfig
from .folder import is_trained_on, read_config

ALL = "all"  # labels of instances
TRAINED = "trained-instances.csv"  # in a run folder
BAG, CORRECTED = "bag", "corrected_label"
INSTANCE, PATH, ANSWER = "instance", "path", "answer"
PART_NAMES = {"train": "training", "val": "validation", "test": "test"}
NO_CLASS = ("", "cannot tell", "another class")  # answers of an audit that name no class of the run


class Data(NamedTuple):
    """What a run is trained on."""

    source: Source
    parts: Parts
    left_out: Bags | None  # the bags that are in no part

    def for_training_on_all(self, config: RunConfig) -> dict[str, Bags]:
        """All bags by part, with the labels that a training on all of them learns."""
        parts = self.parts.present() | ({} if self.left_out is None else {"left out": self.left_out})
        return {name: in_training_on_all(config, bags, self.source) for name, bags in parts.items()}


def path_of(bags: OwnBags | BenchmarkBags) -> str | None:
    """The absolute path of a source that is a file or folder. Links are kept, as images may lie beside a link."""
    is_file = bags.source != IN_MEMORY and bags.source not in names()
    return os.path.abspath(user_path(bags.source)) if is_file else None


def open_source(bags: OwnBags | BenchmarkBags) -> Source:
    return load(bags.source, **bags.model_dump(include={*Reading.model_fields}))


def read_data(config: RunConfig, source: Source | None = None, log: Log = no_log) -> Data:
    """The bags of the run, from its source if it is open already. Warnings about them are logged."""
    if note := note_on_name(config.bags.source):
        log(f"note: {note}")
    source = source or open_source(config.bags)
    chosen = config.background, config.bags.min_bags if isinstance(config.bags, OwnBags) else MIN_BAGS
    for warning in source.warnings_for(*chosen):
        log(f"warning: {warning}")
    parts = make_parts(config, source, log)
    if untrained := describe_untrained(parts):
        log(f"warning: {untrained}")
    left_out, bags = None, config.bags
    if isinstance(source, CustomBags) and isinstance(bags, OwnBags):
        left_out = source.left_out(bags.fold, bags.folds, bags.data_seed, *chosen)
    return Data(source, parts, left_out)


def make_parts(config: RunConfig, source: Source, log: Log = no_log) -> Parts:
    bags = config.bags
    own = ("fold", "folds", "data_seed", "min_bags")
    choices = bags.model_dump(include={*own} if isinstance(bags, OwnBags) else None, exclude={"kind", "source"})
    parts = source.make_parts(**choices, background=config.background)
    if isinstance(bags, OwnBags) and bags.corrections is not None:
        parts = correct(parts, bags.corrections, bags.labels or "corrections", log)
    return in_first_training(config, parts, source)


def describe_untrained(parts: Parts) -> str | None:
    """A fold may lack the few bags of a class."""
    named = {number for bags in parts.present().values() for number in bags.bag_labels.named_classes()}
    missing = sorted(named - parts.train.bag_labels.named_classes())
    if not missing or parts.test is None:
        return None
    labels = parts.test.instance_labels
    tested = "" if labels is None else f" ({count_noun(int(np.isin(labels, missing).sum()), 'test instance')})"
    names = ", ".join(parts.train.classes[number] for number in missing)
    what = f"no training bag of this fold has the label {names}: nothing is classified as it"
    return f"{what}, so its instances{tested} count as wrong"


def fingerprints(parts: Parts, method: str) -> list[str | None]:
    """Hashes of what the method's training can see of each part."""
    visible = sees_instance_labels(method)
    seen = [part if part is None or visible else part.without_instance_labels() for part in parts]
    return [None if part is None else part.fingerprint() for part in seen]


# ---------------------------------------------------------------------- files of labels


def with_files(config: RunConfig) -> RunConfig:
    """The same run with the content of its files of corrected labels and of answers."""
    bags, chosen = config.bags, config.instance_labels
    changes: dict[str, object] = {}
    if isinstance(bags, OwnBags) and bags.labels is not None and bags.corrections is None:
        corrections = read_corrections(user_path(bags.labels))
        changes["bags"] = bags.model_copy(update={"corrections": corrections})
    if isinstance(chosen, str) and chosen != ALL and config.answers is None:
        changes["answers"] = read_answers(user_path(chosen))
    return config.model_copy(update=changes)


def read_filled(
    path: Path, columns: tuple[str, ...], option: str, made_by: str, optional: tuple[str, ...] = ()
) -> pd.DataFrame:
    """A table that people have filled in, with these columns as text; `made_by` is the command that wrote it."""
    if path.suffix.lower() not in TEXT_SUFFIXES or not path.exists():
        raise InputError(f"{option} {path}: there is no such .csv file: give a file of {made_by}")
    frame = read_table(path, (*columns, *optional))
    for name in columns:
        if name not in frame:
            raise InputError(f"{path} has no column {name}: give a file of {made_by}")
    return frame


def read_corrections(path: Path) -> dict[str, str]:
    """The label by bag of a table with the columns `bag` and `corrected_label`; rows without a label are left out."""
    frame = read_filled(path, (BAG, CORRECTED), "labels", "`majority review`")
    frame = frame[frame[CORRECTED] != ""]
    if not len(frame):
        raise InputError(f"{path} corrects nothing: write the right labels into the column {CORRECTED}")
    twice = frame.index[frame[BAG].duplicated()]
    if len(twice):
        raise InputError(f"{path}, row {twice[0]}: bag {frame[BAG][twice[0]]} occurs twice: leave out a row")
    return dict(zip(frame[BAG].tolist(), frame[CORRECTED].tolist(), strict=True))


def read_answers(path: Path) -> dict[str, dict[str, str]]:
    """The class by bag and instance. Instances of images may be named by their path instead of their number."""
    frame = read_filled(path, (BAG, ANSWER), "instance_labels", "`majority audit`", optional=(INSTANCE, PATH))
    name = INSTANCE if INSTANCE in frame else PATH
    if name not in frame:
        raise InputError(f"{path} has no column {INSTANCE}: give answers to an audit, or number them as predictions do")
    answers: dict[str, dict[str, str]] = {}
    for row, bag, instance, answer in zip(frame.index, frame[BAG], frame[name], frame[ANSWER], strict=True):
        if answer not in NO_CLASS and answers.setdefault(bag, {}).setdefault(instance, answer) != answer:
            what = f"{path}, row {row}: instance {instance} of bag {bag} is {answer} here"
            raise InputError(f"{what} and {answers[bag][instance]} above: keep one of them")
    if not answers:
        raise InputError(f"{path} names no class: fill the column {ANSWER}, at least in some rows")
    return answers


def _check_names(bags: Sequence[Bags], wanted: Iterable[str], file: str) -> None:
    """Each bag that the file names is one of these."""
    if any(of.names is None for of in bags):
        raise InputError(f"{file}: the bags of the source have no names, which its rows need: make them with names=...")
    found = Counter(name for of in bags for name in of.bag_names())
    for name in wanted:
        if found[name] != 1:
            what = f"{found[name]} bags have the name {name}" if found[name] else f"the source has no bag {name}"
            raise InputError(f"{file}: {what}: name the bags as in the source, each with its own name")


# ---------------------------------------------------------------------- corrected labels of bags


def correct(parts: Parts, corrections: Mapping[str, str], file: str, log: Log) -> Parts:
    """The same parts with other labels of some bags. Every bag stays in its part."""
    present = parts.present()
    _check_names([*present.values()], corrections, file)
    corrected, counts = {}, []
    for part, bags in present.items():
        labels = {number: corrections[name] for number, name in enumerate(bags.bag_names()) if name in corrections}
        try:
            corrected[part] = bags.with_other_labels(labels)
        except InputError as error:
            raise InputError(f"{file}: {error}") from None
        counts.append(f"{len(labels):,} of {PART_NAMES[part]}")
    lost = parts.train.bag_labels.named_classes() - corrected["train"].bag_labels.named_classes()
    if lost:
        name = parts.train.classes[min(lost)]
        raise InputError(f"{file}: no training bag is left with the label {name}: leave one of its bags as it was")
    log(f"{count_noun(len(corrections), 'label')} taken from {file}, not from the source ({', '.join(counts)} bags)")
    return Parts(corrected["train"], corrected["val"], corrected.get("test"))


# ---------------------------------------------------------------------- labels of instances


def in_first_training(config: RunConfig, parts: Parts, source: Source) -> Parts:
    """With the labels of instances that are learned: figures leave them out, also where they are in other parts."""
    if config.instance_labels is None:
        return parts
    if config.answers is None:
        per_class = None if config.instance_labels == ALL else config.instance_labels
        if isinstance(per_class, str):
            raise InputError(f"instance_labels {per_class}: its answers are missing: train again")
        train = use_instance_labels(parts.train, per_class, config.bags.data_seed)
    else:
        everything = [source.bags] if isinstance(source, CustomBags) else [*parts.present().values()]
        _check_answers(config.answers, everything, source, str(config.instance_labels))
        train = _with_answers(parts.train, config.answers, source)
    used = used_instances(train)
    others = parts.present() | {"train": train}
    others |= {name: without_labels_of(of, train.store, used) for name, of in others.items() if name != "train"}
    return Parts(others["train"], others["val"], others.get("test"))


def in_training_on_all(config: RunConfig, bags: Bags, source: Source) -> Bags:
    """The bags of one part, with the labels that the training on all bags learns."""
    if config.answers is not None:
        return _with_answers(bags, config.answers, source)
    return use_instance_labels(bags) if config.instance_labels == ALL and usable_labels(bags).any() else bags


Answers = Mapping[str, Mapping[str, str]]  # the class by bag and instance


def _check_answers(answers: Answers, everything: list[Bags], source: Source, file: str) -> None:
    _check_names(everything, answers, file)
    classes = everything[0].classes
    known = {name for bags in everything for name in _instances_of(bags, answers, source)}
    for bag, instance, answer in ((bag, *item) for bag, of_bag in answers.items() for item in of_bag.items()):
        if (bag, instance) not in known:
            raise InputError(f"{file}: bag {bag} has no such instance {instance}: number them as predictions do")
        if answer not in classes:
            raise unknown_name("class", answer, classes, option=f"{file}: bag {bag}, instance {instance}")


def _with_answers(bags: Bags, answers: Answers, source: Source) -> Bags:
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
            names = [instance_numbers(bags, positions, source)]
            names += [] if source.paths is None else [source.paths[bags.index[positions]]]
            found |= {(bag, str(name)): int(i) for of in names for name, i in zip(of, positions, strict=True)}
    return found


# ---------------------------------------------------------------------- the record of a run


def write_trained(folder: Path, parts: Mapping[str, Bags], source: Source) -> None:
    """List the instances of these parts whose labels were learned, if there are any."""
    text = io.StringIO()
    rows = csv.writer(text)
    rows.writerow(("part", BAG, INSTANCE))
    learned = {part: bags for part, bags in parts.items() if bags.training_labels is not None}
    for part, bags in learned.items():
        positions = np.flatnonzero(bags.training_labels != UNKNOWN)
        names, of = bags.bag_names(), np.searchsorted(bags.offsets, positions, side="right") - 1
        numbers = instance_numbers(bags, positions, source)
        rows.writerows((part, names[bag], number) for bag, number in zip(of, numbers, strict=True))
    if learned:
        write_text(folder / TRAINED, text.getvalue())


def trained_instances(folder: Path, source: str | None = None) -> set[tuple[str, str]]:
    """The bag and number of each instance that the run's classifier has learned by its label: of the classifier for the
    run's own bags, or of that for this source."""
    if not (folder / TRAINED).is_file() or (source is not None and not is_trained_on(read_config(folder), source)):
        return set()
    with (folder / TRAINED).open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return {(row[BAG], row[INSTANCE]) for row in rows if source is not None or row["part"] == "train"}
