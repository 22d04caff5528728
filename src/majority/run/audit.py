"""Audit: how accurate a classifier is, from the answers for a few instances that are drawn by a known design."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.bags import Bags
from ..errors import InputError, count_noun
from ..files import write_atomically, write_json
from ..io.custom import ColumnNames
from ..log import Log, no_log
from ..predict.audit import LEAST_LABELS, AuditFigures, Estimate, estimate
from ..predict.classifier import Classifier
from .audit_files import (
    ANSWERS,
    DESIGN,
    OTHER,
    PAGE,
    TO_LABEL,
    Answers,
    AuditRecord,
    read_answers,
    read_record,
    read_table,
    write_record,
)
from .audit_page import write_audit_page
from .audit_population import Population, classifier_of, file_of, hash_of, make_record, make_table
from .folder import classifier_file
from .instance_labels import trained_instances
from .report.page import AUDIT_FIGURES
from .run_report import report_run
from .train import TrainedRun

if TYPE_CHECKING:
    import pandas as pd


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
    to_label: pd.DataFrame  # id, bag, instance, answer, then the path or the features
    figures: AuditFigures | None = None
    answers: Answers | None = None

    def read(self, answers: str | Path | pd.DataFrame) -> Audit:
        """Compute all figures from a file or a frame of answers; returns this audit."""
        table, name = (
            (read_table(Path(answers)), str(answers)) if isinstance(answers, str | Path) else (answers, "answers")
        )
        self.answers = read_answers(self.record, table, name)
        self.figures = estimate(self.record.sample(self.answers.positions, self.answers.true))
        return self

    def __getattr__(self, name: str) -> Any:
        """The figures by name: accuracy, recall, precision, shares, temperature, ... (see `AuditFigures`)."""
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
    return _drawn(Population.open(run, source, seed, names, device), labels)


def write_audit(
    run: str | Path,
    out: Path,
    source: str | None = None,
    *,
    labels: int | None = None,
    more: int | None = None,
    seed: int | None = None,
    show_predictions: bool = False,
    names: ColumnNames | None = None,
    device: str = "auto",
    log: Log = no_log,
) -> Audit:
    """Write the design, the table and the page of an audit; or `more` labels of the audit in this folder."""
    before = _to_continue(out, more)
    if before is not None:
        if labels is not None or seed is not None or (source is not None and str(source) != before.source):
            raise InputError(f"--more continues the audit in {out}, with its SOURCE and seed: leave out the others")
        source, seed, labels = before.source, before.seed, len(before.bags) + (more or 0)
    labels, seed = 50 if labels is None else labels, seed or 0
    population = Population.open(run, source, seed, names, device, log)
    found = _drawn(population, labels)
    if before is not None and before.audit != found.record.audit:
        cure = "audit again with another --out"
        raise InputError(f"{out / DESIGN} is the audit of another classifier or of bags that have changed: {cure}")
    if (out / ANSWERS).is_file():
        given = read_table(out / ANSWERS)
        read_answers(found.record, given, str(out / ANSWERS))
        known = dict(zip(given["id"], given["answer"], strict=True))
        found.to_label["answer"] = [known.get(id, "") for id in found.to_label["id"]]
    out.mkdir(parents=True, exist_ok=True)
    positions = population.design.draw(labels)
    write_audit_page(out / PAGE, found.record, found.to_label, population, positions, show_predictions)
    write_atomically(out / TO_LABEL, lambda draft: found.to_label.to_csv(draft, index=False))
    write_record(out, found.record)
    which = f"{count_noun(labels, 'instance')} of {len(population.design.stratum):,}"
    log(f"{which}: label them on {out / PAGE}, or in {out / TO_LABEL}")
    log(f"then: majority audit {run} --answers {out / ANSWERS}")
    return found


def _to_continue(out: Path, more: int | None) -> AuditRecord | None:
    if more is None:
        if (out / DESIGN).exists():
            cure = "read its answers with --answers, draw further labels with --more, or choose another --out"
            raise InputError(f"{out} holds an audit: {cure}")
        return None
    if more < 1:
        raise InputError(f"--more {more}: give 1 or more")
    return read_record(out)


def read_audit(run: str | Path, answers: Path) -> Audit:
    """The figures of answers to an audit of this run; the design is in the folder of the answers."""
    record = read_record(answers.parent)
    if record.classifier != hash_of(classifier_of(Path(run), record.source)):
        cure = f"give the run that {answers.parent} was made for"
        raise InputError(f"{answers} has answers to an audit of another run than {run}: {cure}")
    learned = set(zip(record.bags, record.instances, strict=True)) & trained_instances(Path(run), record.source)
    if learned:
        labels = count_noun(len(learned), "instance label")
        what = f"{run} was trained on {labels} of the audit {answers.parent}"
        raise InputError(f"{what}, which would count as right: audit it on instances that it has not learned")
    return Audit(record, read_table(answers)).read(answers)


def calibrate(run: Path, found: Audit) -> float:
    """Keep the temperature with the classifier that was audited; another one that was kept before is replaced."""
    path = file_of(run, found.record.source)
    classifier = Classifier.load(path, "cpu")
    classifier.temperature = float(found.temperature)
    classifier.save(path, about={"calibrated by": found.record.audit})
    return classifier.temperature


def report_audit(
    run: Path, answers: Path, *, with_temperature: bool = False, device: str = "auto", log: Log = no_log
) -> Audit:
    """Print the figures, write them beside the answers, and add those of the run's own bags to its report."""
    found = read_audit(run, answers)
    assert found.figures is not None
    assert found.answers is not None
    figures = figures_of(found.record, found.answers, found.figures)
    for line in describe(figures):
        log(line)
    write_json(answers.parent / AUDIT_FIGURES, figures)
    if with_temperature:
        log(f"log-probabilities of this classifier are divided by {calibrate(run, found):.2f} from now on")
        if found.record.source is None and classifier_file(run) != file_of(run, None):
            log("not those of the classifier trained on all bags, for other bags: to calibrate it, audit a SOURCE")
    if found.record.source is None:
        write_json(run / AUDIT_FIGURES, figures)
        log(str(report_run(run, device)))
    return found


def _drawn(population: Population, labels: int) -> Audit:
    total = len(population.design.stratum)
    if not isinstance(labels, int) or not LEAST_LABELS <= labels <= total:
        raise InputError(
            f"{labels} labels: give {LEAST_LABELS} to {total:,}, the number of instances (--labels, labels=)"
        )
    record, drawn = make_record(population, labels), population.design.draw(labels)
    return Audit(record, make_table(record, population, drawn))


# ---------------------------------------------------------------------- figures by the names of the classes


def figures_of(record: AuditRecord, answers: Answers, figures: AuditFigures) -> dict[str, Any]:
    """All figures as plain values."""
    classes = record.classes
    per_class = {"recall": figures.recall, "precision": figures.precision, "share": figures.shares}
    return {
        "audit": record.audit,
        "source": record.source,
        "answers": figures.answers,
        "cannot_tell": answers.cannot_tell,
        "without_answer": answers.missing,
        "accuracy": _plain(figures.accuracy),
        "overconfidence": _plain(figures.overconfidence),
        "temperature": figures.temperature,
        "further_labels": figures.further_labels,
        "classes": [
            {"class": name, "naive_share": figures.naive_shares[c]}
            | {key: _plain(of[c]) for key, of in per_class.items()}
            for c, name in enumerate(classes)
        ],
        "other_share": _plain(figures.shares[-1]),
        "confusions": [
            {"true": [*classes, OTHER][true], "predicted": classes[predicted], "share": _plain(share)}
            for true, predicted, share in figures.confusions
        ],
    }


def _plain(found: Estimate | None) -> dict[str, float] | None:
    return None if found is None else found._asdict()


def shown(found: dict[str, float] | None) -> str:
    """
    >>> shown({"value": 0.9, "low": 0.85, "high": 0.934, "labels": 50})
    '0.900 (0.850 to 0.934)'
    """
    return "-" if found is None else f"{found['value']:.3f} ({found['low']:.3f} to {found['high']:.3f})"


def describe(figures: dict[str, Any]) -> list[str]:
    """The figures as lines of text, with 95 % intervals."""
    lines = [f"instance accuracy {shown(figures['accuracy'])}, from {count_noun(figures['answers'], 'answer')}"]
    if figures["cannot_tell"]:
        lines.append(f"cannot tell: {count_noun(figures['cannot_tell'], 'instance')}, left out of all figures")
    if figures["without_answer"]:
        lines.append(f"without an answer: {count_noun(figures['without_answer'], 'instance')}, left out of all figures")
    if figures["further_labels"]:
        lines.append(f"about {figures['further_labels']:,} more answers bring the interval to +-0.03 (--more)")
    lines.append(f"mean confidence minus accuracy {shown(figures['overconfidence'])}")
    lines.append(f"temperature that fits the answers: {figures['temperature']:.2f} (--calibrate keeps it)")
    for of in figures["classes"]:
        rates = f"recall {shown(of['recall'])}, precision {shown(of['precision'])}"
        lines.append(f"{of['class']}: share {shown(of['share'])}, {of['naive_share']:.3f} by count; {rates}")
    if figures["other_share"]["value"] > 0:
        lines.append(f"{OTHER}: share {shown(figures['other_share'])}")
    for one in figures["confusions"]:
        lines.append(f"{one['true']} taken for {one['predicted']}: {shown(one['share'])} of all instances")
    return lines
