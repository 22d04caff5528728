"""The report page of a run: one self-contained HTML file that needs no network."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_report"]


def write_report(folder: str | Path, device: str = "auto") -> Path:
    """Write RUN/report.html from a finished run's folder and its bags; return its path."""
    from ..experiments import reopen
    from .page import require_finished, write_page

    folder = require_finished(Path(folder))
    return write_page(folder, *reopen(folder, device=device))
