"""Audit: how accurate a classifier is, from the answers for a few instances that are drawn by a known design."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..data.bags import Bags
from ..errors import InputError, count_noun
from ..files import write_atomically, write_json
from ..log import Log, no_log
from ..predict.audit_figures import AuditFigures
from ..predict.classifier import Classifier
from .audit_page import write_audit_page
from .audit_sample import (
    DESIGN,
    AuditRecord,
    Population,
    answers_in,
    classifier_files,
    figures_from,
    hash_of,
    open_population,
    read_record,
)
from .config import Columns
from .folder import classifier_file, fold_folders
from .options import checked
from .report.page import AUDIT_FIGURES, report_run
from .train import TrainedRun

TO_LABEL, PAGE, ANSWERS = "to-label.csv", "label.html", "answers.csv"

if TYPE_CHECKING:
    import pandas as pd


class Audit(NamedTuple):
    """Instances to label.

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

    def read(self, *answers: str | Path | pd.DataFrame) -> AuditFigures:
        """All figures, from the file or frame of answers of one or several annotators."""
        return figures_from(self.record, answers)


def audit(
    run: str | Path | TrainedRun | Classifier,
    source: str | Path | Bags | None = None,
    *,
    labels: int = 50,
    seed: int = 0,
    device: str = "auto",
    **columns: str,
) -> Audit:
    """Draw instances to label, of the test bags of a run or of other bags; see `Audit`.

    `columns` are the names of columns in the source, such as `bag_column="field"`, if they are others than in training.

    More labels with the same seed continue the same design: the first ones stay as they are.

    Args:
        run: A run folder, what `train` returns, or a classifier.
        source: Other bags than the test bags of the run.
        labels: How many instances are drawn.
        seed: Of the draw.
        device: auto, cpu, cuda, cuda:N or mps.
        **columns: Names of columns of the source.

    >>> import majority
    >>> parts = majority.load_source("digits").make_parts(scenario="large", bags=40, bag_size=16)
    >>> run = majority.train(parts, recipe="quick", epochs=2, verbose=False)
    >>> majority.audit(run, parts.test, labels=20).to_label.columns.tolist()[:4]
    ['id', 'bag', 'instance', 'answer']
    """
    folder = run.folder if isinstance(run, TrainedRun) else run
    if isinstance(source, Bags):
        classifier = folder if isinstance(folder, Classifier) else Classifier.load(folder, device)
        return Audit(*Population([(classifier, source)], seed).draw(labels))
    if isinstance(folder, Classifier):
        raise InputError("audit of a classifier: give the bags, or the folder of its run")
    place, names = None if source is None else str(source), dict(checked(Columns, columns)) if columns else None
    return Audit(*open_population(Path(folder), place, seed, names, device).draw(labels))


def write_audit(
    run: Path,
    out: Path,
    source: str | None = None,
    *,
    labels: int = 50,
    more: int | None = None,
    seed: int = 0,
    columns: dict[str, Any] | None = None,
    show_predictions: bool = False,
    device: str = "auto",
    log: Log = no_log,
) -> None:
    """Write the design, the table and the page of an audit; or draw `more` labels for the one that the folder holds.

    Answers that the folder has already stay.
    """
    before = None if more is None else read_record(out)
    if before is not None:
        source, seed, columns, labels = before.source, before.seed, before.columns, len(before.bags) + (more or 0)
    elif (out / DESIGN).exists():
        cure = "read its answers with --answers, draw further labels with --more, or choose another --out"
        raise InputError(f"{out} holds an audit: {cure}")
    population = open_population(run, source, seed, columns, device, log)
    record, table = population.draw(labels)
    if before is not None and before.audit != record.audit:
        cure = "audit again with another --out"
        raise InputError(f"{out / DESIGN} is the audit of another classifier or of bags that have changed: {cure}")
    if before is not None and (out / ANSWERS).is_file():
        table["answer"] = table["id"].map(answers_in(record, out / ANSWERS)).fillna("")
    out.mkdir(parents=True, exist_ok=True)
    write_audit_page(out / PAGE, record, table["answer"].tolist(), population, show_predictions)
    write_atomically(out / TO_LABEL, lambda draft: table.to_csv(draft, index=False))
    write_json(out / DESIGN, record.model_dump(mode="json") | {"checksum": record.checksum})
    which = f"{count_noun(labels, 'instance')} of {len(population.positions):,}"
    log(f"{which}: label them on {out / PAGE}, or in {out / TO_LABEL}")
    log(f"then: majority audit {run} --answers {out / ANSWERS}")


def report_audit(
    run: Path, answers: Sequence[Path], *, calibrate: bool = False, device: str = "auto", log: Log = no_log
) -> AuditFigures:
    """Print the figures of answers to an audit of this run, write them beside the answers, whose folder holds the
    design, and add those of the run's own bags to its report."""
    folder = answers[0].parent
    record = read_record(folder)
    classifiers = {path: Classifier.load(path, "cpu") for path in classifier_files(run, record.source)}
    if record.classifier != hash_of([*classifiers.values()]):
        what = f"{answers[0]} has answers to an audit of another run than {run}"
        raise InputError(f"{what}: give the run that {folder} was made for")
    figures = figures_from(record, answers)
    content = {"audit": record.audit, "source": record.source, **asdict(figures)}
    log(str(figures))
    write_json(folder / AUDIT_FIGURES, content)
    if calibrate:
        for path, classifier in classifiers.items():
            classifier.temperature = figures.temperature
            classifier.save(path, about={"calibrated by": record.audit})
        log(f"log-probabilities of this classifier are divided by {figures.temperature:.2f} from now on")
    if record.source is None and not fold_folders(run):
        if calibrate and classifier_file(run) not in classifiers:
            log("not those of the classifier trained on all bags, for other bags: to calibrate it, audit a SOURCE")
        write_json(run / AUDIT_FIGURES, asdict(figures))
        log(str(report_run(run, device)))
    return figures
