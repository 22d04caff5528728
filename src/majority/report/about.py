"""What a run was: its data, its recipe, and what the bags chose. One line of text each, for the report page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import count_noun
from ..inference.classifier import Classifier
from ..recipes.census.views import describe


def about_run(config: dict[str, Any], result: dict[str, Any], classifier: Classifier) -> dict[str, str]:
    data, plan, environment = config["data"], config["plan"], config["environment"]
    spec = classifier.model.spec
    shape = "×".join(map(str, spec.instance_shape))
    about = {
        "source": data["source"],
        "scenario": data.get("scenario"),
        "fold": data.get("fold"),
        "instances": f"images of {shape}" if spec.images else f"vectors of {shape} features",
        "embedded by": config.get("embedding") and Path(config["embedding"]["model"]).name,
        "classes": len(classifier.classes),
        "method": config["method"],
        "bag losses": _bag_losses(result),
        "views": _views(result),
        "wrong labels": _wrong_labels(result),
        "background share": _background_share(result, config),
        "recipe": plan["recipe"],
        "trained again": _refit(result),
        "instance labels": _instance_labels(result),
        "backbone": spec.backbone or "custom module",
        "epochs": _kept_epoch(result),
        "stages": "; ".join(f"{name}: {_kept_epoch(stage)}" for name, stage in result.get("stages", {}).items())
        or None,
        "training time": format_seconds(result["seconds"]),
        "seeds": f"{plan['training']['seed']} (weights, order), {data.get('data_seed', '–')} (data)",
        "made with": f"majority {environment['majority']}, torch {environment['torch']}, {environment['device']}",
    }
    return {name: str(value) for name, value in about.items() if value is not None}


def _bag_losses(result: dict[str, Any]) -> str | None:
    """The weights of the losses of a run without a named method.

    >>> _bag_losses({"losses": {"weights": {"vote": 0.3, "soft-count": 0.7}, "validation_bags": 50}})
    'soft-count 0.70, vote 0.30 (weights, by how well instance predictions explain the labels of 50 validation bags)'
    """
    if "losses" not in result:
        return None
    weights = sorted(result["losses"]["weights"].items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in weights)
    bags = result["losses"]["validation_bags"]
    return f"{shown} (weights, by how well instance predictions explain the labels of {bags} validation bags)"


def _wrong_labels(result: dict[str, Any]) -> str | None:
    """What a first training showed about the labels.

    >>> _wrong_labels({"wrong_labels": {"share": 0.2, "bags": 250, "corrections": {"3": "oak", "7": ""}}})
    'about 20 % of 250: the last training had other labels of 1 bag, and left out those of 1'
    >>> _wrong_labels({"wrong_labels": {"share": 0.0, "bags": 250, "corrections": {}}})
    'none are assumed among 250'
    """
    if "wrong_labels" not in result:
        return None
    found = result["wrong_labels"]
    if not found["corrections"]:
        return f"none are assumed among {found['bags']:,}"
    other = sum(label != "" for label in found["corrections"].values())
    left_out = len(found["corrections"]) - other
    used = f"the last training had other labels of {count_noun(other, 'bag')}, and left out those of {left_out:,}"
    return f"about {100 * found['share']:.0f} % of {found['bags']:,}: {used}"


def _refit(result: dict[str, Any]) -> str | None:
    """
    >>> _refit({"refit_bags": 90})
    'on all 90 bags: that classifier is used for other bags and exported; the figures are those of the first one'
    """
    if "refit_bags" not in result:
        return None
    used = "that classifier is used for other bags and exported; the figures are those of the first one"
    return f"on all {result['refit_bags']:,} bags: {used}"


def _instance_labels(result: dict[str, Any]) -> str | None:
    """
    >>> _instance_labels({"used_instance_labels": 50})
    'those of 50 instances of training bags were used in training in addition to the bag labels; ...'
    """
    if "used_instance_labels" not in result:
        return None
    which = f"those of {count_noun(result['used_instance_labels'], 'instance')} of training bags"
    return f"{which} were used in training in addition to the bag labels; metrics exclude these instances"


def _views(result: dict[str, Any]) -> str | None:
    """The views that the bags chose for images of an unknown kind.

    >>> tried = [{"views": [], "val_loss": 1.8}, {"views": ["colour", "flip"], "val_loss": 1.7}]
    >>> _views({"views": {"chosen": ["colour", "flip"], "tried": tried, "validation_bags": 50}})
    'colour + flip (loss of 50 validation bags after a short pretraining: crops 1.800, colour + flip 1.700)'
    """
    if "views" not in result:
        return None
    views = result["views"]
    losses = ", ".join(f"{describe(one['views'])} {one['val_loss']:.3f}" for one in views["tried"])
    bags = f"loss of {views['validation_bags']} validation bags after a short pretraining"
    return f"{describe(views['chosen'])} ({bags}: {losses})"


def _background_share(result: dict[str, Any], config: dict[str, Any]) -> str | None:
    """
    >>> tried = [{"share": 0.06, "bag_accuracy": 0.9}, {"share": 0.25, "bag_accuracy": 0.8}]
    >>> _background_share({"background": {"share": 0.06, "tried": tried, "validation_bags": 50}}, {})
    '0.06, estimated (of 50 validation bags, right by count with each share: 0.06 90 %, 0.25 80 %)'
    """
    given, found = config.get("background_share"), result.get("background")
    if found is None:
        return None if given is None else f"{given:g}, given"
    tried = ", ".join(f"{one['share']:g} {100 * one['bag_accuracy']:.0f} %" for one in found["tried"])
    bags = f"of {found['validation_bags']} validation bags, right by count with each share"
    return f"{found['share']:g}, estimated ({bags}: {tried})"


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
