"""The instances that an audit draws from: bags, the predictions for them, and the design."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.bags import Bags
from ..data.joining import join
from ..errors import InputError
from ..io import Source
from ..io.custom import ColumnNames
from ..io.predictions import instance_numbers
from ..log import Log, no_log
from ..predict.audit_design import LEAST_LABELS, Design, Whole, expected_right
from ..predict.classifier import CLASSIFIER, Classifier
from .audit_files import AuditRecord
from .data import make_parts, trained_instances
from .folder import classifier_file, finished_file, fold_folders, read_config, source_of
from .maps import probabilities_of
from .reopen import open_bags, open_classifier, reopen

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Population:
    classifier: str  # a hash
    classes: tuple[str, ...]
    columns: tuple[str, ...]  # features, if instances are vectors
    bags: Bags
    probabilities: np.ndarray  # (n, C)
    positions: np.ndarray  # of the instances that may be drawn
    design: Design  # of these
    source: Source | None = None
    place: Path | None = None  # of the source, if it is a file or a folder

    @classmethod
    def of(
        cls,
        pairs: Sequence[tuple[Classifier, Bags]],
        seed: int,
        source: Source | None = None,
        place: Path | None = None,
        learned: Set[tuple[str, str]] = frozenset(),
    ) -> Population:
        """Bags, each with the classifier that is audited on them: one, or that of each fold. Instances that it has
        learned by their label, given by bag and number, are not drawn."""
        classifier = pairs[0][0]
        probabilities = np.concatenate([probabilities_of(*pair, calibrated=False) for pair in pairs])
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        bags = _joined([bags for _, bags in pairs])
        labels = bags.labels if bags.classes == tuple(classifier.classes) else None
        positions = np.arange(len(bags.index))
        if learned:
            numbers = instance_numbers(bags, positions, source).astype(str)
            names = zip(np.array(bags.bag_names())[bags.ids], numbers, strict=True)
            positions = np.flatnonzero([name not in learned for name in names])
        return cls(
            hash_of([classifier for classifier, _ in pairs]),
            tuple(map(str, classifier.classes)),
            classifier.columns or tuple(f"feature {i}" for i in range(bags.store.shape[1])),
            bags,
            probabilities,
            positions,
            Design.of(expected_right(probabilities, bags.ids, labels)[positions], seed),
            source,
            place,
        )

    def drawn(self, labels: int) -> np.ndarray:  # (labels,) positions
        return np.asarray(self.positions[self.design.draw(labels)])

    def draw(self, labels: int, source: str | None, names: ColumnNames | None) -> tuple[AuditRecord, pd.DataFrame]:
        """The record and the table of the first so many instances; the source and its columns are noted."""
        import pandas as pd

        design, bags, n = self.design, self.bags, len(self.positions)
        if not LEAST_LABELS <= labels <= n:
            raise InputError(f"{labels} labels: give {LEAST_LABELS} to {n:,}, the number of instances (--labels)")
        if design.seed < 0:
            raise InputError(f"seed {design.seed}: give 0 or more (--seed)")
        drawn, bag_names = self.drawn(labels), bags.bag_names()
        identity = hashlib.sha256(f"{self.classifier} {design.seed}".encode() + design.stratum.astype("<i4").tobytes())
        record = AuditRecord(
            audit=identity.hexdigest()[:8],
            classifier=self.classifier,
            seed=design.seed,
            source=source,
            names=names,
            whole=Whole.of(self.classes, design, self.probabilities[self.positions]),
            bags=tuple(bag_names[bags.bag_of(int(i))] for i in drawn),
            instances=tuple(map(str, instance_numbers(bags, drawn, self.source))),
            strata=tuple(design.stratum[design.draw(labels)].tolist()),
            probabilities=tuple(map(tuple, self.probabilities[drawn].tolist())),
        )
        table: dict[str, Any] = {"id": record.ids, "bag": record.bags, "instance": record.instances, "answer": ""}
        if self.source is not None and self.source.paths is not None:
            table["path"] = self.source.paths[bags.index[drawn]]
        elif bags.store.ndim == 2:
            table |= dict(zip(self.columns, np.asarray(bags.store[bags.index[drawn]]).T, strict=True))
        return record, pd.DataFrame(table)


def open_population(
    folder: Path, source: str | None, seed: int, names: ColumnNames | None, device: str, log: Log = no_log
) -> Population:
    """The test bags of a run, or of all folds, each with the classifier that has not seen them; or all bags of another
    source, which need no labels."""
    learned = trained_instances(folder, source)
    if source is not None:
        classifier_files(folder, source)  # an error for the folder of a cross-validation
        classifier, by_part, opened = open_bags(
            folder, source, labels=True, unlabelled=True, names=names, device=device, log=log
        )
        pairs = [(classifier, bags) for bags in by_part.values()]
        return Population.of(pairs, seed, opened, Path(source).expanduser(), learned)
    first, *others = fold_folders(folder) or [folder]
    classifier, parts, opened = reopen(first, device=device)
    if parts.test is None:
        raise InputError(f"{folder} has no test bags: give bags that it was not trained on as SOURCE")
    pairs = [(classifier, parts.test)]
    for fold in others:
        test = make_parts(read_config(fold).run, opened).test
        assert test is not None  # every fold has test bags
        pairs.append((open_classifier(fold, device), test))
    return Population.of(pairs, seed, opened, Path(source_of(read_config(first))).expanduser(), learned)


def classifier_files(folder: Path, source: str | None) -> list[Path]:
    """Those that are audited on bags of this source; None: on the test bags of the run, or of each fold."""
    folds = fold_folders(folder)
    if source is None:
        return [finished_file(fold, CLASSIFIER) for fold in folds or [folder]]
    if folds:
        cure = f"leave out SOURCE, to audit all folds on their test bags, or give one run, such as {folds[0]}"
        raise InputError(f"{folder} holds the runs of a cross-validation: {cure}")
    return [classifier_file(folder)]


def hash_of(classifiers: Sequence[Classifier]) -> str:
    """Of their weights; a temperature changes nothing."""
    digest = hashlib.sha256()
    for classifier in classifiers:
        for member in classifier.members or (classifier,):
            for name, values in sorted(member.model.state_dict().items()):
                digest.update(name.encode() + values.detach().cpu().numpy().tobytes())
    return digest.hexdigest()


def _joined(parts: Sequence[Bags]) -> Bags:
    """The bags of all parts, which share a store, with their names and coordinates."""
    if len(parts) == 1:
        return parts[0]
    names = np.array([name for bags in parts for name in bags.bag_names()])
    places = [bags.coordinates for bags in parts if bags.coordinates is not None]
    return join(parts)._with(names=names, coordinates=np.concatenate(places) if places else None)
