"""The bags of a run: its source, opened, and the training, validation and test bags made or taken from it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..data.bags import Bags
from ..data.joining import join
from ..data.training_labels import has_usable_labels, use_instance_labels, used_instances, without_labels_of
from ..errors import count_noun
from ..io import CustomBags, LabelledSet, Parts, Source, load, names
from ..io.custom.corrections import read_corrections
from ..log import Log, no_log
from ..nn.methods import sees_instance_labels
from .config import IN_MEMORY, BenchmarkBags, OwnBags, RunConfig
from .corrections import correct


class Data(NamedTuple):
    """What a run is trained on."""

    source: Source
    parts: Parts
    left_out: tuple[Bags, ...]  # the bags that are in no part, if there are any

    @property
    def all_bags(self) -> list[Bags]:
        return [*self.parts.present().values(), *self.left_out]


def has_own_bags(source: Source) -> bool:
    """Whether a source that was opened from Python has its own bags."""
    return not isinstance(source, LabelledSet)


def with_corrections(config: RunConfig) -> RunConfig:
    """The same run with the content of its file of corrected labels."""
    bags = config.bags
    if isinstance(bags, BenchmarkBags) or bags.labels is None or bags.corrections is not None:
        return config
    corrections = read_corrections(Path(bags.labels).expanduser())
    return config.model_copy(update={"bags": bags.model_copy(update={"corrections": corrections})})


def path_of(bags: OwnBags | BenchmarkBags) -> str | None:
    """The absolute path of a source that is a file or folder. Links are kept, as images may lie beside a link."""
    is_file = bags.source != IN_MEMORY and bags.source not in names()
    return os.path.abspath(Path(bags.source).expanduser()) if is_file else None


def open_source(bags: OwnBags | BenchmarkBags) -> Source:
    if isinstance(bags, BenchmarkBags):
        return load(bags.source)
    return load(bags.source, bags.image_size, bags.features, **bags.columns())


def read_data(config: RunConfig, source: Source | None = None, log: Log = no_log) -> Data:
    """The bags of the run, from its source if it is open already. Warnings about them are logged."""
    source = source or open_source(config.bags)
    for warning in source.warnings_for(config.labels.background):
        log(f"warning: {warning}")
    parts = make_parts(config, source, log)
    bags = source.left_out(parts, config.labels.background) if isinstance(source, CustomBags) else None
    return Data(source, parts, () if bags is None else (bags,))


def make_parts(config: RunConfig, source: Source, log: Log = no_log) -> Parts:
    bags, labels = config.bags, config.labels
    if isinstance(bags, BenchmarkBags):
        choices = bags.model_dump(exclude={"kind", "source"})
        parts = source.make_parts(**choices, background=labels.background)
    else:
        division: dict[str, Any] = {"fold": bags.fold, "folds": bags.folds, "data_seed": bags.data_seed}
        parts = source.make_parts(**division, background=labels.background)
        if bags.corrections is not None:
            parts = correct(parts, bags.corrections, str(bags.labels), log)
    return _with_training_labels(parts, config) if labels.learns_instances else parts


def join_all(data: Data, config: RunConfig) -> Bags:
    """All bags, to train on them once more; also with their instance labels if training uses all."""
    everything, labels = join(data.all_bags), config.labels
    uses_all = labels.learns_instances and labels.instance_labels is None
    return use_instance_labels(everything) if uses_all and has_usable_labels(everything) else everything


def _with_training_labels(parts: Parts, config: RunConfig) -> Parts:
    """Of training bags only. Figures leave these instances out, also where they are in bags of other parts."""
    train = use_instance_labels(parts.train, config.labels.instance_labels, config.bags.data_seed)
    used = used_instances(train)
    val, test = (bags and without_labels_of(bags, train.store, used) for bags in (parts.val, parts.test))
    assert val is not None
    return Parts(train, val, test)


def log_left_out(left_out: Sequence[Bags], refit: bool, log: Log) -> None:
    for bags in left_out:
        until = " until the training on all bags" if refit else ""
        what = "other bags of their groups are validation or test bags"
        log(f"{count_noun(len(bags), 'bag')} without a label left out{until}: {what}")


def fingerprints(parts: Parts, method: str) -> list[str | None]:
    """Hashes of what the method's training can see of each part."""
    visible = sees_instance_labels(method)
    seen = [part if part is None or visible else part.without_instance_labels() for part in parts]
    return [None if part is None else part.fingerprint() for part in seen]
