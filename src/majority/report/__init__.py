"""Report pages of a run and of a study: self-contained HTML files that need no network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["write_report", "write_study_report"]


def write_report(
    folder: str | Path,
    device: str = "auto",
    source: str | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> Path:
    """Write RUN/report.html from a finished run's folder and its bags, or RUN/report-SOURCE.html from the bags of
    another source (numbered where that page is of a source of the same name); return its path.

    Bags of another source may have no labels: the page then shows what is predicted, and nothing of how right it is.
    """
    from ..experiments import open_bags, reopen
    from ..runs import RESULT, finished_file
    from ..sources import Parts
    from .page import write_page

    folder = Path(folder)
    finished_file(folder, RESULT)
    if source is None:
        return write_page(folder, *reopen(folder, device=device))
    classifier, bags, opened = open_bags(folder, source, labels=True, unlabelled=True, device=device, say=say)
    (others,) = bags.values()
    if not others.labelled:
        known = "not how right it is" if others.instance_labels is None else "and how right it is of instances alone"
        say(f"note: {source} has no bag labels: the page shows what is predicted, {known}")
    return write_page(folder, classifier, Parts(None, None, others), opened, source)


def write_study_report(study: str | Path, say: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Write report.html and the tables of a study's folder, or of a .jsonl file of results; return their paths.

    What was asked for and is missing is said.
    """
    from .study_page import write_study

    return write_study(Path(study), say)
