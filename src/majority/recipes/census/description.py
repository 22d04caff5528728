"""The entries of census in result.json as lines of the report page: what the bags have chosen."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...records import BackgroundShare, CensusResult, ChosenViews, LossWeights
from ..description import ResultDescription, parse_entries
from .class_offsets import describe_offsets
from .views import describe as describe_views


def describe(result: Mapping[str, Any]) -> ResultDescription:
    chosen, lines, warnings = parse_entries(CensusResult, result), {}, []
    if "losses" in chosen:
        lines["bag losses"] = _bag_losses(chosen["losses"])
        if "class_offsets" in chosen["losses"]:
            added = describe_offsets(chosen["losses"]["class_offsets"])
            lines["class offsets"] = (
                f"{added} (added to log-probabilities of the soft labels, so that they agree with the bag labels)"
            )
    if "views" in chosen:
        lines["views"] = _views(chosen["views"])
    if "background" in chosen:
        lines["background share"] = _background_share(chosen["background"])
        warnings = [chosen["background"]["warning"]] if "warning" in chosen["background"] else []
    if "validation_instances" in chosen:
        lines["validation bags"] = f"their {chosen['validation_instances']:,} instances took part, but not their labels"
    return ResultDescription(lines, tuple(warnings))


def _bag_losses(losses: LossWeights) -> str:
    """The weights of the losses of a run without a named method.

    >>> _bag_losses({"weights": {"vote": 0.3, "soft-count": 0.7}, "validation_bags": 50})
    'soft-count 0.70, vote 0.30 (weights by how well instance predictions explain the labels of 50 validation bags, and
    by how evenly labels are distributed)'
    """
    weights = sorted(losses["weights"].items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in weights)
    explained = f"how well instance predictions explain the labels of {losses['validation_bags']} validation bags"
    return f"{shown} (weights by {explained}, and by how evenly labels are distributed)"


def _views(views: ChosenViews) -> str:
    """The views that the bags chose for images of an unknown kind.

    >>> tried = [{"views": [], "val_loss": 1.8}, {"views": ["colour", "flip"], "val_loss": 1.7}]
    >>> _views({"chosen": ["colour", "flip"], "tried": tried, "validation_bags": 50})
    'colour + flip (loss of 50 validation bags after a short pretraining: crops 1.800, colour + flip 1.700)'
    """
    losses = ", ".join(f"{describe_views(one['views'])} {one['val_loss']:.3f}" for one in views["tried"])
    bags = f"loss of {views['validation_bags']} validation bags after a short pretraining"
    return f"{describe_views(views['chosen'])} ({bags}: {losses})"


def _background_share(share: BackgroundShare) -> str:
    """
    >>> tried = [{"share": 0.06, "bag_accuracy": 0.9}, {"share": 0.25, "bag_accuracy": 0.8}]
    >>> _background_share({"share": 0.06, "prior": 0.1, "tried": tried, "validation_bags": 50})
    '0.06, estimated (of 50 validation bags, right by count with each share: 0.06 90 %, 0.25 80 %)'
    """
    tried = ", ".join(f"{one['share']:g} {100 * one['bag_accuracy']:.0f} %" for one in share["tried"])
    bags = f"of {share['validation_bags']} validation bags, right by count with each share"
    return f"{share['share']:g}, estimated ({bags}: {tried})"
