"""The share of a background class, estimated from the bags: from how much their winners hold, and by validation bags.

A share that is too small makes background instances vote, and one that is too large takes votes away: both ways, fewer
bags have most of their predicted instances in the class of their label. So small models are trained with several
shares, and bags of the validation part are counted. Few bags say little about shares that are close to each other.
There, a prior decides: a class that never wins holds about as much as the other classes hold of the bags that they do
not win.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ...data.bags import Bags
from ...nn.model import Model
from ...predict.evaluate import evaluate
from ..losses import predicted_shares
from ..plan import TaskInfo
from ..stages import Result, Run, Stage
from .parts import bags_of

SHARES = (0.03, 0.06, 0.12, 0.25, 0.4, 0.6)  # that are tried
PRIOR_SD = 1.0  # of the log-odds of the share
ERROR_RATES = (0.02, 0.4)  # within which the share of wrong bags is trusted
UNDECIDED = 2.0  # shares whose log-likelihood is lower than the best by less than this are not excluded
WIDEST = 4.0  # the largest factor between shares that are not excluded, for the share to be known


def share_search(task: TaskInfo, models: Sequence[Stage]) -> list[Stage]:
    """These small models with each share of a background whose share is not known, and the choice of one."""
    if not task.finds_share:
        return []
    trials = [
        replace(model, name=f"share-{share:g}-{model.name}", start=partial(_with_share, model.start, share))
        for share in SHARES
        for model in models
    ]
    return [*trials, Stage("background", inputs=tuple(trial.name for trial in trials), choose=_choose)]


def _with_share(start: Callable[[Run], Model], share: float, run: Run) -> Model:
    trial = Result(about={"background": {"share": share}})
    return start(replace(run, results={**run.results, "background": trial}))


def _choose(run: Run) -> dict[str, Any]:
    """The share that the validation bags choose, with its figures."""
    right: dict[float, float] = {}
    held: list[float] = []
    for share in SHARES:
        figures = []
        for name in run.stage.inputs:
            if name.startswith(f"share-{share:g}-"):
                model, val = run.network(name), bags_of(run, name.removeprefix(f"share-{share:g}-"))[1]
                figures.append(evaluate(model, val, run.device).summary()["bag_accuracy"])
                held.append(_winner_share(model, val, run.device))
        right[share] = float(np.mean(figures))
    # of a class that never wins, if the classes that do not win a bag share what its winner leaves
    prior = float(np.clip((1 - np.mean(held)) / max(len(run.val.classes) - 1, 1), 0.01, 0.5))
    found = choose_share(right, run.validation_labels, prior)
    tried = ", ".join(f"{share:g} {100 * accuracy:.0f} %" for share, accuracy in right.items())
    bags = f"of {run.validation_labels} validation bags, right by count with each share"
    lines = {"background share": f"{found['share']:g}, estimated ({bags}: {tried})"}
    return {"background": found, "lines": lines, "warnings": [found["warning"]] if "warning" in found else []}


def choose_share(right: Mapping[float, float], bags: int, prior: float) -> dict[str, Any]:
    """The most probable share, by the share of bags that are right by count with each, and how sure that is.

    Every wrong bag is evidence against a share: the logarithm of the odds of a right bag. The prior is normal in the
    log-odds of the share.

    >>> choose_share({0.03: 0.9, 0.12: 0.9, 0.4: 0.7}, bags=100, prior=0.1)["share"]
    0.12
    >>> choose_share({0.03: 0.6, 0.12: 0.7, 0.4: 0.9}, bags=100, prior=0.1)["share"]
    0.4
    >>> choose_share({0.03: 0.9, 0.12: 0.9, 0.4: 0.89}, bags=50, prior=0.1)["warning"]
    'the bags do not determine the background share: 0.03 to 0.4 ...'
    """
    shares, accuracies = np.array([*right]), np.array([*right.values()])
    wrong = float(np.clip(1 - accuracies.max(), *ERROR_RATES))
    evidence = bags * accuracies * np.log((1 - wrong) / wrong)
    distance = np.log(shares / (1 - shares)) - np.log(prior / (1 - prior))
    best = int((evidence - distance**2 / (2 * PRIOR_SD**2)).argmax())
    possible = shares[evidence > evidence.max() - UNDECIDED]
    about: dict[str, Any] = {
        "share": float(shares[best]),
        "prior": round(prior, 4),
        "tried": [{"share": share, "bag_accuracy": accuracy} for share, accuracy in right.items()],
        "validation_bags": bags,
    }
    if possible.max() > WIDEST * possible.min() * (1 + 1e-9):
        about["warning"] = (
            f"the bags do not determine the background share: {possible.min():g} to {possible.max():g} explain them "
            f"about equally well, and {about['share']:g} is assumed; if you know it, give --background-share"
        )
    return about


def _winner_share(model: Model, val: Bags, device: str) -> float:
    """The mean predicted share of the label's class among the votes of a bag."""
    shares = predicted_shares(model, val, device)
    votes = shares / np.maximum(1 - shares[:, [val.background or 0]], 1e-3)
    named = val.bag_labels.named
    held = votes[np.flatnonzero(named), val.bag_labels.winners[named]]
    return float(held.mean()) if len(held) else 1 / len(val.classes)
