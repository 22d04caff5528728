"""The entries of census in result.json as lines of the report page: what the bags have chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..description import ResultDescription
from ..wrong_labels import describe_wrong_labels
from .views import describe as describe_views


def describe(result: Mapping[str, Any]) -> ResultDescription:
    lines = {}
    if "losses" in result:
        lines["bag losses"] = _bag_losses(result["losses"])
    if "views" in result:
        lines["views"] = _views(result["views"])
    lines |= describe_wrong_labels(result)  # without this, they would be the last line
    share = result.get("background", {})
    if share:
        lines["background share"] = _background_share(share)
    return ResultDescription(lines, (share["warning"],) if "warning" in share else ())


def _bag_losses(losses: Mapping[str, Any]) -> str:
    """The weights of the losses of a run without a named method.

    >>> _bag_losses({"weights": {"vote": 0.3, "soft-count": 0.7}, "validation_bags": 50})
    'soft-count 0.70, vote 0.30 (weights: how well instances explain 50 validation labels, how even labels are)'
    """
    weights = sorted(losses["weights"].items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in weights)
    bags = losses["validation_bags"]
    return f"{shown} (weights: how well instances explain {bags} validation labels, how even labels are)"


def _views(views: Mapping[str, Any]) -> str:
    """The views that the bags chose for images of an unknown kind.

    >>> tried = [{"views": [], "val_loss": 1.8}, {"views": ["colour", "flip"], "val_loss": 1.7}]
    >>> _views({"chosen": ["colour", "flip"], "tried": tried, "validation_bags": 50})
    'colour + flip (loss of 50 validation bags after a short pretraining: crops 1.800, colour + flip 1.700)'
    """
    losses = ", ".join(f"{describe_views(one['views'])} {one['val_loss']:.3f}" for one in views["tried"])
    bags = f"loss of {views['validation_bags']} validation bags after a short pretraining"
    return f"{describe_views(views['chosen'])} ({bags}: {losses})"


def _background_share(share: Mapping[str, Any]) -> str:
    """
    >>> tried = [{"share": 0.06, "bag_accuracy": 0.9}, {"share": 0.25, "bag_accuracy": 0.8}]
    >>> _background_share({"share": 0.06, "tried": tried, "validation_bags": 50})
    '0.06, estimated (of 50 validation bags, right by count with each share: 0.06 90 %, 0.25 80 %)'
    """
    tried = ", ".join(f"{one['share']:g} {100 * one['bag_accuracy']:.0f} %" for one in share["tried"])
    bags = f"of {share['validation_bags']} validation bags, right by count with each share"
    return f"{share['share']:g}, estimated ({bags}: {tried})"
