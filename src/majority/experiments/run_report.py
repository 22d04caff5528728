"""The report page of a run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ..files import read_json, read_lines
from ..inference.classifier import Classifier
from ..inference.reading import Reading
from ..report.page import RunFacts, write_page
from ..sources import CustomBags, LabelledSet, Parts
from ..training.loop import METRICS
from .reopen import open_bags, reopen
from .run_folder import RESULT, finished_file, is_trained_on, read_config


def report_run(
    folder: str | Path,
    device: str = "auto",
    source: str | None = None,
    log: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write RUN/report.html from a finished run's folder and its bags, or RUN/report-SOURCE.html from the bags of
    another source (numbered where that page is of a source of the same name); return its path.

    Bags of another source may have no labels: the page then shows what is predicted, and nothing of how right it is.
    """
    folder = Path(folder)
    finished_file(folder, RESULT)
    if source is None:
        return write_report(folder, *reopen(folder, device=device))
    classifier, bags, opened = open_bags(folder, source, labels=True, unlabelled=True, device=device, log=log)
    (others,) = bags.values()
    if not others.labelled:
        known = "not how right it is" if others.instance_labels is None else "and how right it is of instances alone"
        log(f"note: {source} has no bag labels: the page shows what is predicted, {known}")
    return write_report(folder, classifier, Parts(None, None, others), opened, source)


def write_report(
    folder: Path,
    classifier: Classifier,
    parts: Parts,
    opened: LabelledSet | CustomBags | None = None,
    source: str | None = None,
    reading: Reading | None = None,
) -> Path:
    """Write the page of a finished run from its bags, or from those of another source."""
    config = read_config(folder)
    trained_on = source is not None and is_trained_on(config, source)
    facts = RunFacts(config, read_json(finished_file(folder, RESULT)), read_lines(folder / METRICS), trained_on)
    return write_page(folder, facts, classifier, parts, opened, source, reading)
