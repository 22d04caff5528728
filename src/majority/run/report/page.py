"""RUN/report.html: the data, the training, and the predictions for the test bags of a run."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...data.bags import Bags
from ...files import flatten, read_json, write_text
from ...io import Source, names
from ...io.metrics import summary_with_intervals
from ...predict.classifier import Classifier
from ...predict.metrics import coverage_note
from ..classified_bags import ClassifiedBags, classify_bags
from ..plots.figures import box_plot, confusion_matrix, learning_curves
from ..record import RunRecord
from ..review import review_labels
from . import sections
from .about import about_run
from .command import train_command
from .templates import fill

REPORT = "report.html"
AUDIT_FIGURES = "audit-figures.json"  # in a run folder, after an audit of its own bags
MAX_MATRIX_CLASSES = 150  # with more classes, no confusion matrix is drawn
SURPLUS = "predicted minus true number of instances of the bag's class"
FIGURES = {  # of a result: title, format, explanation
    "instance_accuracy": ("instance accuracy", "percent", "instances classified correctly"),
    "weighted_accuracy": (
        "weighted accuracy",
        "percent",
        "the same by weight, not by number",
    ),
    "voter_accuracy": ("voter accuracy", "percent", "the same without the background's instances"),
    "macro_f1": ("macro F1", "percent", "mean F1 score over classes"),
    "mean_iou": ("mean IoU", "percent", "mean intersection over union over classes"),
    "bag_accuracy": ("bag accuracy", "percent", "bags whose most frequent predicted class is the label"),
    "method_bag_accuracy": (
        "bags right by the method itself",
        "percent",
        "bags whose label the method predicts correctly; it need not count predicted classes",
    ),
    "runner_up_accuracy": (
        "winner and runner-up by count",
        "percent",
        "bags whose two most frequent predicted classes are the winner and the runner-up, of those with a runner-up",
    ),
    "most_frequent_label": ("most frequent label", "percent", "bag accuracy of always predicting it"),
    "consistency_rate": (
        "consistency",
        "percent",
        "bags whose count agrees, of those right by the method itself",
    ),
    "overestimation": ("overestimation", "signed", "mean surplus of instances predicted as the bag's class"),
    "background_share": ("background", "percent", "instances predicted as background"),
    "background_precision": ("background precision", "percent", "background instances, of those predicted as it"),
    "background_recall": ("background recall", "percent", "background instances that are predicted as it"),
    "calibration_error": ("calibration error", "percent", "mean gap between confidence and accuracy"),
}
COUNTED = {"instance_accuracy": "instances", "bag_accuracy": "bags", "method_bag_accuracy": "bags"}
PART_NAMES = {"train": "training", "val": "validation", "test": "test"}


class RunFacts(NamedTuple):
    """The contents of a run folder."""

    record: RunRecord
    result: dict[str, Any]
    history: list[dict[str, Any]]  # one record per epoch
    trained_on: bool  # whether the run was trained on bags of the reported source


def write_page(
    folder: Path,
    facts: RunFacts,
    classifier: Classifier,
    parts: Mapping[str, Bags],  # train, val, test; not every run has all of them
    opened: Source | None = None,
    source: str | None = None,
    classified: ClassifiedBags | None = None,
) -> Path:
    """Write the report of a finished run about its test bags, or about its validation bags if it has no test bags.

    `opened` is the source of the bags; it knows the paths of images. If another `source` is named, its bags are the
    test bags, and they get a separate page. `classified` saves a pass over these bags if there are predictions
    for them already.
    """
    part = "test" if "test" in parts else "val"
    classified = classified or classify_bags(classifier, parts[part], opened)
    content = _content(facts, classifier, parts, part, classified, source)
    content["suspicious"] = sections.suspicious(review_labels({part: classified}))
    audit = folder / AUDIT_FIGURES
    audited = source is None and audit.is_file()
    content["audit"] = read_json(audit, "repeat `majority audit --answers`") if audited else None
    content["part_names"] = PART_NAMES | ({} if source is None else {part: content["part"]})
    page = fill("template.html.jinja", "run", content | _script(), _sections(content), filters=FILTERS)
    path = folder / REPORT if source is None else _page_path(folder, source)
    write_text(path, page)
    return path


def _sections(content: dict[str, Any]) -> dict[str, str]:
    """The anchors and names of the sections that the page has."""
    audit = {"audit": "Audit"} if content["audit"] else {}
    always = audit | {"run": "Run", "curves": "Curves"}
    classes = {"classes": "Classes"} if content["labelled"] or content["known"] else {}
    labels = {"suspicious": "Labels"} if content["suspicious"].total else {}
    pictures = [name for name in ("mosaics", "maps", "gallery") if content[name]]
    return always | classes | {"bags": "Bags"} | labels | {name: name.capitalize() for name in pictures}


def _script() -> dict[str, Any]:
    """The script of the page, and its hash: the page allows no other script and no inline event handler."""
    from markupsafe import Markup

    text = (files(__package__) / "script.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return {"script": Markup(text), "script_hash": Markup(f"sha256-{digest}")}


def _content(
    facts: RunFacts,
    classifier: Classifier,
    parts: Mapping[str, Bags],
    part: str,
    classified: ClassifiedBags,
    source: str | None,
) -> dict[str, Any]:
    record, result = facts.record, facts.result
    bags, classes = classified.bags, classified.classes
    part_name, part_names = PART_NAMES[part], PART_NAMES
    figures = result.get(part) or {}
    title = [Path(record.run.bags.source).name, record.method]
    if source is not None:
        part_name = str(Path(*_absolute(source).parts[-2:]))
        part_names = {part: f"{part_name} (this page)"}
        figures = summary_with_intervals(classified.outcome())
        title.append(part_name)
    has_images = bags.store.ndim == 4
    return {
        "title": " · ".join(title),
        "part": part_name,
        "source_hash": None if source is None else _source_hash(source),
        "trained_on": facts.trained_on,
        "refit_bags": result.get("refit_bags") if source is None else None,
        "background": None if classified.background is None else classes[classified.background],
        "about": about_run(record, result, classifier, result.get("lines", {})),
        "command": train_command(record),
        "settings": _all_settings(record),
        "parts": [*_rows_of_the_run(result, source), *part_rows(parts, part_names)],
        "figures": _figures(figures),
        "coverage": coverage_note(figures),
        "weighted": bags.weights is not None,
        "warnings": [*figures.get("warnings", []), *result.get("warnings", ())],
        "curves": _curves(facts.history, result["best_epoch"]),
        "kept": _why_kept(result),
        "classes": sections.class_keys(classes),
        "predicted_classes": sections.predicted_classes(classified),
        **_truth_and_prediction(classified),
        "wrong_bags": int((bags.bag_labels.known & ~classified.right).sum()),
        "labelled_bags": int(bags.bag_labels.known.sum()),
        "bars": sections.bars(classified),
        "maps": sections.maps(classified) if bags.coordinates is not None else None,
        "mosaics": sections.mosaics(classified) if has_images else None,
        "gallery": sections.gallery(classified) if has_images else None,
        "never_predicted": [
            name for name, count in zip(classes, classified.counts.sum(axis=0), strict=True) if not count
        ],
    }


def _truth_and_prediction(classified: ClassifiedBags) -> dict[str, Any]:
    """The comparison of classes: by instance if the class of any instance is known, otherwise by bag."""
    bags, known = classified.bags, classified.bags.instance_labels is not None
    matrix, classes = classified.confusion(), classified.true_classes
    unknown = [name for name, row in zip(classes, matrix, strict=True) if row.any() and name not in classified.classes]
    boxed = bags.fully_known & bags.bag_labels.named
    return {
        "known": known,
        "labelled": bags.labelled,
        "unknown_classes": unknown,
        "unit": "instances" if known else "bags",
        "class_table": sections.class_table(matrix, classes),
        "confused": sections.most_confused(matrix, classes),
        "matrix": _matrix(matrix, classes, known),
        "boxes": box_plot(sections.overestimation_boxes(classified), SURPLUS) if boxed.any() else None,
        "boxes_left_out": max(0, len(set(bags.labels[boxed].tolist())) - sections.MAX_BOXES),
    }


# ---------------------------------------------------------------------- the page of another source


def _absolute(source: str) -> Path:
    """The name of a source, or its absolute path; links are not followed, because images may lie next to a link."""
    return Path(source if source in names() else os.path.abspath(Path(source).expanduser()))


def _source_hash(source: str) -> str:
    """Identifies the page of a source without telling its path."""
    return hashlib.sha256(os.fsencode(_absolute(source))).hexdigest()


def _page_path(folder: Path, source: str) -> Path:
    """The existing page of this source, or the first of report-STEM.html, report-STEM-2.html, ... that is free."""
    stem, numbers = f"report-{_absolute(source).stem}", range(2, len([*folder.iterdir()]) + 3)
    paths = [folder / f"{stem}.html", *(folder / f"{stem}-{number}.html" for number in numbers)]
    existing = [path for path in paths if path.exists()]
    pages = [path for path in existing if path.is_file()]
    own = [path for path in pages if _source_hash(source) in path.read_text(encoding="utf-8", errors="replace")]
    return [*own, *(path for path in paths if path not in existing)][0]


# ---------------------------------------------------------------------- the run


def _rows_of_the_run(result: dict[str, Any], source: str | None) -> list[dict[str, Any]]:
    """On the page of another source: the bags that the run was trained and validated on."""
    if source is None:
        return []
    return [row for row in result.get("parts", []) if row["name"] != PART_NAMES["test"]]


def part_rows(parts: Mapping[str, Bags], part_names: dict[str, str] = PART_NAMES) -> list[dict[str, Any]]:
    """The number of bags and instances of each part, their sizes and their mean majority."""
    rows = []
    for name, title in part_names.items():
        bags = parts.get(name)
        if bags is None:
            continue
        sizes, full, labels = bags.sizes, bags.fully_known, bags.bag_labels.describe_other_kinds()
        rows.append(
            {
                "name": title,
                "bags": len(bags),
                "instances": len(bags.index),
                "smallest": int(sizes.min()),
                "largest": int(sizes.max()),
                "majority": float(bags.subset(full).majority_proportions().mean()) if full.any() else None,
                **({"labels": labels} if labels else {}),
            }
        )
    return rows


def _figures(figures: dict[str, Any]) -> list[dict[str, str]]:
    formats, intervals = {"percent": _percent, "signed": _signed}, figures.get("intervals", {})
    return [
        {
            "title": title,
            "value": formats[style](figures[name]),
            "interval": " to ".join(map(formats[style], intervals.get(name, ()))),
            "about": _count(figures, name) + about,
        }
        for name, (title, style, about) in FIGURES.items()
        if figures.get(name) is not None
    ]


def _count(figures: dict[str, Any], name: str) -> str:
    """How many of how many, for a share of instances or bags.

    >>> _count({"bag_accuracy": 0.95, "bags": 20}, "bag_accuracy")
    '19 of 20 '
    """
    if name not in COUNTED:
        return ""
    total = figures[COUNTED[name]]
    total = figures.get("known_instances" if name == "instance_accuracy" else "labelled_bags", total)
    return f"{round(figures[name] * total):,} of {total:,} "


def _all_settings(record: RunRecord) -> dict[str, str]:
    """Every setting of a run, without hashes and paths of the data."""
    left_out = ("fingerprint", "source_path", "embedding.model", "embedding.weights")
    options = record.run.options()
    if "corrections" in options:
        options["corrections"] = len(options["corrections"])
    settings = flatten(record.as_json() | {"run": options})
    names = [name for name in settings if not name.endswith(left_out)]
    return {name: "–" if settings[name] is None else str(settings[name]) for name in names}


# ---------------------------------------------------------------------- drawings


def _curves(history: list[dict[str, Any]], best_epoch: int) -> list[str]:
    if not history or not all("val_loss" in record and "val_bag_accuracy" in record for record in history):
        return []
    parts = {"training": "train", "validation": "val"}
    loss = {title: [record[f"{part}_loss"] for record in history] for title, part in parts.items()}
    accuracy = {title: [record[f"{part}_bag_accuracy"] for record in history] for title, part in parts.items()}
    return [
        learning_curves("Loss per bag", loss, best_epoch),
        learning_curves("Bag accuracy", accuracy, best_epoch, percent=True),
    ]


def _why_kept(result: dict[str, Any]) -> str:
    """Which epoch was kept. A last stage that records its training loss learned soft labels and kept its last epoch."""
    stages = [*result.get("stages", {}).values()]
    if stages and "train_loss" in stages[-1]:
        return (
            "The last epoch was kept. The training loss is that of soft labels and the validation loss that of bag "
            "labels, so they cannot be compared."
        )
    return "The epoch with the lowest validation loss was kept."


def _matrix(matrix: np.ndarray, classes: tuple[str, ...], known: bool) -> str | None:
    if len(classes) > MAX_MATRIX_CLASSES:
        return None
    rows, columns = ("true class", "predicted class") if known else ("bag label", "predicted label")
    return confusion_matrix(matrix, sections.without_common_prefix(classes), rows, columns)


# ---------------------------------------------------------------------- numbers as text


def _percent(value: float | None) -> str:
    """
    >>> _percent(0.1234), _percent(None)
    ('12.3 %', '–')
    """
    return "–" if value is None else f"{100 * value:.1f} %"


def _percent_with_interval(found: dict[str, float] | None) -> str:
    """
    >>> _percent_with_interval({"value": 0.9, "low": 0.85, "high": 0.934}), _percent_with_interval(None)
    ('90.0 % (85.0 % to 93.4 %)', '–')
    """
    if found is None:
        return "–"
    value, low, high = (f"{100 * found[name]:.1f} %" for name in ("value", "low", "high"))
    return f"{value} ({low} to {high})"


def _signed(value: float | None) -> str:
    """
    >>> _signed(1.25), _signed(-0.5)
    ('+1.25', '−0.50')
    """
    return "–" if value is None else f"{value:+.2f}".replace("-", "−")


def _number(value: int) -> str:
    """
    >>> _number(12345)
    '12,345'
    """
    return f"{value:,}"


FILTERS: dict[str, Callable[..., str]] = {
    "percent": _percent,
    "signed": _signed,
    "number": _number,
    "estimate": _percent_with_interval,
}
