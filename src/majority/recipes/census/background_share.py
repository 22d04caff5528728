"""The share of a background class, estimated from the bags: from how much their winners hold, and by validation bags.

A share that is too small makes background instances vote, and one that is too large takes votes away: both ways, fewer
bags have most of their predicted instances in the class of their label. So small models are trained with several
shares, and bags of the validation part are counted. Few bags say little about shares that are close to each other.
There, a prior decides: a class that never wins holds about as much as the other classes hold of the bags that they do
not win.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...data.background import Background
from ...data.bags import Bags
from ...losses import VotingLoss
from ...nn.heads import InstanceHead
from ...nn.model import Model
from ...predict.evaluate import evaluate
from ..losses import predicted_shares

SHARES = (0.03, 0.06, 0.12, 0.25, 0.4, 0.6)  # that are tried
PRIOR_SD = 1.0  # of the log-odds of the share
ERROR_RATES = (0.02, 0.4)  # within which the share of wrong bags is trusted
UNDECIDED = 2.0  # shares whose log-likelihood is lower than the best by less than this are not excluded
WIDEST = 4.0  # the largest factor between shares that are not excluded, for the share to be known


def with_share(model: Model, share: float) -> Model:
    """The same model with this share of the background."""
    assert model.spec.background is not None
    background = Background(model.spec.background.index, share)
    model.spec = replace(model.spec, background=background)
    assert isinstance(model.head, InstanceHead)  # only such a head has a loss that votes
    assert isinstance(model.head.loss, VotingLoss)
    model.head.loss.background = background
    return model


def find_share(trials: Mapping[float, Sequence[Model]], val: Bags, device: str) -> dict[str, Any]:
    """The share that the validation bags choose, with its figures, from models that were trained with each share."""
    right: dict[float, float] = {}
    winner_shares = []
    for share, models in trials.items():
        figures = [evaluate(model, val, device).summary() for model in models]
        right[share] = float(np.mean([of_model["bag_accuracy"] for of_model in figures]))
        winner_shares += [_winner_share(model, val, device) for model in models]
    prior = expected_share(float(np.mean(winner_shares)), len(val.classes))
    found = choose_share(right, int(val.bag_labels.known.sum()), prior)
    if "warning" in found:
        found["warning"] = f"background {val.classes[val.background or 0]}: {found['warning']}"
    return found


def describe_share(found: Mapping[str, Any]) -> str:
    """
    >>> tried = [{"share": 0.06, "bag_accuracy": 0.9}, {"share": 0.25, "bag_accuracy": 0.8}]
    >>> describe_share({"share": 0.06, "prior": 0.1, "tried": tried, "validation_bags": 50})
    '0.06, estimated (of 50 validation bags, right by count with each share: 0.06 90 %, 0.25 80 %)'
    """
    tried = ", ".join(f"{one['share']:g} {100 * one['bag_accuracy']:.0f} %" for one in found["tried"])
    bags = f"of {found['validation_bags']} validation bags, right by count with each share"
    return f"{found['share']:g}, estimated ({bags}: {tried})"


def expected_share(winner_share: float, classes: int) -> float:
    """The share of a class that never wins, if the classes that do not win a bag share what its winner leaves.

    >>> round(expected_share(0.6, classes=9), 3)
    0.05
    """
    return min(max((1 - winner_share) / max(classes - 1, 1), 0.01), 0.5)


def choose_share(right: Mapping[float, float], bags: int, prior: float) -> dict[str, Any]:
    """The most probable share, by the share of bags that are right by count with each, and how sure that is.

    Every wrong bag is evidence against a share: the logarithm of the odds of a right bag. The prior is normal in the
    log-odds of the share.

    >>> choose_share({0.03: 0.9, 0.12: 0.9, 0.4: 0.7}, bags=100, prior=0.1)["share"]
    0.12
    >>> choose_share({0.03: 0.6, 0.12: 0.7, 0.4: 0.9}, bags=100, prior=0.1)["share"]
    0.4
    >>> choose_share({0.03: 0.9, 0.12: 0.9, 0.4: 0.89}, bags=50, prior=0.1)["warning"]
    'the bags do not determine the background share: any from 0.03 to 0.4 ...'
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
            f"the bags do not determine the background share: any from {possible.min():g} to {possible.max():g} "
            f"explains the {bags} validation bags about equally well, and {about['share']:g} is assumed; if you know "
            "it, give --background-share (background_share=); look at the instances that are predicted as background"
        )
    return about


def _winner_share(model: Model, val: Bags, device: str) -> float:
    """The mean predicted share of the label's class among the votes of a bag."""
    shares = predicted_shares(model, val, device)
    votes = shares / np.maximum(1 - shares[:, [val.background or 0]], 1e-3)
    named = val.bag_labels.named
    held = votes[np.flatnonzero(named), val.bag_labels.winners[named]]
    return float(held.mean()) if len(held) else 1 / len(val.classes)
