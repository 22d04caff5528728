"""Data: which bags an experiment works with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from ..data.bags import Bags
from ..data.joining import join
from ..data.scenarios import LABELS
from ..data.training_labels import has_usable_labels, use_instance_labels, used_instances, without_labels_of
from ..errors import InputError
from ..io import Parts, Source, is_custom_source, load, names
from ..io.base import IN_MEMORY
from ..io.custom.corrections import read_corrections
from ..io.custom.custom_bags import CustomBags
from ..log import Log, no_log
from ..nn.methods import sees_instance_labels
from ..parsing import check_fields
from .corrections import correct

MAXIMA = {  # what is too low is refused where it is used, which knows more about it
    "fold": 10**6,
    "bags": 10**8,
    "bag_size": 10**8,
    "data_seed": 2**62,
    "folds": 10**6,
    "classes": 10**6,
    "winner_ratio": 10**6,
    "instance_labels": 10**8,
}

NO_CHOICES_OF_BAGS = (  # fields that say how a source is read, or what training sees of its bags
    "source",
    "image_size",
    "features",
    "bag_column",
    "label_column",
    "path_column",
    "use_instance_labels",
    "instance_labels",
)


@dataclass(frozen=True)
class Data:
    """Which bags to use: the same for every method, so that comparisons are paired.

    `scenario` to `with_replacement`, `classes`, `winner_ratio`, `labels` and `wrong_labels` say how bags are made from
    a labelled set; custom bags are used as they are, or with corrected labels.
    """

    source: str
    scenario: str | None = None  # None: various
    fold: int = 0
    bags: int | None = None  # None: the default number of the source
    bag_size: int | None = None
    ties: str | None = None  # None: lowest
    with_replacement: bool = False
    data_seed: int = 0
    folds: int | None = None  # custom bags only
    image_size: int | None = None  # of the images of a manifest, in pixels
    features: tuple[str, ...] | None = None  # columns of a manifest
    bag_column: str | None = None  # the names of columns in a table of custom bags; None: the usual ones
    label_column: str | None = None
    path_column: str | None = None
    background: str | None = None  # a class that does not vote
    classes: int | None = None  # use only the first N classes of a labelled data set; None: all
    winner_ratio: float | None = None  # the first class is the label this many times as often as the last; None: 1
    labels: str | None = None  # winner (None), or top2; of custom bags: a file of corrected labels
    wrong_labels: float | None = None  # share of training and validation bags that get a wrong label; None: 0
    corrections: dict[str, str] | None = None  # the content of the file of corrected labels: by bag
    use_instance_labels: bool = False  # training sees known labels of instances in training bags
    instance_labels: int | None = None  # so many of them per class, drawn by the data seed; None: all that are known

    def __post_init__(self) -> None:
        check_fields(self)
        for name, highest in MAXIMA.items():
            value, shown = getattr(self, name), name.replace("_", " ")
            if value is not None and value > highest:
                raise InputError(f"{shown} {value}: give at most {highest:,}")
            if value is not None and value < 1 and name in ("bags", "bag_size", "instance_labels"):
                raise InputError(f"{shown} {value}: give 1 or more")
        if self.instance_labels is not None and not self.use_instance_labels:
            raise InputError(
                f"instance labels {self.instance_labels}: training uses labels of instances only with "
                "--use-instance-labels (use_instance_labels=True)"
            )

    @classmethod
    def from_options(cls, source: str, options: Mapping[str, Any]) -> Data:
        """The data that options of `majority train`, or arguments of `majority.train`, describe. They have the names of
        the fields; None stands for the default, and other names are ignored.

        >>> data = Data.from_options("digits", {"bags": 20, "fold": None, "method": "count"})
        >>> data.bags, data.fold
        (20, 0)
        """
        given = {item.name: options[item.name] for item in fields(cls) if options.get(item.name) is not None}
        if "features" in given:
            given["features"] = tuple(given["features"])
        return cls(**given | {"source": source})

    @property
    def path(self) -> str | None:
        """The absolute path of a source that is a file or folder. Links are kept, as images may lie beside a link."""
        is_file = self.source != IN_MEMORY and self.source not in names()
        return os.path.abspath(Path(self.source).expanduser()) if is_file else None

    @property
    def is_custom(self) -> bool:
        """Whether these are bags of your own, in files or in memory; otherwise they are made from a labelled set."""
        return self.source == IN_MEMORY or is_custom_source(self.source)

    def with_defaults(self) -> Data:
        """The same data with the defaults for its kind of source filled in, and its corrected labels."""
        if self.is_custom and self.labels is not None and self.labels not in LABELS and self.corrections is None:
            return replace(self, corrections=read_corrections(Path(self.labels).expanduser())).with_defaults()
        if self.source == IN_MEMORY:
            return self
        if self.is_custom:
            if self.folds is not None and self.folds < 3:
                raise InputError(f"folds {self.folds}: give 3 or more (one for testing, one for validation)")
            return self
        if self.folds is not None:
            raise InputError(
                f"folds {self.folds}: benchmark sets always have five folds; choose one with --fold (fold=)"
            )
        if self.use_instance_labels and self.instance_labels is None:
            what = "instance labels: every instance of a benchmark set has a label"
            raise InputError(f"{what}: say how many per class to use, e.g. --instance-labels 5 (instance_labels=5)")
        return replace(self, scenario=self.scenario or "various", ties=self.ties or "lowest")

    def open(self) -> Source:
        return load(
            self.source,
            self.image_size,
            self.features,
            bag_column=self.bag_column,
            label_column=self.label_column,
            path_column=self.path_column,
        )

    def parts(self, source: Source, log: Log = no_log) -> Parts:
        choices = asdict(self.with_defaults())
        for name in NO_CHOICES_OF_BAGS:
            choices.pop(name)
        corrections = choices.pop("corrections")
        if corrections is None:
            parts = source.make_parts(**choices)
        else:
            parts = correct(source.make_parts(**choices | {"labels": None}), corrections, str(self.labels), log)
        return self._with_training_labels(parts) if self.use_instance_labels else parts

    def left_out(self, source: Source, parts: Parts) -> tuple[Bags, ...]:
        """The bags without a label that are in no part because of their groups; empty if there are none."""
        bags = source.left_out(parts, self.background) if isinstance(source, CustomBags) else None
        return () if bags is None else (bags,)

    def join(self, parts: Sequence[Bags]) -> Bags:
        """The bags of all parts, to train on them once more; also with their instance labels if training uses all."""
        everything = join(parts)
        uses_all = self.use_instance_labels and self.instance_labels is None
        return use_instance_labels(everything) if uses_all and has_usable_labels(everything) else everything

    def _with_training_labels(self, parts: Parts) -> Parts:
        """Of training bags only. Figures leave these instances out, also where they are in bags of other parts."""
        train = use_instance_labels(parts.train, self.instance_labels, self.data_seed)
        used = used_instances(train)
        val, test = (bags and without_labels_of(bags, train.store, used) for bags in (parts.val, parts.test))
        assert val is not None
        return Parts(train, val, test)


def fingerprints(parts: Parts, method: str) -> list[str | None]:
    """Hashes of what the method's training can see of each part."""
    visible = sees_instance_labels(method)
    seen = [part if part is None or visible else part.without_instance_labels() for part in parts]
    return [None if part is None else part.fingerprint() for part in seen]
