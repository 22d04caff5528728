"""The report page of a run folder."""

from __future__ import annotations

from pathlib import Path

from ..io.custom import ColumnNames
from ..log import Log, no_log
from ..predict.classifier import Classifier
from .folder import classifier_file, finished_file, read_config
from .record import RESULT, read_result
from .reopen import open_bags, reopen
from .report.model_card import card_facts
from .report.page import write_report


def report_run(
    folder: str | Path,
    device: str = "auto",
    source: str | None = None,
    log: Log = no_log,
    names: ColumnNames | None = None,
) -> Path:
    """Write RUN/report.html of a finished run; or, with another source, RUN/report-SOURCE.html about its bags.

    The bags of another source need no labels: the page then shows the predictions, and no accuracy. Returns the path of
    the page.
    """
    folder = Path(folder)
    finished_file(folder, RESULT)
    if source is None:
        classifier, parts, opened = reopen(folder, device=device)
        return write_report(folder, classifier, parts.present(), opened)
    classifier, bags, opened = open_bags(
        folder, source, labels=True, unlabelled=True, names=names, device=device, log=log
    )
    (others,) = bags.values()
    if not others.labelled:
        accuracy = "no accuracy" if others.instance_labels is None else "the accuracy of instances only"
        log(f"note: {source} has no bag labels: the page shows the predictions and {accuracy}")
    return write_report(folder, classifier, {"test": others}, opened, source)


def export_run(folder: str | Path, out: str | Path) -> Path:
    """Write the classifier of a finished run as ONNX, with the facts of its model card."""
    from ..predict.onnx import export_onnx

    folder = Path(folder)
    finished_file(folder, RESULT)
    classifier = Classifier.load(classifier_file(folder), "cpu")
    return export_onnx(classifier, out, card_facts(read_config(folder), read_result(folder), classifier))
