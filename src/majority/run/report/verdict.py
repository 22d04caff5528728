"""The verdict on a classifier: what it can do on held-out bags, what is not known, and what to do next."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .blocks import percent


class Verdict(NamedTuple):
    """Two sentences; the second one ends in a command."""

    able: str
    next: str
    command: str

    def __str__(self) -> str:
        return f"{self.able} {self.next}: {self.command}"


def verdict(
    figures: Mapping[str, Any],
    run: Path,
    bags: str = "held-out bags",
    source: str | None = None,
    suspicious: int = 0,
    baseline: Mapping[str, Any] | None = None,
) -> Verdict:
    """Of the figures of these bags; `source` are other bags than those of the run.

    >>> figures = {"bag_accuracy": 0.95, "bags": 40, "most_frequent_label": 0.3}
    >>> print(verdict(figures, Path("run")).able)
    This classifier is right about the label of 95.0 % of the 40 held-out bags.
    >>> print(verdict(figures, Path("run"), baseline={"name": "naive forest", "bag_accuracy": 0.88}).able)
    A naive forest is right about the label of 88.0 % of the 40 held-out bags, this classifier of 95.0 %.
    >>> verdict(figures, Path("run")).command
    'majority audit run'
    """
    n, of_instances = figures.get("labelled_bags", figures.get("bags", 0)), figures.get("instance_accuracy")
    able = _able(figures, f"{n:,} {bags}", baseline)
    words = " ".join([str(run), *([source] if source else [])])
    if of_instances is None:
        unknown = "Without instance labels it is not known how many single instances it gets right; a few labels tell"
        return Verdict(able, unknown, f"majority audit {words}")
    if suspicious:
        return Verdict(able, "Next, look at the bags whose labels are probably wrong", f"majority review {words}")
    return Verdict(able, "Next, classify other bags", f"majority predict {run} SOURCE")


def _able(figures: Mapping[str, Any], bags: str, baseline: Mapping[str, Any] | None) -> str:
    of_bags, of_instances = figures.get("bag_accuracy"), figures.get("instance_accuracy")
    if of_bags is None and of_instances is None:
        return f"The {bags} have no labels: how often this classifier is right about them is not known."
    if of_bags is None:
        return f"This classifier is right about {percent(of_instances)} of the labelled instances of the {bags}."
    if baseline:
        other = f"A {baseline['name']} is right about the label of {percent(baseline['bag_accuracy'])} of the {bags}"
        able = f"{other}, this classifier of {percent(of_bags)}"
        able += f", and of {percent(of_instances)} of their instances" * (of_instances is not None)
    else:
        instances = f"{percent(of_instances)} of the instances and " * (of_instances is not None)
        able = f"This classifier is right about {instances}the label of {percent(of_bags)} of the {bags}"
    most_frequent = figures.get("most_frequent_label", 0.0)
    if of_bags <= most_frequent:
        able += f", no more often than if it always predicted the most frequent label ({percent(most_frequent)})"
    return f"{able}."
