"""The instances that an audit draws, the record of the draw in audit.json, and the answers for them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence, Set
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from pydantic import BaseModel, ConfigDict, ValidationError

from ..data.bags import Bags
from ..data.joining import join
from ..errors import InputError
from ..files import read_json
from ..io import Source
from ..io import names as built_in
from ..io.predictions import instance_numbers
from ..log import Log, no_log
from ..predict.audit import Sample, estimate
from ..predict.audit_design import LEAST_LABELS, Design, Whole, expected_right
from ..predict.audit_figures import OTHER, AuditFigures, agreement_of
from ..predict.classifier import CLASSIFIER, Classifier
from .data import make_parts, read_filled, trained_instances
from .folder import classifier_file, finished_file, fold_folders, read_config, source_of
from .reopen import open_bags, open_classifier, reopen

DESIGN = "audit.json"
CANNOT_TELL = "cannot tell"


class AuditRecord(BaseModel):
    """What is needed to compute figures from answers: no classifier and no bags."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["majority-audit-1"] = "majority-audit-1"
    audit: str  # identifies the classifier, its bags and the seed
    classifier: str  # a hash of its weights
    seed: int
    source: str | None  # another than the run's own
    columns: dict[str, str | None] | None  # their names, if they are others than in training
    whole: Whole
    bags: tuple[str, ...]  # of the drawn instances
    instances: tuple[str, ...]
    strata: tuple[int, ...]
    probabilities: tuple[tuple[float, ...], ...]

    @property
    def ids(self) -> list[str]:
        return [f"{self.audit}-{number:04d}" for number in range(1, len(self.bags) + 1)]

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


def read_record(folder: Path) -> AuditRecord:
    """The design of an audit, as it was written."""
    path = folder / DESIGN
    if not path.is_file():
        raise InputError(f"{folder} holds no {DESIGN}: keep the answers in the folder that `majority audit` made")
    content = read_json(path, f"restore the file, or audit again with another --out than {folder}")
    checksum = content.pop("checksum", None)
    try:
        record = AuditRecord.model_validate(content)
    except ValidationError:
        record = None
    if record is None or record.checksum != checksum:
        what = f"{path} was edited or is of another version, so its figures could be wrong"
        raise InputError(f"{what}: put the original back, or audit again with another --out")
    return record


class Population:
    """Bags, each with the classifier that is audited on them: one, or that of each fold. Instances that it has learned
    by their label, given by bag and number, are not drawn.

    `other` is the source if it is not that of the run, and `columns` the names of its columns; `place` is where it is.
    """

    def __init__(
        self,
        pairs: Sequence[tuple[Classifier, Bags]],
        seed: int,
        source: Source | None = None,
        place: Path | None = None,
        learned: Set[tuple[str, str]] = frozenset(),
        other: str | None = None,
        columns: dict[str, Any] | None = None,
    ):
        classifiers, parts = zip(*pairs, strict=True)
        self.bags = bags = _joined(parts)
        self.source, self.place, self.other, self.names_of_columns = source, place, other, columns
        self.classifier = hash_of(classifiers)
        self.classes = tuple(map(str, classifiers[0].classes))
        self.columns = classifiers[0].columns or tuple(f"feature {i}" for i in range(bags.store.shape[1]))
        found = [of.probabilities(bags, calibrated=False) for of, bags in pairs]
        probabilities = np.concatenate(found).astype(np.float64)
        self.probabilities = probabilities / probabilities.sum(axis=1, keepdims=True)  # (n, C)
        self.positions = np.arange(len(bags.index))  # of the instances that may be drawn
        if learned:
            numbers = instance_numbers(bags, self.positions, source).astype(str)
            ids = zip(np.array(bags.bag_names())[bags.ids], numbers, strict=True)
            self.positions = np.flatnonzero([id not in learned for id in ids])
        labels = bags.labels if bags.classes == self.classes else None
        self.design = Design.of(expected_right(self.probabilities, bags.ids, labels)[self.positions], seed)

    def drawn(self, labels: int) -> np.ndarray:  # (labels,) positions
        return np.asarray(self.positions[self.design.draw(labels)])

    def draw(self, labels: int) -> tuple[AuditRecord, pd.DataFrame]:
        """The record and the table of the first so many instances."""
        design, bags, n = self.design, self.bags, len(self.positions)
        if n < LEAST_LABELS:
            raise InputError(f"an audit needs {LEAST_LABELS} instances and there are {n}: audit a SOURCE with more")
        if not LEAST_LABELS <= labels <= n or design.seed < 0:
            cure = f"give {LEAST_LABELS} to {n:,} labels, of so many instances, and a seed of 0 or more"
            raise InputError(f"{labels} labels with the seed {design.seed}: {cure}")
        drawn, bag_names = self.drawn(labels), bags.bag_names()
        identity = hashlib.sha256(f"{self.classifier} {design.seed}".encode() + design.stratum.astype("<i4").tobytes())
        record = AuditRecord(
            audit=identity.hexdigest()[:8],
            classifier=self.classifier,
            seed=design.seed,
            source=self.other,
            columns=self.names_of_columns,
            whole=Whole.of(self.classes, design, self.probabilities[self.positions]),
            bags=tuple(bag_names[bag] for bag in bags.ids[drawn]),
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
    folder: Path, source: str | None, seed: int, columns: dict[str, Any] | None, device: str, log: Log = no_log
) -> Population:
    """The test bags of a run, or of all folds, each with the classifier that has not seen them; or all bags of another
    source, which need no labels."""
    if source is not None:
        classifier_files(folder, source)  # an error for the folder of a cross-validation
        source = source if source in built_in() else os.path.abspath(os.path.expanduser(source))  # found from anywhere
        classifier, by_part, opened = open_bags(
            folder, source, labels=True, unlabelled=True, columns=columns, device=device, log=log
        )
        pairs = [(classifier, bags) for bags in by_part.values()]
        return Population(pairs, seed, opened, Path(source), trained_instances(folder, source), source, columns)
    first, *others = fold_folders(folder) or [folder]
    classifier, parts, opened = reopen(first, device=device)
    if parts.test is None:
        raise InputError(f"{folder} has no test bags: give bags that it was not trained on as SOURCE")
    pairs = [(classifier, parts.test)]
    for fold in others:
        test = make_parts(read_config(fold).run, opened).test
        assert test is not None  # every fold has test bags
        pairs.append((open_classifier(fold, device), test))
    place = Path(source_of(read_config(first))).expanduser()
    return Population(pairs, seed, opened, place, trained_instances(folder))


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


# ---------------------------------------------------------------------- answers


def figures_from(record: AuditRecord, given: Sequence[str | Path | pd.DataFrame]) -> AuditFigures:
    """What the answers in files or frames say, each of one annotator, who is called as the file. An instance counts if
    all who name a class name the same."""
    by: dict[str, dict[str, str]] = {}
    for number, one in enumerate(given, start=1):
        if isinstance(one, str | Path):
            who = str(one) if Path(one).stem in by else Path(one).stem
            by[who] = answers_in(record, Path(one))
        else:
            by[f"annotator {number}"] = _checked(record, one.set_axis(range(2, len(one) + 2)), "answers")
    told = {who: {id: answer for id, answer in of.items() if answer != CANNOT_TELL} for who, of in by.items()}
    answers = pd.DataFrame(by).sort_index()  # id x annotator
    named = answers.mask(answers == CANNOT_TELL)
    agreed = named[named.nunique(axis=1) == 1].bfill(axis=1)
    if agreed.empty:
        raise InputError(f"{', '.join(by)}: no answer names a class: fill the column answer, at least in some rows")
    drawn = [record.ids.index(id) for id in agreed.index]
    strata, probabilities = np.array(record.strata)[drawn], np.array(record.probabilities)[drawn]
    true = np.array([(*record.whole.classes, OTHER).index(answer) for answer in agreed.iloc[:, 0]])
    return replace(
        estimate(Sample.of(record.whole, strata, true, probabilities)),
        cannot_tell=int(named.isna().all(axis=1).sum()),
        without_answer=len(record.bags) - len(answers),
        agreement=agreement_of(told) if len(by) > 1 else None,
    )


def answers_in(record: AuditRecord, path: Path) -> dict[str, str]:
    """The answer by id, in a file; a cell that is empty is no answer."""
    table = read_filled(path, ("id", "answer"), "answers", "`majority audit`", ("bag", "instance"))
    return _checked(record, table, str(path))


def _checked(record: AuditRecord, table: pd.DataFrame, name: str) -> dict[str, str]:
    drawn = dict(zip(record.ids, zip(record.bags, record.instances, strict=True), strict=True))
    answers: dict[str, str] = {}
    for row, cells in table.fillna("").astype(str).to_dict("index").items():
        id, answer, place = cells["id"], cells["answer"].strip(), f"{name}, row {row}"
        if id not in drawn:
            what = f"{place}: {id or 'an empty id'} is none of the {len(drawn)} instances of this audit"
            raise InputError(f"{what}: give the answers of this audit (its ids begin with {record.audit})")
        bag, instance = drawn[id]
        if (cells.get("bag", bag), cells.get("instance", instance)) != drawn[id]:
            raise InputError(f"{place}: {id} is instance {instance} of bag {bag}: change only the column answer")
        if answer not in ("", *record.whole.classes, CANNOT_TELL, OTHER):
            cure = f"write one of {', '.join(record.whole.classes)}, or {OTHER}, or {CANNOT_TELL}"
            raise InputError(f"{place}: {answer} is no class of this run: {cure}")
        if answer and answers.setdefault(id, answer) != answer:
            raise InputError(f"{place}: {id} is {answer} here and {answers[id]} above: keep one of them")
    return answers
