"""RUN/report.html: what was trained on what, how it went, and what the classifier makes of the bags."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from ..data.bags import Bags
from ..files import write_text
from ..inference.classifier import Classifier
from ..inference.metrics import coverage_note, no_learning_warning
from ..inference.reading import Reading, read
from ..plots.figures import box_plot, confusion_matrix, learning_curves
from ..recipes import RECIPES, TaskInfo
from ..recipes.plan import SHORTHANDS, flatten, settings_by_name
from ..sources import names
from ..sources.custom.names import join_names
from . import sections
from .templates import fill

REPORT = "report.html"
MATRIX_CLASSES = 150  # up to which the confusion matrix is drawn
FIGURES = {  # of a result: how it is called, how it is shown, what it says
    "instance_accuracy": ("instance accuracy", "share", "instances classified right"),
    "voter_accuracy": ("voter accuracy", "share", "of the instances that are not background"),
    "macro_f1": ("macro F1", "share", "mean over classes"),
    "mean_iou": ("mean IoU", "share", "mean over classes"),
    "bag_accuracy": ("bag accuracy", "share", "bags whose majority was predicted right"),
    "bag_accuracy_by_count": ("bag accuracy by count", "share", "by counting instance predictions"),
    "most_frequent_label": ("most frequent label", "share", "of bags have it: right without learning"),
    "consistency_rate": ("consistency", "share", "of bags predicted right, those whose counts agree"),
    "overestimation": ("overestimation", "signed", "instances of the bag's class too many, mean"),
    "background_share": ("background", "share", "of instances predicted as the background"),
    "background_precision": ("background precision", "share", "of those, truly background"),
    "background_recall": ("background recall", "share", "of the background's instances, found"),
    "calibration_error": ("calibration error", "share", "gap of confidence and accuracy"),
}
PART_NAMES = {"train": "training", "val": "validation", "test": "test"}


class RunFacts(NamedTuple):
    """What a run folder's files say."""

    config: dict
    result: dict
    history: list[dict]  # one record per epoch
    trained_on: bool  # whether the bags of the source that is reported on were trained on


def write_page(
    folder: Path,
    facts: RunFacts,
    classifier: Classifier,
    parts,
    opened=None,
    source: str | None = None,
    reading: Reading | None = None,
) -> Path:
    """Write the report of a finished run; `parts` are its bags: train, val and, where there are any, test.

    `opened` is the source that the bags are of: it knows the paths of its images. Where another `source` is named, the
    test bags are all that there are, and of that one: a page of its own. `reading` is of the test bags, or else of the
    validation bags, where these have been read already.
    """
    part = "val" if getattr(parts, "test", None) is None else "test"
    reading = reading or read(classifier, getattr(parts, part), opened)
    filters = {"share": _share, "signed": _signed, "number": lambda value: f"{value:,}"}
    page = fill("template.html.jinja", _content(facts, classifier, parts, part, reading, source), **filters)
    path = folder / REPORT if source is None else _place(folder, source)
    write_text(path, page)
    return path


def _content(facts: RunFacts, classifier: Classifier, parts, part: str, reading: Reading, source: str | None) -> dict:
    config, result = facts.config, facts.result
    called = PART_NAMES | ({} if source is None else {"test": str(Path(*_whole(source).parts[-2:]))})
    figures = result.get(part) or {}
    rows = called
    if source is not None:
        figures = reading.outcome().summary()
        rows = {part: f"{called[part]} (reported here)"}
    bags, classes = reading.bags, reading.classes
    data = config["data"]
    return {
        "title": " · ".join([Path(data["source"]).name, config["method"], *([] if source is None else [called[part]])]),
        "part": called[part],
        "source_mark": None if source is None else _mark(source),
        "trained_on": facts.trained_on,
        "background": None if reading.background is None else classes[reading.background],
        "about": _about(config, result, classifier),
        "command": command(config),
        "settings": _shown_settings(config),
        "parts": _parts(parts, rows),
        "figures": _figures(figures),
        "coverage": coverage_note(figures),
        "doubt": no_learning_warning(figures),
        "curves": _curves(facts.history, result["best_epoch"]),
        "kept": _kept(result),
        "classes": sections.class_keys(classes),
        "predicted_classes": sections.predicted_classes(reading),
        **_compared(reading),
        "wrong_bags": int((~reading.right).sum()),
        "bars": sections.bars(reading),
        "maps": sections.maps(reading) if bags.coordinates is not None else None,
        "mosaics": sections.mosaics(reading) if _images(bags) else None,
        "gallery": sections.gallery(reading) if _images(bags) else None,
        "never_predicted": [name for name, count in zip(classes, reading.counts.sum(axis=0), strict=True) if not count],
    }


def _compared(reading: Reading) -> dict:
    """Truth against prediction, by instance where the class of any is known, else by bag where bags have labels."""
    bags, known = reading.bags, reading.bags.instance_labels is not None
    matrix, classes = reading.confusion(), reading.true_classes
    further = [name for name, row in zip(classes, matrix, strict=True) if row.any() and name not in reading.classes]
    return {
        "known": known,
        "labelled": bags.labelled,
        "further": further,
        "unit": "instances" if known else "bags",
        "class_table": sections.class_table(matrix, classes),
        "confused": sections.most_confused(matrix, classes),
        "matrix": _matrix(matrix, classes, known),
        "boxes": _boxes(reading) if bags.labelled and bags.fully_known.any() else None,
        "boxes_left_out": max(0, len(set(bags.labels[bags.fully_known].tolist())) - sections.BOXES),
    }


# ---------------------------------------------------------------------- whose bags


def _whole(source: str) -> Path:
    """A name, or the whole path; a link stays one, as its images may lie beside it."""
    return Path(source if source in names() else os.path.abspath(Path(source).expanduser()))


def _mark(source: str) -> str:
    """What a page is known by as this source's; it tells nobody the path."""
    return hashlib.sha256(os.fsencode(_whole(source))).hexdigest()


def _place(folder: Path, source: str) -> Path:
    """The source's own page, or the first of report-STEM.html, report-STEM-2.html and so on that is no other's."""
    stem, numbers = f"report-{_whole(source).stem}", range(2, len([*folder.iterdir()]) + 3)
    places = [folder / f"{stem}.html", *(folder / f"{stem}-{number}.html" for number in numbers)]
    there = [place for place in places if place.exists()]
    own = [place for place in there if _mark(source) in place.read_text(encoding="utf-8", errors="replace")]
    return [*own, *(place for place in places if place not in there)][0]


# ---------------------------------------------------------------------- what was trained on what


def command(config: dict[str, Any]) -> str:
    """The `majority train` command that repeats the run.

    >>> command({"method": "count", "method_options": {}, "data": {"source": "my bags.csv", "fold": 1}, "plan": {}})
    "majority train 'my bags.csv' --method count --fold 1"
    """
    plan, data = config.get("plan", {}), dict(config["data"])
    data.pop("fingerprint", None)
    words = ["majority", "train", str(data.pop("source"))]
    options = {"method": config["method"], "recipe": plan.get("recipe"), "like": config.get("like")}
    options |= {"background_share": config.get("background_share"), "seed": plan.get("training", {}).get("seed")}
    settings = _settings_to_repeat(config)
    options |= {option: settings.pop(name) for option, name in SHORTHANDS.items() if settings.get(name) is not None}
    for name, value in (options | data).items():
        if value is None or value is False or value == []:
            continue
        shown = join_names(value) if isinstance(value, list) else str(value)
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [shown])]
    for name, value in config["method_options"].items():
        words += ["--option", f"{name}={value}"]
    for name, value in settings.items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    return shlex.join(words)


def _settings_to_repeat(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of the run's plan that its recipe does not set like this today; the seed has its own option."""
    plan = config.get("plan", {})
    if "task" not in config or plan.get("recipe") not in RECIPES:
        return dict(config.get("settings", {}))
    planned = settings_by_name(RECIPES[plan["recipe"]].plan(TaskInfo(**config["task"])).as_dict())
    used = settings_by_name(plan)
    changed = {name: value for name, value in used.items() if planned.get(name, value) != value}
    left_out = {name: None for name in used if used[name] is None and any(n.startswith(f"{name}.") for n in planned)}
    return {name: value for name, value in (changed | left_out).items() if not name.endswith(".seed")}


def _about(config: dict, result: dict, classifier: Classifier) -> dict[str, str]:
    data, plan, environment = config["data"], config["plan"], config["environment"]
    spec = classifier.model.spec
    shape = "×".join(map(str, spec.instance_shape))
    about = {
        "source": data["source"],
        "scenario": data.get("scenario"),
        "fold": data.get("fold"),
        "instances": f"images of {shape}" if spec.images else f"vectors of {shape} features",
        "classes": len(classifier.classes),
        "method": config["method"],
        "recipe": plan["recipe"],
        "backbone": spec.backbone or "a module of the caller's own",
        "epochs": f"{result['epochs']}, number {result['best_epoch']} (from 0) was kept",
        "stages": _stages(result),
        "training time": format_seconds(result["seconds"]),
        "seeds": f"{plan['training']['seed']} (weights, order), {data.get('data_seed', '–')} (data)",
        "made with": f"majority {environment['majority']}, torch {environment['torch']}, {environment['device']}",
    }
    return {name: str(value) for name, value in about.items() if value is not None}


def _parts(parts, called: dict[str, str]) -> list[dict]:
    rows = []
    for name, title in called.items():
        bags = getattr(parts, name, None)
        if bags is None:
            continue
        sizes, full = bags.sizes, bags.fully_known
        rows.append(
            {
                "name": title,
                "bags": len(bags),
                "instances": len(bags.index),
                "smallest": int(sizes.min()),
                "largest": int(sizes.max()),
                "majority": float(bags.subset(full).majority_proportions().mean()) if full.any() else None,
            }
        )
    return rows


def _figures(figures: dict) -> list[dict]:
    return [
        {"title": title, "value": _share(figures[name]) if how == "share" else _signed(figures[name]), "about": about}
        for name, (title, how, about) in FIGURES.items()
        if figures.get(name) is not None
    ]


# ---------------------------------------------------------------------- drawings


def _curves(history: list[dict], best_epoch: int) -> list[str]:
    if not history:
        return []
    line = lambda name: [record[name] for record in history]
    loss = {"training": line("train_loss"), "validation": line("val_loss")}
    right = {"training": line("train_bag_accuracy"), "validation": line("val_bag_accuracy")}
    return [learning_curves("Loss a bag", loss, best_epoch), learning_curves("Bags right", right, best_epoch, True)]


def _stages(result: dict) -> str | None:
    """
    >>> _stages({"stages": {"start": {"best_epoch": 199, "epochs": 200}, "last": {"best_epoch": 79, "epochs": 80}}})
    'start: epoch 199 of 200 kept; last: epoch 79 of 80 kept'
    """
    stages = result.get("stages", {}).items()
    return "; ".join(f"{name}: epoch {stage['best_epoch']} of {stage['epochs']} kept" for name, stage in stages) or None


def _kept(result: dict) -> str:
    """A last stage that notes its training loss kept its last epoch: it learned something else than bags' labels."""
    stages = [*result.get("stages", {}).values()]
    if stages and "train_loss" in stages[-1]:
        return (
            "The last epoch was kept. The training loss is of soft_labels, the validation loss of bags: heights differ."
        )
    return "The epoch with the lowest validation loss was kept."


def _matrix(matrix, classes: tuple[str, ...], known: bool) -> str | None:
    if len(classes) > MATRIX_CLASSES:
        return None
    rows, columns = ("true class", "predicted class") if known else ("bag label", "predicted label")
    return confusion_matrix(matrix, sections.brief(classes), rows, columns)


def _boxes(reading: Reading) -> str:
    axis = "predicted minus true number of instances of the bag's class"
    return box_plot(sections.overestimation_boxes(reading), axis)


def _images(bags: Bags) -> bool:
    return bags.store.ndim == 4


# ---------------------------------------------------------------------- numbers as text


def _share(value: float | None) -> str:
    """
    >>> _share(0.1234), _share(None)
    ('12.3 %', '–')
    """
    return "–" if value is None else f"{100 * value:.1f} %"


def _signed(value: float) -> str:
    return f"{value:+.2f}".replace("-", "−")


def format_seconds(seconds: float) -> str:
    """
    >>> time_said(0.07), time_said(75), time_said(7322)
    ('0.07 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _shown_settings(config: dict) -> dict[str, str]:
    """Every setting of a run; hashes of the data are left out, and where they lay."""
    named = [
        (name, value) for name, value in flatten(config).items() if not name.endswith(("fingerprint", "source_path"))
    ]
    return {name: "–" if value is None else str(value) for name, value in named}
