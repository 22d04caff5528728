"""The part of a page about an audit of the run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...files import read_json

AUDIT_FIGURES = "audit-figures.json"  # in a run folder, after an audit of its own bags


def audit_section(folder: Path) -> dict[str, Any] | None:
    """The figures of the last audit; None if there was none."""
    path = folder / AUDIT_FIGURES
    return read_json(path, "repeat `majority audit --answers`") if path.is_file() else None


def percent_with_interval(found: dict[str, float] | None) -> str:
    """
    >>> percent_with_interval({"value": 0.9, "low": 0.85, "high": 0.934}), percent_with_interval(None)
    ('90.0 % (85.0 % to 93.4 %)', '–')
    """
    if found is None:
        return "–"
    value, low, high = (f"{100 * found[name]:.1f} %" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"
