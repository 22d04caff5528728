"""The bags of a run: its source, opened, and the training, validation and test bags made or taken from it."""

from __future__ import annotations

import os
from typing import Any, NamedTuple

import numpy as np

from ..data.bags import Bags
from ..data.splitting import MIN_BAGS
from ..errors import count_noun
from ..files import user_path
from ..io import CustomBags, LabelledSet, Parts, Source, load, names
from ..io.custom.corrections import read_corrections
from ..log import Log, no_log
from ..nn.methods import sees_instance_labels
from .config import ALL, IN_MEMORY, BenchmarkBags, OwnBags, RunConfig
from .corrections import correct
from .instance_labels import InstanceLabels, read_answers


class Data(NamedTuple):
    """What a run is trained on."""

    source: Source
    parts: Parts
    left_out: Bags | None  # the bags that are in no part

    def for_training_on_all(self, config: RunConfig) -> dict[str, Bags]:
        """All bags by part, with the labels that a training on all of them learns."""
        parts = self.parts.present() | ({} if self.left_out is None else {"left out": self.left_out})
        learned = InstanceLabels.of(config)
        return (
            {name: learned.in_training_on_all(bags, self.source) for name, bags in parts.items()} if learned else parts
        )


def has_own_bags(source: Source) -> bool:
    """Whether a source that was opened from Python has its own bags."""
    return not isinstance(source, LabelledSet)


def with_files(config: RunConfig) -> RunConfig:
    """The same run with the content of its files of corrected labels and of answers."""
    bags, labels = config.bags, config.labels
    if isinstance(bags, OwnBags) and bags.labels is not None and bags.corrections is None:
        corrections = read_corrections(user_path(bags.labels))
        bags = bags.model_copy(update={"corrections": corrections})
    if labels.instance_labels not in (None, ALL) and isinstance(labels.instance_labels, str) and labels.answers is None:
        answers = read_answers(user_path(labels.instance_labels))
        labels = labels.model_copy(update={"answers": answers})
    return config.model_copy(update={"bags": bags, "labels": labels})


def path_of(bags: OwnBags | BenchmarkBags) -> str | None:
    """The absolute path of a source that is a file or folder. Links are kept, as images may lie beside a link."""
    is_file = bags.source != IN_MEMORY and bags.source not in names()
    return os.path.abspath(user_path(bags.source)) if is_file else None


def open_source(bags: OwnBags | BenchmarkBags) -> Source:
    if isinstance(bags, BenchmarkBags):
        return load(bags.source)
    return load(bags.source, bags.image_size, bags.features, **bags.columns())


def read_data(config: RunConfig, source: Source | None = None, log: Log = no_log) -> Data:
    """The bags of the run, from its source if it is open already. Warnings about them are logged."""
    source = source or open_source(config.bags)
    chosen = config.labels.background, config.bags.min_bags if isinstance(config.bags, OwnBags) else MIN_BAGS
    for warning in source.warnings_for(*chosen):
        log(f"warning: {warning}")
    parts = make_parts(config, source, log)
    untrained = describe_untrained(parts)
    if untrained is not None:
        log(f"warning: {untrained}")
    bags = source.left_out(parts, *chosen) if isinstance(source, CustomBags) else None
    return Data(source, parts, bags)


def make_parts(config: RunConfig, source: Source, log: Log = no_log) -> Parts:
    bags, labels = config.bags, config.labels
    if isinstance(bags, BenchmarkBags):
        choices = bags.model_dump(exclude={"kind", "source"})
        parts = source.make_parts(**choices, background=labels.background)
    else:
        division: dict[str, Any] = {"fold": bags.fold, "folds": bags.folds, "data_seed": bags.data_seed}
        parts = source.make_parts(**division, background=labels.background, min_bags=bags.min_bags)
        if bags.corrections is not None:
            parts = correct(parts, bags.corrections, bags.labels or "corrections", log)
    learned = InstanceLabels.of(config)
    return learned.in_first_training(parts, source) if learned else parts


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


def log_left_out(bags: Bags, refit: bool, log: Log) -> None:
    until = " until the training on all bags" if refit else ""
    what = "other bags of their groups are validation or test bags"
    log(f"{count_noun(len(bags), 'bag')} without a label left out{until}: {what}")


def fingerprints(parts: Parts, method: str) -> list[str | None]:
    """Hashes of what the method's training can see of each part."""
    visible = sees_instance_labels(method)
    seen = [part if part is None or visible else part.without_instance_labels() for part in parts]
    return [None if part is None else part.fingerprint() for part in seen]
