"""The figures of an audit by the names of the classes: as they are kept, printed and shown in a report."""

from __future__ import annotations

from typing import Any

from ..errors import count_noun
from ..predict.audit import AuditFigures, Estimate
from .audit_files import OTHER, Answers, AuditRecord
from .report.audit_section import AUDIT_FIGURES as FIGURES

__all__ = ["FIGURES", "describe", "figures_of"]


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
