"""Choosing a method without instance labels: the choice by validation bags alone, and what it costs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from statistics import fmean

from ...nn.methods import METHODS
from .comparison import CRITERION, Comparison
from .results import Result, Setting
from .statistics import mean_by_fold

PREFERRED = "log-mean"
DIGITS = 9  # means that agree in so many digits are equal: sums may be taken in a different order
RULE = (
    "The methods that use no instance labels are compared by their validation bag accuracy. In each fold, the "
    "method with the highest one is chosen; over several folds, the method with the highest mean. If methods are "
    "equal, log-mean is chosen, or else the first by name. The cost of a choice is the test instance accuracy of the "
    "best method in a fold minus that of the chosen one; computing it needs instance labels."
)


@dataclass(frozen=True)
class Choice:
    """The method chosen in each fold with at least two candidates; accuracies are means over these folds."""

    setting: Setting
    scenario: str | None
    source: str
    methods: tuple[str, ...]  # candidates in any fold
    n: int  # folds
    chosen: dict[str, int]  # method -> number of folds
    accuracy: float | None = None  # of the chosen methods; None, like the next two: no instance labels
    best: float | None = None  # of the best methods
    cost: float | None = None
    means: dict[str, float] = field(default_factory=dict)  # of the criterion, over the folds that all methods have
    n_common: int = 0  # these folds

    @property
    def recommended(self) -> str | None:
        """The method with the highest mean; None if no fold has all methods."""
        return choose_method(self.means) if self.means else None

    @property
    def tied(self) -> list[str]:
        """Other methods with the mean of the recommended one."""
        best = self.recommended
        return [
            name for name in self.means if best is not None and name != best and self.means[name] == self.means[best]
        ]

    @property
    def chosen_by_fold(self) -> str:
        """
        >>> choice = Choice(Setting("quick", ""), None, "digits", ("count", "vote"), 3, {"vote": 2, "count": 1})
        >>> choice.chosen_by_fold
        'vote 2, count 1'
        """
        return ", ".join(f"{method} {folds}" for method, folds in self.chosen.items())


def choices(comparison: Comparison) -> list[Choice]:
    """One choice per setting, scenario and source in which any fold has two candidates."""
    made = (_choice(panel, comparison.runs_by_method(*panel)) for panel in comparison.panels())
    return [choice for choice in made if choice]


def mean_cost(made: list[Choice]) -> float | None:
    """The mean over the choices whose cost is known; None if there is none."""
    known = [choice.cost for choice in made if choice.cost is not None]
    return fmean(known) if known else None


def choose_method(criteria: dict[str, float]) -> str:
    """The method with the highest criterion.

    >>> choose_method({"count": 0.9, "vote": 0.9, "log-mean": 0.9})
    'log-mean'
    >>> choose_method({"vote": 0.9, "count": 0.9, "log-mean": 0.8})
    'count'
    """
    return min(criteria, key=lambda method: (-criteria[method], method != PREFERRED, method))


def _choice(panel: tuple[Setting, str | None, str], runs: dict[str, list[Result]]) -> Choice | None:
    candidates = {name: of_method for name, of_method in runs.items() if not any(map(_sees_instance_labels, of_method))}
    criteria = {name: mean_by_fold(of_method, CRITERION, "val") for name, of_method in candidates.items()}
    test = {name: mean_by_fold(of_method, "instance_accuracy") for name, of_method in candidates.items()}
    chosen, accuracies, best, compared = [], [], [], set()
    for fold in sorted({fold for values in criteria.values() for fold in values}):
        of_fold = {name: criteria[name][fold] for name in candidates if fold in criteria[name]}
        if len(of_fold) < 2:
            continue
        compared |= set(of_fold)
        chosen.append(choose_method(of_fold))
        known = [test[name][fold] for name in of_fold if fold in test[name]]
        if len(known) == len(of_fold):
            accuracies.append(test[chosen[-1]][fold])
            best.append(max(known))
    if not chosen:
        return None
    methods = tuple(name for name in candidates if name in compared)
    common = sorted(set.intersection(*(set(criteria[name]) for name in methods)))
    means = {name: round(fmean(criteria[name][fold] for fold in common), DIGITS) for name in methods if common}
    setting, scenario, source = panel
    made = Choice(
        setting,
        scenario,
        source,
        methods,
        len(chosen),
        dict(Counter(chosen).most_common()),
        means=means,
        n_common=len(common),
    )
    if len(accuracies) < len(chosen):
        return made
    accuracy, best_accuracy = fmean(accuracies), fmean(best)
    return replace(made, accuracy=accuracy, best=best_accuracy, cost=best_accuracy - accuracy)


def _sees_instance_labels(run: Result) -> bool:
    """As the run recorded it; for older runs, as their method does, if it is known."""
    method = METHODS.get(run["method"])
    sees: bool = run.get("sees_instance_labels", method is not None and method.kind.sees_instance_labels)
    return sees
