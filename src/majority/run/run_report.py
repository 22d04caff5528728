"""The report page of a run folder."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ..data.bags import Bags
from ..io import Source
from ..io.custom import ColumnNames
from ..log import Log, no_log
from ..predict.classifier import Classifier
from ..training.run_files import METRICS
from .classified_bags import ClassifiedBags
from .folder import RESULT, classifier_file, finished_file, is_trained_on, read_config, read_result
from .reopen import open_bags, reopen
from .report.model_card import card_facts, write_model_card
from .report.page import RunFacts, write_page
from .result_file import read_history


def report_run(
    folder: str | Path,
    device: str = "auto",
    source: str | None = None,
    log: Log = no_log,
    names: ColumnNames | None = None,
) -> Path:
    """Write RUN/report.html of a finished run; or, with another source, RUN/report-SOURCE.html about its bags.

    The name gets a number if another source of the same name has that page. The bags of another source need no
    labels: the page then shows the predictions, and no accuracy. Returns the path of the page.
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


def write_report(
    folder: Path,
    classifier: Classifier,
    parts: Mapping[str, Bags],
    opened: Source | None = None,
    source: str | None = None,
    classified: ClassifiedBags | None = None,
) -> Path:
    """Write the page of a finished run from its bags, or from those of another source."""
    record = read_config(folder)
    trained_on = source is not None and is_trained_on(record, source)
    facts = RunFacts(folder, record, read_result(folder), read_history(folder / METRICS), trained_on)
    if source is None:
        write_model_card(folder, record, facts.result, classifier, parts)
    return write_page(facts, classifier, parts, opened, source, classified)


def export_run(folder: str | Path, out: str | Path) -> Path:
    """Write the classifier of a finished run as ONNX, with the facts of its model card."""
    from ..predict.onnx import export_onnx

    folder = Path(folder)
    finished_file(folder, RESULT)
    classifier = Classifier.load(classifier_file(folder), "cpu")
    return export_onnx(classifier, out, card_facts(read_config(folder), read_result(folder), classifier))
