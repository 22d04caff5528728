"""Report pages of a run and of a study: self-contained HTML files that need no network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["write_report", "write_study_report"]


def write_report(folder: str | Path, device: str = "auto") -> Path:
    """Write RUN/report.html from a finished run's folder and its bags; return its path."""
    from ..experiments import reopen
    from .page import require_finished, write_page

    folder = require_finished(Path(folder))
    return write_page(folder, *reopen(folder, device=device))


def write_study_report(study: str | Path, say: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Write report.html and the tables of a study's folder, or of a .jsonl file of results; return their paths.

    What was asked for and is missing is said.
    """
    from .study_page import write_study

    return write_study(Path(study), say)
