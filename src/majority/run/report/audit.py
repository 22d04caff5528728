"""The section of a report about an audit of the run's own bags."""

from __future__ import annotations

from pathlib import Path

from ...errors import count_noun
from ...files import read_json
from .blocks import NOTHING, Block, Card, Cards, Note, Table, percent

AUDIT_FIGURES = "audit-figures.json"  # in a run folder, after an audit of its own bags
HEAD = ("class", "share", "share by count", "recall", "precision")


def audit_blocks(folder: Path) -> list[Block]:
    """Nothing if the run has not been audited."""
    path = folder / AUDIT_FIGURES
    if not path.is_file():
        return []
    audit = read_json(path, "repeat `majority audit --answers`")
    labels, accuracy = count_noun(audit["labels"], "labelled instance"), audit["accuracy"]
    left_out = f"{audit['cannot_tell']} that could not be told, {audit['without_answer']} without an answer"
    agreed = ""
    if both := audit["agreement"]:
        agreed = (
            f"Annotators agree on {both['agreed']} of {both['instances']} instances; the others are left out, too. "
        )
    about = (
        f"Estimates for all instances of the audited bags, with 95 % intervals, from {labels}. Left out: {left_out}. "
        f"{agreed}Mean confidence minus accuracy: {_estimate(audit['overconfidence'])}. Temperature that fits the "
        f"answers: {audit['temperature']:.2f}."
    )
    interval = f"{percent(accuracy['low'])} to {percent(accuracy['high'])}"
    rows = []
    for of in audit["classes"]:
        share, recall, precision = (_estimate(of[name]) for name in ("share", "recall", "precision"))
        rows.append([of["name"], share, percent(of["naive_share"]), recall, precision])
    mistakes = [f"{of['true']} taken for {of['predicted']}: {_estimate(of['share'])}" for of in audit["confusions"]]
    return [
        Cards([Card("instance accuracy", percent(accuracy["value"]), "of all instances, estimated", interval)]),
        Note(about),
        Table("classes of the audit", HEAD, rows),
        *([Note(f"Of all instances, {'; '.join(mistakes)}.")] if mistakes else []),
    ]


def _estimate(found: dict[str, float] | None) -> str:
    """
    >>> _estimate({"value": 0.9, "low": 0.85, "high": 0.934}), _estimate(None)
    ('90.0 % (85.0 % to 93.4 %)', '–')
    """
    if found is None:
        return NOTHING
    return f"{percent(found['value'])} ({percent(found['low'])} to {percent(found['high'])})"
