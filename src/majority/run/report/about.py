"""What pages and commands say of a run: its corrected labels, its time, and how often it is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .blocks import percent

REPORT = "report.html"


def corrected_labels(data: dict[str, Any]) -> str | None:
    """
    >>> corrected_labels({"labels": "work/review.csv", "corrections": {"farm01": "oats", "farm03": "rye"}})
    '2, from review.csv'
    """
    corrections = data.get("corrections")
    return f"{len(corrections):,}, from {Path(str(data.get('labels'))).name}" if corrections else None


def able(figures: Mapping[str, Any], bags: str, baseline: Mapping[str, Any] | None = None) -> str:
    """How often a classifier is right about these bags, in a sentence.

    >>> figures = {"bag_accuracy": 0.95, "bags": 40, "most_frequent_label": 0.3}
    >>> able(figures, "held-out bags")
    'This classifier is right about the label of 95.0 % of the 40 held-out bags.'
    >>> able(figures, "held-out bags", {"name": "forest", "bag_accuracy": 0.88})
    'This classifier is right about the label of 95.0 % ...; a forest that has learned the same labels: 88.0 %.'
    """
    of_bags, of_instances = figures.get("bag_accuracy"), figures.get("instance_accuracy")
    bags = f"{figures.get('labelled_bags', figures.get('bags', 0)):,} {bags}"
    if of_bags is None and of_instances is None:
        return f"The {bags} have no labels: how often this classifier is right about them is not known."
    if of_bags is None:
        return f"This classifier is right about {percent(of_instances)} of the labelled instances of the {bags}."
    instances = f"{percent(of_instances)} of the instances and " * (of_instances is not None)
    said = f"This classifier is right about {instances}the label of {percent(of_bags)} of the {bags}"
    most_frequent = figures.get("most_frequent_label", 0.0)
    if of_bags <= most_frequent:
        said += f", no more often than if it always predicted the most frequent label ({percent(most_frequent)})"
    if baseline:
        said += f"; a {baseline['name']} that has learned the same labels: {percent(baseline['bag_accuracy'])}"
    return f"{said}."
