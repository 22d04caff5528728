"""What a run was: its data, its training, and what its recipe says. One line of text each, for the report page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import count_noun
from ...predict.classifier import Classifier
from ..record import RunRecord

REPORT = "report.html"


def about_run(
    record: RunRecord, result: dict[str, Any], classifier: Classifier, described: dict[str, str]
) -> dict[str, str]:
    """The lines by their titles. `described` are those of the recipe, which replace no other line."""
    data, environment, embedding = record.run.facts_of_bags(), record.environment, record.embedding
    spec, share = classifier.model.spec, record.run.labels.background_share
    shape = "×".join(map(str, spec.instance_shape))
    task = {
        "source": data["source"],
        "scenario": data.get("scenario"),
        "fold": data.get("fold"),
        "instances": f"images of {shape}" if spec.images else f"vectors of {shape} features",
        "embedded by": embedding and Path(embedding.model).name,
        "classes": len(classifier.classes),
        "corrected labels": corrected_labels(data),
        "method": record.method,
    }
    training = {
        **({} if share is None else {"background share": f"{share:g}, given"}),
        "recipe": record.plan.recipe,
        "trained again": _refit(result),
        "instance labels": _instance_labels(result),
        "backbone": spec.backbone or "custom module",
        "epochs": _kept_epoch(result),
        "stages": "; ".join(f"{name}: {_kept_epoch(stage)}" for name, stage in result.get("stages", {}).items())
        or None,
        "training time": format_seconds(result["seconds"]),
        "seeds": f"{record.run.seed} (weights, order), {data.get('data_seed', '–')} (data)",
        "made with": f"majority {environment.majority}, torch {environment.torch}, {environment.device}",
    }
    about = task | {title: text for title, text in described.items() if title not in task | training} | training
    return {title: str(value) for title, value in about.items() if value is not None}


def corrected_labels(data: dict[str, Any]) -> str | None:
    """
    >>> corrected_labels({"labels": "work/review.csv", "corrections": {"farm01": "oats", "farm03": "rye"}})
    '2, from review.csv'
    """
    corrections = data.get("corrections")
    return f"{len(corrections):,}, from {Path(str(data.get('labels'))).name}" if corrections else None


def _refit(result: dict[str, Any]) -> str | None:
    """
    >>> _refit({"refit_bags": 90, "refit_seconds": 14.2})
    'on all 90 bags, in 14 s: `majority predict` uses this classifier for other bags, ...'
    """
    if "refit_bags" not in result:
        return None
    seconds = f", in {format_seconds(result['refit_seconds'])}" if "refit_seconds" in result else ""
    used = "`majority predict` uses this classifier for other bags, and `majority export` writes it"
    first = "figures of the bags of this run are those of the first one"
    return f"on all {result['refit_bags']:,} bags{seconds}: {used}; {first}"


def _instance_labels(result: dict[str, Any]) -> str | None:
    """
    >>> _instance_labels({"used_instance_labels": 50})
    'those of 50 instances of training bags were used in training in addition to the bag labels; ...'
    """
    if "used_instance_labels" not in result:
        return None
    which = f"those of {count_noun(result['used_instance_labels'], 'instance')} of training bags"
    return f"{which} were used in training in addition to the bag labels; metrics exclude these instances"


def _kept_epoch(training: dict[str, Any]) -> str:
    """
    >>> _kept_epoch({"best_epoch": 39, "epochs": 40})
    'kept epoch 40 of 40'
    """
    return f"kept epoch {training['best_epoch'] + 1} of {training['epochs']}"


def format_seconds(seconds: float) -> str:
    """
    >>> format_seconds(0.07), format_seconds(75), format_seconds(7322)
    ('0.07 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
