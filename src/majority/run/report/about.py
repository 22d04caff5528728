"""What a run was and can do: its data, its training, and how often it is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...predict.classifier import Classifier
from ..record import RunRecord
from .blocks import percent

REPORT = "report.html"


def about_run(record: RunRecord, result: dict[str, Any], classifier: Classifier) -> dict[str, str]:
    """One line of text each, by title. The lines of the recipe replace no other."""
    data, environment, embedding = record.run.facts_of_bags(), record.environment, record.embedding
    spec, share = classifier.model.spec, record.run.background_share
    again, learned = result.get("refit_bags"), result.get("used_instance_labels")
    shape = "×".join(map(str, spec.instance_shape))
    stages = (f"{name}: {_kept_epoch(stage)}" for name, stage in result.get("stages", {}).items())
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
        "trained again": again and f"on all {again:,} bags, for other bags than those of this run",
        "instance labels": learned and f"{learned:,} of training bags were learned, and are left out of all figures",
        "backbone": spec.backbone or "custom module",
        "epochs": _kept_epoch(result),
        "stages": "; ".join(stages) or None,
        "training time": format_seconds(result["seconds"]),
        "seeds": f"{record.run.seed} (weights, order), {data.get('data_seed', '–')} (data)",
        "made with": f"majority {environment.majority}, torch {environment.torch}, {environment.device}",
    }
    lines = {title: text for title, text in result.get("lines", {}).items() if title not in task | training}
    return {title: str(value) for title, value in (task | lines | training).items() if value is not None}


def corrected_labels(data: dict[str, Any]) -> str | None:
    """
    >>> corrected_labels({"labels": "work/review.csv", "corrections": {"farm01": "oats", "farm03": "rye"}})
    '2, from review.csv'
    """
    corrections = data.get("corrections")
    return f"{len(corrections):,}, from {Path(str(data.get('labels'))).name}" if corrections else None


def _kept_epoch(training: dict[str, Any]) -> str:
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


# ---------------------------------------------------------------------- what it can do


def able(figures: Mapping[str, Any], bags: str, baseline: Mapping[str, Any] | None = None) -> str:
    """How often a classifier is right about these bags, in a sentence.

    >>> figures = {"bag_accuracy": 0.95, "bags": 40, "most_frequent_label": 0.3}
    >>> able(figures, "held-out bags")
    'This classifier is right about the label of 95.0 % of the 40 held-out bags.'
    >>> able(figures, "held-out bags", {"name": "naive forest", "bag_accuracy": 0.88})
    'A naive forest is right about the label of 88.0 % of the 40 held-out bags, this classifier of 95.0 %.'
    """
    of_bags, of_instances = figures.get("bag_accuracy"), figures.get("instance_accuracy")
    bags = f"{figures.get('labelled_bags', figures.get('bags', 0)):,} {bags}"
    if of_bags is None and of_instances is None:
        return f"The {bags} have no labels: how often this classifier is right about them is not known."
    if of_bags is None:
        return f"This classifier is right about {percent(of_instances)} of the labelled instances of the {bags}."
    if baseline:
        other = f"A {baseline['name']} is right about the label of {percent(baseline['bag_accuracy'])} of the {bags}"
        said = f"{other}, this classifier of {percent(of_bags)}"
        said += f", and of {percent(of_instances)} of their instances" * (of_instances is not None)
    else:
        instances = f"{percent(of_instances)} of the instances and " * (of_instances is not None)
        said = f"This classifier is right about {instances}the label of {percent(of_bags)} of the {bags}"
    most_frequent = figures.get("most_frequent_label", 0.0)
    if of_bags <= most_frequent:
        said += f", no more often than if it always predicted the most frequent label ({percent(most_frequent)})"
    return f"{said}."
