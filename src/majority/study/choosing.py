"""Choosing without instance labels: the method that validation bags alone would pick, and what that choice costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from statistics import fmean

from ..methods import METHODS
from .comparison import CRITERION, Comparison
from .results import Setting
from .statistics import by_fold

PREFERRED = "log-mean"
DIGITS = 9  # of a mean: sums in another order are equals
RULE = (
    "In each fold, of the methods that see bag labels alone, the one whose hard counts name most validation bags' "
    "labels; over several folds, the one with the highest mean of that share; of equals log-mean, else the first by "
    "name. The cost is the test instance accuracy of the best method of a fold minus that of the one chosen in it; "
    "only instance labels can tell it."
)


@dataclass(frozen=True)
class Choice:
    """Means over the folds in which there was something to choose."""

    setting: Setting
    scenario: str | None
    source: str
    methods: tuple[str, ...]  # to choose from, in any fold
    n: int  # folds
    chosen: dict[str, int]  # in how many folds
    accuracy: float | None = None  # None, as the next two: no instance labels
    best: float | None = None
    cost: float | None = None
    means: dict[str, float] = field(default_factory=dict)  # validation shares over the folds that all methods have
    shared: int = 0  # those folds

    @property
    def taken(self) -> str | None:
        """By the means; None where no fold has all methods."""
        return pick(self.means) if self.means else None

    @property
    def equals(self) -> list[str]:
        """Of the one taken."""
        return [name for name in self.means if name != self.taken and self.means[name] == self.means[self.taken]]

    @property
    def picks(self) -> str:
        """
        >>> Choice(Setting("quick", ""), None, "digits", ("count", "vote"), 3, {"vote": 2, "count": 1}).picks
        'vote 2, count 1'
        """
        return ", ".join(f"{method} {folds}" for method, folds in self.chosen.items())


def choices(comparison: Comparison) -> list[Choice]:
    made = (_choice(panel, comparison.members(*panel)) for panel in comparison.panels())
    return [choice for choice in made if choice]


def mean_cost(made: list[Choice]) -> float | None:
    """Over sources and scenarios, each as heavy as the other; None where instance labels tell none."""
    known = [choice.cost for choice in made if choice.cost is not None]
    return fmean(known) if known else None


def pick(validation: dict[str, float]) -> str:
    """
    >>> pick({"count": 0.9, "vote": 0.9, "log-mean": 0.9}), pick({"vote": 0.9, "count": 0.9, "log-mean": 0.8})
    ('log-mean', 'count')
    """
    return min(validation, key=lambda method: (-validation[method], method != PREFERRED, method))


def _choice(panel: tuple, runs: dict[str, list[dict]]) -> Choice | None:
    blind = {name: of_method for name, of_method in runs.items() if not any(map(_sees_instance_labels, of_method))}
    validation = {name: by_fold(of_method, CRITERION, "val") for name, of_method in blind.items()}
    test = {name: by_fold(of_method, "instance_accuracy") for name, of_method in blind.items()}
    chosen, accuracies, best, able = [], [], [], set()
    for fold in sorted({fold for values in validation.values() for fold in values}):
        candidates = {name: validation[name][fold] for name in blind if fold in validation[name]}
        if len(candidates) < 2:
            continue
        able |= set(candidates)
        chosen.append(pick(candidates))
        known = [test[name][fold] for name in candidates if fold in test[name]]
        if len(known) == len(candidates):
            accuracies.append(test[chosen[-1]][fold])
            best.append(max(known))
    if not chosen:
        return None
    methods = tuple(name for name in blind if name in able)
    shared = sorted(set.intersection(*(set(validation[name]) for name in methods)))
    means = {name: round(fmean(validation[name][fold] for fold in shared), DIGITS) for name in methods if shared}
    picked = dict(Counter(chosen).most_common())
    made = Choice(*panel, methods, len(chosen), picked, means=means, shared=len(shared))
    if len(accuracies) < len(chosen):
        return made
    accuracy, hindsight = fmean(accuracies), fmean(best)
    return replace(made, accuracy=accuracy, best=hindsight, cost=hindsight - accuracy)


def _sees_instance_labels(run: dict) -> bool:
    """As training noted it; of an older run, as its method does where it is known here."""
    method = METHODS.get(run["method"])
    return run.get("sees_instance_labels", method is not None and method.head.sees_instance_labels)
