"""RUN/model-card.md: what a classifier was trained on, how, how good it is, and what it is not for.

`card_facts` are the same facts as plain values, for the page of a run and the metadata of an exported model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...data.bags import Bags
from ...files import write_text
from ...predict.classifier import Classifier
from ...predict.metrics import coverage_note
from ..record import RunRecord
from .blocks import corrected_labels, fill

MODEL_CARD = "model-card.md"
SHOWN = ("instance_accuracy", "macro_f1", "bag_accuracy", "most_frequent_label", "calibration_error")


def card_facts(record: RunRecord, result: dict[str, Any], classifier: Classifier) -> dict[str, Any]:
    """Data, method and figures of a finished run; no paths of this machine."""
    spec, data, embedding = classifier.model.spec, record.run.facts_of_bags(), record.embedding
    files = {name: Path(path).name for name in ("model", "weights") if (path := getattr(embedding, name, None))}
    figures = result.get("test") or result.get("val") or {}
    known = figures.get("known_instances", figures.get("instances", 0))  # recorded where it is not all
    return {
        "source": Path(data["source"]).name,
        "scenario": data.get("scenario"),
        "instances": {"kind": "images" if spec.images else "vectors", "shape": list(spec.instance_shape)},
        "classes": list(spec.classes),
        "background": None if spec.background is None else spec.classes[spec.background.index],
        "method": record.run.method,
        "recipe": record.plan.recipe,
        "sees_instance_labels": result.get("sees_instance_labels", False),
        "used_instance_labels": result.get("used_instance_labels", 0),
        "refit_bags": result.get("refit_bags", 0),
        "bag_losses": result.get("losses", {}).get("weights"),
        "corrected_labels": corrected_labels(data),
        "seed": record.run.seed,
        "embedding": embedding and embedding._asdict() | files,
        "figures": {
            "bags": "test" if result.get("test") else "validation",
            "n_bags": figures.get("bags"),
            "n_instances": figures.get("instances"),
            "n_known_instances": 0 if figures.get("instance_accuracy") is None else known,
        }
        | {name: figures[name] for name in SHOWN if figures.get(name) is not None},
        "majority": record.environment.majority,
    }


def write_model_card(folder: Path, facts: dict[str, Any], result: dict[str, Any], parts: Mapping[str, Bags]) -> None:
    figures = result.get("test") or result.get("val") or {}
    notes = (*figures.get("warnings", ()), *result.get("warnings", ()), coverage_note(figures))
    about = {
        "parts": parts,
        "weighted": any(bags.weights is not None for bags in parts.values()),
        "lines": result.get("lines", {}),
        "shown": SHOWN,
        "notes": [*filter(None, notes)],
    }
    write_text(folder / MODEL_CARD, fill(f"{MODEL_CARD}.jinja", facts | about))
