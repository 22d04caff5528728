"""Audit: how accurate a classifier is, from the answers for a few instances that are drawn by a known design."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.bags import Bags
from ..errors import InputError, count_noun
from ..files import write_atomically, write_json
from ..io import names as built_in
from ..io.custom import ColumnNames
from ..log import Log, no_log
from ..predict.audit import OTHER, AuditFigures, estimate
from ..predict.classifier import Classifier
from .audit_files import (
    ANSWERS,
    DESIGN,
    PAGE,
    TO_LABEL,
    Answers,
    AuditRecord,
    read_answers,
    read_record,
    write_record,
)
from .audit_page import write_audit_page
from .audit_population import Population, classifier_files, hash_of, open_population
from .folder import classifier_file, fold_folders
from .instance_labels import trained_instances
from .report.page import AUDIT_FIGURES
from .run_report import report_run
from .train import TrainedRun

if TYPE_CHECKING:
    import pandas as pd

LISTED = 10  # disagreements that are printed


@dataclass
class Audit:
    """Instances to label, and after `read` what the answers say.

    >>> import numpy as np
    >>> import majority
    >>> bags = Bags.from_lists([np.eye(2).repeat(20, 0)] * 4, ["cat", "dog"] * 2)
    >>> found = majority.audit(Classifier(majority.build_model(bags, "log-mean")), bags, labels=40)
    >>> answers = found.to_label
    >>> answers["answer"] = "cat"
    >>> found.read(answers).accuracy.labels
    40
    """

    record: AuditRecord
    to_label: pd.DataFrame | None = None  # id, bag, instance, answer, then the path or the features
    figures: AuditFigures | None = None
    answers: Answers | None = None

    def read(self, *answers: str | Path | pd.DataFrame) -> Audit:
        """Compute all figures from the file or frame of answers of one or several annotators; returns this audit."""
        self.answers = read_answers(self.record, answers)
        self.figures = estimate(self.record.sample(self.answers.positions, self.answers.true))
        return self

    def __getattr__(self, name: str) -> Any:
        """The figures by name: accuracy, classes, temperature, ... (see `AuditFigures`)."""
        if name not in AuditFigures.__dataclass_fields__:
            raise AttributeError(f"an audit has no {name!r}")
        if self.figures is None:
            raise InputError(f"{name}: this audit has no answers yet: give them to audit.read")
        return getattr(self.figures, name)


def audit(
    run: str | Path | TrainedRun | Classifier,
    source: str | Path | Bags | None = None,
    *,
    labels: int = 50,
    seed: int = 0,
    names: ColumnNames | None = None,
    device: str = "auto",
) -> Audit:
    """Draw instances to label, of the test bags of a run or of other bags; see `Audit`.

    More labels with the same seed continue the same design: the first ones stay as they are.
    """
    place = None if source is None or isinstance(source, Bags) else _absolute(str(source))
    if isinstance(source, Bags):
        loaded = run if isinstance(run, Classifier) else Classifier.load(_folder_of(run), device)
        population = Population.of([(loaded, source)], seed)
    elif isinstance(run, Classifier):
        raise InputError("audit of a classifier: give the bags, or the folder of its run")
    else:
        population = open_population(_folder_of(run), place, seed, names, device)
    return Audit(*population.draw(labels, place, names))


def write_audit(
    run: Path,
    out: Path,
    source: str | None = None,
    *,
    labels: int = 50,
    seed: int = 0,
    names: ColumnNames | None = None,
    show_predictions: bool = False,
    device: str = "auto",
    log: Log = no_log,
) -> None:
    """Write the design, the table and the page of an audit."""
    if (out / DESIGN).exists():
        cure = "read its answers with --answers, draw further labels with --more, or choose another --out"
        raise InputError(f"{out} holds an audit: {cure}")
    place = None if source is None else _absolute(source)
    population = open_population(run, place, seed, names, device, log)
    _write(out, population, Audit(*population.draw(labels, place, names)), show_predictions, run, log)


def continue_audit(
    run: Path, out: Path, more: int, *, show_predictions: bool = False, device: str = "auto", log: Log = no_log
) -> None:
    """Draw `more` labels for the audit in this folder; answers that it holds stay."""
    if more < 1:
        raise InputError(f"--more {more}: give 1 or more")
    before = read_record(out)
    population = open_population(run, before.source, before.seed, before.names, device, log)
    record, table = population.draw(len(before.bags) + more, before.source, before.names)
    if before.audit != record.audit:
        cure = "audit again with another --out"
        raise InputError(f"{out / DESIGN} is the audit of another classifier or of bags that have changed: {cure}")
    if (out / ANSWERS).is_file():
        given = read_answers(record, [out / ANSWERS])
        table.loc[given.positions, "answer"] = [(*record.classes, OTHER)[code] for code in given.true]
    _write(out, population, Audit(record, table), show_predictions, run, log)


def _write(out: Path, population: Population, drawn: Audit, show_predictions: bool, run: Path, log: Log) -> None:
    table, n = drawn.to_label, len(drawn.record.bags)
    assert table is not None
    out.mkdir(parents=True, exist_ok=True)
    write_audit_page(out / PAGE, drawn.record, table["answer"].tolist(), population, show_predictions)
    write_atomically(out / TO_LABEL, lambda draft: table.to_csv(draft, index=False))
    write_record(out, drawn.record)
    which = f"{count_noun(n, 'instance')} of {len(population.bags.index):,}"
    log(f"{which}: label them on {out / PAGE}, or in {out / TO_LABEL}")
    log(f"then: majority audit {run} --answers {out / ANSWERS}")


def _folder_of(run: str | Path | TrainedRun) -> Path:
    return run.folder if isinstance(run, TrainedRun) else Path(run)


def _absolute(source: str) -> str:
    """A file or folder is found again from anywhere."""
    return source if source in built_in() else os.path.abspath(os.path.expanduser(source))


# ---------------------------------------------------------------------- answers


def read_audit(run: Path, answers: Sequence[Path]) -> Audit:
    """The figures of answers to an audit of this run; the design is in the folder of the answers."""
    folder = answers[0].parent
    record = read_record(folder)
    if record.classifier != hash_of([Classifier.load(path, "cpu") for path in classifier_files(run, record.source)]):
        cure = f"give the run that {folder} was made for"
        raise InputError(f"{answers[0]} has answers to an audit of another run than {run}: {cure}")
    learned = set(zip(record.bags, record.instances, strict=True)) & trained_instances(run, record.source)
    if learned:
        what = f"{run} was trained on {count_noun(len(learned), 'instance label')} of the audit {folder}"
        raise InputError(f"{what}, which would count as right: audit it on instances that it has not learned")
    return Audit(record).read(*answers)


def report_audit(
    run: Path, answers: Sequence[Path], *, calibrate: bool = False, device: str = "auto", log: Log = no_log
) -> Audit:
    """Print the figures, write them beside the answers, and add those of the run's own bags to its report."""
    found = read_audit(run, answers)
    figures, source = figures_of(found), found.record.source
    for line in describe(found):
        log(line)
    write_json(answers[0].parent / AUDIT_FIGURES, figures)
    if calibrate:
        for path in classifier_files(run, source):
            classifier = Classifier.load(path, "cpu")
            classifier.temperature = found.temperature
            classifier.save(path, about={"calibrated by": found.record.audit})
        log(f"log-probabilities of this classifier are divided by {found.temperature:.2f} from now on")
    if source is None and not fold_folders(run):
        if calibrate and classifier_file(run) not in classifier_files(run, None):
            log("not those of the classifier trained on all bags, for other bags: to calibrate it, audit a SOURCE")
        write_json(run / AUDIT_FIGURES, figures)
        log(str(report_run(run, device)))
    return found


def figures_of(found: Audit) -> dict[str, Any]:
    """All figures as plain values."""
    figures, answers = found.figures, found.answers
    assert figures is not None
    assert answers is not None
    about = {"audit": found.record.audit, "source": found.record.source}
    left_out = {"cannot_tell": answers.cannot_tell, "without_answer": answers.missing}
    agreement = None if answers.agreement is None else asdict(answers.agreement)
    return about | asdict(figures) | left_out | {"agreement": agreement}


def describe(found: Audit) -> list[str]:
    """The figures as lines of text, with 95 % intervals; how far annotators agree comes first."""
    figures, answers, lines = found.figures, found.answers, []
    assert figures is not None
    assert answers is not None
    if answers.agreement is not None:
        one = answers.agreement
        kappa = "not defined" if one.kappa is None else f"{one.kappa:.2f}"
        lines.append(f"annotators agree on {one.agreed} of {one.instances} instances (Cohen's kappa {kappa})")
        for id, given in [*one.disagreements.items()][:LISTED]:
            lines.append(f"left out: {id} ({', '.join(f'{who}: {answer}' for who, answer in given.items())})")
        if len(one.disagreements) > LISTED:
            lines.append(f"left out: {len(one.disagreements) - LISTED} more, listed in {AUDIT_FIGURES}")
    lines.append(f"instance accuracy {figures.accuracy}, from {count_noun(figures.labels, 'answer')}")
    for what, number in {"cannot tell": answers.cannot_tell, "without an answer": answers.missing}.items():
        lines += [f"{what}: {count_noun(number, 'instance')}, left out of all figures"] if number else []
    if figures.further_labels:
        lines.append(f"about {figures.further_labels:,} more answers bring the interval to +-0.03 (--more)")
    lines.append(f"mean confidence minus accuracy {figures.overconfidence}")
    lines.append(f"temperature that fits the answers: {figures.temperature:.2f} (--calibrate keeps it)")
    for of in figures.classes:
        rates = f"recall {of.recall or '-'}, precision {of.precision or '-'}"
        lines.append(f"{of.name}: share {of.share}, {of.naive_share:.3f} by count; {rates}")
    if figures.other_share.value > 0:
        lines.append(f"{OTHER}: share {figures.other_share}")
    for pair in figures.confusions:
        lines.append(f"{pair.true} taken for {pair.predicted}: {pair.share} of all instances")
    return lines
