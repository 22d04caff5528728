"""The instances that an audit draws from: bags, the predictions for them, and the design."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.bags import Bags
from ..errors import InputError
from ..io import Source
from ..io.custom import ColumnNames
from ..io.predictions import instance_numbers
from ..log import Log, no_log
from ..predict.audit import Design, expected_right
from ..predict.classifier import CLASSIFIER, Classifier
from .audit_files import AuditRecord
from .folder import classifier_file, finished_file, fold_folders
from .reopen import open_bags, reopen
from .train import TrainedRun

if TYPE_CHECKING:
    import pandas as pd

MOST_FEATURES = 60  # columns of a table that a page shows
RANGE_ROWS = 5_000  # instances of each class from which its typical ranges are
TYPICAL = (0.1, 0.9)  # quantiles


@dataclass(frozen=True)
class Population:
    """Bags, the predictions for their instances, and the design."""

    classifier: Classifier
    bags: Bags
    source: Source | None
    name: str | None
    probabilities: np.ndarray
    design: Design

    @cached_property
    def ranges(self) -> np.ndarray:  # (C, 2, d)
        """The typical range of each column among the instances that are predicted as each class; NaN if none is."""
        rng, predicted = np.random.default_rng(0), self.probabilities.argmax(axis=1)
        found = np.full((len(self.classifier.classes), 2, self.bags.store.shape[1]), np.nan)
        for c in range(len(found)):
            of_class = np.flatnonzero(predicted == c)
            if len(of_class):
                some = np.sort(rng.permutation(of_class)[:RANGE_ROWS])
                found[c] = np.quantile(self.bags.store[self.bags.index[some]], TYPICAL, axis=0)
        return found

    @cached_property
    def listed(self) -> np.ndarray:
        """The columns that a page shows: all, or those whose ranges differ most between classes."""
        middles = self.ranges.mean(axis=1)
        lengths = np.nanmean(self.ranges[:, 1] - self.ranges[:, 0], axis=0)
        differ = (np.nanmax(middles, axis=0) - np.nanmin(middles, axis=0)) / np.maximum(lengths, 1e-12)
        return np.sort(np.argsort(-differ, kind="stable")[:MOST_FEATURES])

    @classmethod
    def open(
        cls,
        run: str | Path | TrainedRun | Classifier,
        source: str | Path | Bags | None,
        seed: int,
        names: ColumnNames | None = None,
        device: str = "auto",
        log: Log = no_log,
    ) -> Population:
        opened, name = None, None
        if isinstance(source, Bags):
            bags, classifier = source, classifier_of(run, "")
        elif isinstance(run, Classifier):
            raise InputError("audit of a classifier: give the bags, or the folder of its run")
        else:
            folder, name = _folder_of(run), None if source is None else str(source)
            classifier, bags, opened = _bags_of(folder, name, names, device, log)
        probabilities = np.empty((len(bags.index), len(classifier.classes)))
        for numbers, found in classifier.stream(bags, calibrated=False):
            probabilities[bags.positions(numbers)] = found
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        labels = bags.labels if bags.classes == tuple(classifier.classes) else None
        if not isinstance(seed, int) or seed < 0:
            raise InputError(f"seed is {seed!r}: give a whole number from 0")
        design = Design.of(expected_right(probabilities, bags.ids, labels), seed)
        return cls(classifier, bags, opened, name, probabilities, design)


def _bags_of(
    folder: Path, source: str | None, names: ColumnNames | None, device: str, log: Log
) -> tuple[Classifier, Bags, Source]:
    """The test bags of a run, or all bags of another source, which need no labels."""
    if source is None:
        classifier, parts, opened = reopen(folder, device=device)
        if parts.test is None:
            raise InputError(f"{folder} has no test bags: give bags that it was not trained on as SOURCE")
        return classifier, parts.test, opened
    classifier, bags, opened = open_bags(
        folder, source, labels=True, unlabelled=True, names=names, device=device, log=log
    )
    (only,) = bags.values()
    return classifier, only, opened


def make_record(population: Population, labels: int) -> AuditRecord:
    design, bags, probabilities = population.design, population.bags, population.probabilities
    drawn, classifier = design.draw(labels), hash_of(population.classifier)
    identity = hashlib.sha256(f"{classifier} {design.seed}".encode() + design.stratum.astype("<i4").tobytes())
    bag_names = range(len(bags)) if bags.names is None else bags.names
    classes, predicted = population.classifier.classes, probabilities.argmax(axis=1)
    return AuditRecord(
        audit=identity.hexdigest()[:8],
        classifier=classifier,
        seed=design.seed,
        source=population.name,
        classes=tuple(map(str, classes)),
        sizes=tuple(design.sizes.tolist()),
        expected=tuple(design.expected.tolist()),
        predicted_shares=tuple((np.bincount(predicted, minlength=len(classes)) / len(predicted)).tolist()),
        mean_probabilities=tuple(probabilities.mean(axis=0).tolist()),
        mean_confidence=float(probabilities.max(axis=1).mean()),
        bags=tuple(str(bag_names[bags.bag_of(int(i))]) for i in drawn),
        instances=tuple(map(str, instance_numbers(bags, drawn, population.source))),
        strata=tuple(design.stratum[drawn].tolist()),
        probabilities=tuple(map(tuple, probabilities[drawn].tolist())),
    )


def make_table(record: AuditRecord, population: Population, drawn: np.ndarray) -> pd.DataFrame:
    import pandas as pd

    bags, source = population.bags, population.source
    columns: dict[str, Any] = {"id": record.ids, "bag": record.bags, "instance": record.instances, "answer": ""}
    if source is not None and source.paths is not None:
        columns["path"] = source.paths[bags.index[drawn]]
    elif bags.store.ndim == 2:
        rows = bags.store[bags.index[drawn]]
        columns |= {name: rows[:, i] for i, name in enumerate(feature_names(population.classifier, rows.shape[1]))}
    return pd.DataFrame(columns)


def feature_names(classifier: Classifier, width: int) -> tuple[str, ...]:
    return classifier.columns or tuple(f"feature {i}" for i in range(width))


# ---------------------------------------------------------------------- the classifier


def hash_of(classifier: Classifier) -> str:
    """Of its weights; a temperature changes nothing."""
    digest = hashlib.sha256()
    for member in classifier.members or (classifier,):
        for name, values in sorted(member.model.state_dict().items()):
            digest.update(name.encode() + values.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def _folder_of(run: str | Path | TrainedRun | Classifier) -> Path:
    return run.folder if isinstance(run, TrainedRun) else Path(str(run))


def classifier_of(run: str | Path | TrainedRun | Classifier, source: str | None) -> Classifier:
    """The one for bags of this source; None: the run's own test bags."""
    return run if isinstance(run, Classifier) else Classifier.load(file_of(_folder_of(run), source))


def file_of(folder: Path, source: str | None) -> Path:
    """The file of the classifier for bags of this source; None: the run's own."""
    if fold_folders(folder):
        raise InputError(f"{folder} holds the runs of a cross-validation: give one of them, such as {folder / 'fold0'}")
    return finished_file(folder, CLASSIFIER) if source is None else classifier_file(folder)
