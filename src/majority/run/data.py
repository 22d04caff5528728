"""The bags of a run: its source, opened, and the training, validation and test bags made or taken from it."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from ..data.bags import Bags
from ..data.splitting import MIN_BAGS
from ..errors import count_noun
from ..files import user_path
from ..io import CustomBags, Parts, Source, load, names, note_on_name
from ..log import Log, no_log
from ..nn.methods import sees_instance_labels
from .config import IN_MEMORY, BenchmarkBags, OwnBags, Reading, RunConfig
from .labels import correct, in_first_training, in_training_on_all


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
