"""RUN/model-card.md: what a classifier was trained on, how, how good it is, and what it is not for.

`card_facts` are the same facts as plain values, for the metadata of an exported model.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...data.bags import Bags
from ...errors import count_noun
from ...files import write_text
from ...nn.methods import AUTO
from ...predict.classifier import Classifier
from ...predict.metrics import coverage_note
from ..record import RunRecord
from .about import corrected_labels

MODEL_CARD = "model-card.md"
FIGURES = {
    "instance_accuracy": "instance accuracy",
    "macro_f1": "macro F1 over instances",
    "bag_accuracy": "bag accuracy: bags whose most frequent predicted class is the label",
    "most_frequent_label": "the same by always predicting the most frequent label",
    "calibration_error": "calibration error of the probabilities",
}
LIMITS = (
    "Two classes that are always about equally frequent in the bags, or that are "
    "never the most common one, cannot be told apart from the labels of bags.",
    "Probabilities rank instances; they need not match observed frequencies.",
    "The figures hold for bags like those of the table above. Check the classifier on your own data before you rely "
    "on it, above all for decisions about people.",
)


def card_facts(record: RunRecord, result: dict[str, Any], classifier: Classifier) -> dict[str, Any]:
    """Data, method and figures of a finished run; no paths of this machine."""
    spec, data, embedding = classifier.model.spec, record.run.facts_of_bags(), record.embedding
    part = "test" if result.get("test") else "val"
    figures = result.get(part) or {}
    return {
        "source": Path(data["source"]).name,
        "scenario": data.get("scenario"),
        "instances": {"kind": "images" if spec.images else "vectors", "shape": list(spec.instance_shape)},
        "classes": list(spec.classes),
        "background": None if spec.background is None else spec.classes[spec.background.index],
        "method": record.method,
        "recipe": record.plan.recipe,
        "sees_instance_labels": result.get("sees_instance_labels", False),
        "used_instance_labels": result.get("used_instance_labels", 0),
        "refit_bags": result.get("refit_bags", 0),
        "bag_losses": result.get("losses", {}).get("weights"),
        "corrected_labels": corrected_labels(data),
        "seed": record.run.seed,
        "embedding": None if embedding is None else embedding._asdict() | _without_folders(embedding._asdict()),
        "figures": {
            "bags": {"test": "test", "val": "validation"}[part],
            "n_bags": figures.get("bags"),
            "n_instances": figures.get("instances"),
            "n_known_instances": _count_known(figures),
        }
        | {name: figures[name] for name in FIGURES if figures.get(name) is not None},
        "majority": record.environment.majority,
    }


def _count_known(figures: dict[str, Any]) -> int:
    """The instances of known class, which the accuracy is about; their number is recorded where it is not all."""
    if figures.get("instance_accuracy") is None:
        return 0
    return figures.get("known_instances", figures.get("instances", 0))


def write_model_card(
    folder: Path, record: RunRecord, result: dict[str, Any], classifier: Classifier, parts: Mapping[str, Bags]
) -> Path:
    facts = card_facts(record, result, classifier)
    figures = result.get("test") or result.get("val") or {}
    warnings = (*figures.get("warnings", ()), *result.get("warnings", ()))
    notes = [note for note in (*warnings, coverage_note(figures)) if note]
    sections = {
        "Use": _use(facts),
        "Data": _data(facts, parts),
        "Labels": _labels(facts, parts),
        "Method": _method(facts, result.get("lines", {})),
        "Figures": _figures(facts),
        "Limits": [f"- {line}" for line in (*LIMITS, *notes)],
    }
    lines = [f"# Model card: {facts['source']}" + ("" if facts["method"] == AUTO else f", {facts['method']}")]
    for title, content in sections.items():
        lines += ["", f"## {title}", "", *content]
    path = folder / MODEL_CARD
    write_text(path, "\n".join(lines) + "\n")
    return path


def _use(facts: dict[str, Any]) -> list[str]:
    shape = "x".join(map(str, facts["instances"]["shape"]))
    kind = f"images of {shape}" if facts["instances"]["kind"] == "images" else f"vectors of {shape} numbers"
    lines = [f"Classifies single instances ({kind}) as one of {len(facts['classes'])} classes: `majority predict`."]
    if facts["embedding"] is not None:
        model = facts["embedding"]
        sides = "x".join(map(str, model["image_size"]))
        hashed = f"sha256 {model['sha256']}"
        lines.append(f"The vectors are features of images of {sides} by the model `{model['model']}` ({hashed}).")
    return lines


def _data(facts: dict[str, Any], parts: Mapping[str, Bags]) -> list[str]:
    scenario = "" if facts["scenario"] is None else f", benchmark bags of the scenario {facts['scenario']}"
    rows = [f"Source: `{facts['source']}`{scenario}.", "", "| part | bags | instances | sizes |", "|---|---|---|---|"]
    for name, bags in parts.items():
        sizes = f"{bags.sizes.min():,} to {bags.sizes.max():,}"
        rows.append(f"| {name} | {len(bags):,} | {len(bags.index):,} | {sizes} |")
    return rows


def _labels(facts: dict[str, Any], parts: Mapping[str, Bags]) -> list[str]:
    weighted = any(bags.weights is not None for bags in parts.values())
    winner = "the class with the largest sum of the weights" if weighted else "the most common class"
    lines = [f"The label of a bag is {winner} of its instances. Classes:", ""]
    lines += [f"- {name}" for name in facts["classes"]]
    others = [f"- {name}: {text}" for name, bags in parts.items() if (text := bags.bag_labels.describe_other_kinds())]
    if others:
        lines += ["", "Labels that say less or more (of several classes, any counts as right):", "", *others]
    if facts["background"] is not None:
        lines += ["", f"Instances of {facts['background']} are not counted."]
    if facts["corrected_labels"] is not None:
        lines += ["", f"Corrected labels of bags: {facts['corrected_labels']}."]
    used = facts["used_instance_labels"]
    if facts["sees_instance_labels"]:
        return [*lines, "", "Training saw the labels of all instances: this is a reference method."]
    if not used:
        return [*lines, "", "Training saw the labels of bags only."]
    seen = f"Training saw the labels of bags, and those of {count_noun(used, 'instance')} of training bags"
    return [*lines, "", f"{seen}; these instances are left out of all figures."]


def _method(facts: dict[str, Any], described: dict[str, str]) -> list[str]:
    made_with = f"seed {facts['seed']}, majority {facts['majority']}"
    several = "Several bag losses, weighted (method `auto`, the default)"
    method = several if facts["method"] == AUTO else f"Method `{facts['method']}`"
    lines = [f"{method}, recipe `{facts['recipe']}`, {made_with}."]
    return [*lines, *([""] if described else []), *(f"- {title}: {text}" for title, text in described.items())]


def _figures(facts: dict[str, Any]) -> list[str]:
    figures = facts["figures"]
    n = f"{figures['n_bags']:,} {figures['bags']} bags with {figures['n_instances']:,} instances"
    lines = [f"On {n}, {figures['n_known_instances']:,} of known class.", ""]
    if figures["bags"] == "validation":
        lines += ["The epoch was chosen on these bags, so the figures are slightly optimistic.", ""]
    if facts["refit_bags"]:
        lines += [
            f"The classifier for other bags was trained once more, on all {facts['refit_bags']:,} bags.",
            "The figures are those of the first one, which was not trained on the labels of these bags.",
            "",
        ]
    lines += ["| figure | value |", "|---|---|"]
    return lines + [f"| {title} | {figures[name]:.3f} |" for name, title in FIGURES.items() if name in figures]


def _without_folders(embedding: dict[str, Any]) -> dict[str, Any]:
    files = {name: embedding[name] for name in ("model", "weights")}
    return {name: None if value is None else Path(value).name for name, value in files.items()}
