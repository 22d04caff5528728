"""RUN/report.html: the data, the training, and the predictions for the test bags of a run; and the page of a review."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...data.bags import Bags
from ...errors import InputError
from ...fields import from_json
from ...files import CURE, read_json, user_path, write_text
from ...io import Source, names
from ...io.metrics import summary_with_intervals
from ...log import Log, no_log
from ...predict.audit_figures import AuditFigures
from ...predict.classifier import Classifier
from ...predict.evaluate import predict
from ...predict.metrics import Margins, class_rates, coverage_note, in_order
from ...predict.predictions import Predictions
from ...training.checkpoint import METRICS, read_history
from ..folder import finished_file, is_trained_on, read_config
from ..record import RESULT, read_result
from ..reopen import open_bags, reopen
from ..review import Review, review_labels
from . import sections
from .blocks import REPORT, Section, able, macros, page
from .figures import learning_curves
from .model_card import card_facts, write_model_card

AUDIT_FIGURES = "audit-figures.json"  # in a run folder, after an audit of its own bags
PART_NAMES = {"train": "training", "val": "validation", "test": "test"}


def report_run(
    folder: str | Path,
    device: str = "auto",
    source: str | None = None,
    log: Log = no_log,
    columns: dict[str, Any] | None = None,
) -> Path:
    """Write RUN/report.html of a finished run; or, with another source, RUN/report-SOURCE.html about its bags.

    The bags of another source need no labels: the page then shows the predictions, and no accuracy. Returns the path of
    the page.
    """
    folder = Path(folder)
    finished_file(folder, RESULT)
    if source is None:
        classifier, parts, opened = reopen(folder, device=device)
        return write_report(folder, classifier, parts.present(), opened)
    classifier, bags, opened = open_bags(
        folder, source, labels=True, unlabelled=True, columns=columns, device=device, log=log
    )
    (others,) = bags.values()
    if not others.labelled:
        accuracy = "no accuracy" if others.instance_labels is None else "the accuracy of instances only"
        log(f"note: {source} has no bag labels: the page shows the predictions and {accuracy}")
    return write_report(folder, classifier, {"test": others}, opened, source)


def write_report(
    folder: Path,
    classifier: Classifier,
    parts: Mapping[str, Bags],
    opened: Source | None = None,
    source: str | None = None,
    predictions: Predictions | None = None,
) -> Path:
    """Write the page and the model card of a finished run, about its test bags or, if it has none, its validation bags.

    `opened` is the source of the bags; it knows the paths of images. If another `source` is named, its bags are the
    test bags, and they get a page of their own. `predictions` saves a pass over these bags if there are predictions
    for them already.
    """
    record, result, part = read_config(folder), read_result(folder), "test" if "test" in parts else "val"
    predictions = predictions or predict(classifier.model, parts[part], classifier.device)
    path, name = folder / REPORT, PART_NAMES[part]
    title = f"{Path(record.run.bags.source).name} · {record.run.method}"
    figures = result.get(part) or {}
    if source is not None:
        place = Path(source) if source in names() else user_path(source).absolute()
        path, name = folder / f"report-{place.stem}.html", str(Path(*place.parts[-2:]))
        title, figures = f"{title} · {name}", summary_with_intervals(predictions)
    review, own = review_labels({PART_NAMES[part]: predictions}, opened), source is None
    doubtful = sum(one.is_probable for one in review.suspicions)
    kind = "validation bags" if part == "val" else "held-out bags" if own else "bags"
    about = {
        "name": name,
        "own": own,
        "part": PART_NAMES[part],
        "run": folder.resolve().name,  # no path of this machine
        "able": able(figures, kind, result.get("baseline") if own else None),
        "bags": predictions.bags,
        "predictions": predictions,
        "coverage": coverage_note(figures),
        "doubtful": doubtful,
        "figures": in_order(figures),
        "result": result,
        "trained_on": source is not None and is_trained_on(record, source),
    }
    html = macros("run")
    shown = [Section("figures", "Results", html.results_title(about), html.results(about))]
    if own and (folder / AUDIT_FIGURES).is_file():
        place, cure = folder / AUDIT_FIGURES, "repeat `majority audit --answers`"
        audit = from_json(AuditFigures, read_json(place, cure), place, cure)
        shown.append(Section("audit", "Audit", "Audit", html.audit(audit)))
    shown += _sections_of_bags(predictions, review, doubtful, name)
    titles = PART_NAMES if own else {part: f"{name} (this page)"}
    before = [row for row in result.get("parts", []) if row["name"] != "test" and not own]
    command = record.run.as_command()
    rows = before + part_rows(parts, titles)
    facts = card_facts(record, result, classifier)
    of_run = html.run(facts, record, classifier.model.spec.backbone, result, rows, command)
    shown += [Section("run", "Run", "The run", of_run)]
    history, kept = read_history(folder / METRICS), result["best_epoch"] + 1
    if history and len(history) < kept:
        raise InputError(f"{folder / METRICS} has {len(history)} epochs, and epoch {kept} of the run was kept: {CURE}")
    shown += [Section("curves", "Curves", "Learning curves", _curves(history, result, own))]
    content = page("run", title, shown)
    if own:
        write_model_card(folder, facts, result, parts)
    write_text(path, content)  # last: a finished run has it
    return path


def _sections_of_bags(predictions: Predictions, review: Review, doubtful: int, name: str) -> Iterator[Section]:
    html, bags = macros("run"), predictions.bags
    if bags.labelled or bags.instance_labels is not None:
        by = "bags" if bags.instance_labels is None else "instances"
        yield Section("classes", "Classes", f"Classes, by {by}", _classes(predictions, by))
    if doubtful:
        content = html.doubtful(sections.suspicious(review)[:doubtful], doubtful, name)
        yield Section("suspicious", "Labels", "Labels that the counts contradict", content)
    yield Section("filter", "", "", html.filter(predictions.classes, bags.labelled))
    shown = sections.bag_views(predictions, review.source)
    yield Section("bags", "Bags", "Bags: instances by predicted class", html.bars(shown, predictions, name))
    if bags.store.ndim == 4:
        yield Section("mosaics", "Mosaics", "Bags as mosaics", html.mosaics(shown, predictions))
    if bags.coordinates is not None:
        yield Section("maps", "Maps", "Bags as maps", html.maps(shown, predictions))
    if bags.store.ndim == 4:
        never = [name for name, n in zip(predictions.classes, predictions.counts.sum(axis=0), strict=True) if not n]
        title = "Gallery: most and least confident predictions of each class"
        content = html.gallery(sections.gallery(predictions, review.source), never, predictions)
        yield Section("gallery", "Gallery", title, content)


def _classes(predictions: Predictions, by: str) -> str:
    matrix, classes = predictions.confusion, predictions.true_classes
    shown = [i for i, row in enumerate(matrix) if i < len(predictions.classes) or row.any()]
    matrix, classes = matrix[shown][:, shown], tuple(classes[i] for i in shown)
    margins, short = Margins.of(matrix), sections.without_common_prefix(classes)
    trained = len(predictions.classes)
    unknown = (classes[trained:], matrix[trained:].sum() / max(1, matrix.sum()))
    confused = sections.most_confused(matrix, classes)
    return macros("run").classes(classes, short, matrix.tolist(), unknown, by, margins, class_rates(margins), confused)


def part_rows(parts: Mapping[str, Bags], part_names: dict[str, str] = PART_NAMES) -> list[dict[str, Any]]:
    """The number of bags and instances of each part, their sizes and their mean majority."""
    rows = []
    for name, title in part_names.items():
        if (bags := parts.get(name)) is not None:
            full, labels = bags.fully_known, bags.bag_labels.describe_other_kinds()
            row = {
                "name": title,
                "bags": len(bags),
                "instances": len(bags.index),
                "smallest": int(bags.sizes.min()),
                "largest": int(bags.sizes.max()),
                "majority": float(bags.subset(full).majority_proportions().mean()) if full.any() else None,
            }
            rows.append(row | ({"labels": labels} if labels else {}))
    return rows


def _curves(history: list[dict[str, Any]], result: dict[str, Any], own: bool) -> str:
    """Nothing if no bags were validated."""
    if not history or not all("val_loss" in epoch and "val_bag_accuracy" in epoch for epoch in history):
        return ""

    drawings, kept = [], result["best_epoch"] + 1
    for title, name in (("Loss per bag", "loss"), ("Bag accuracy", "bag_accuracy")):
        train, val = ([epoch[key] for epoch in history if key in epoch] for key in (f"train_{name}", f"val_{name}"))
        curves = {"training": train, "validation": val}
        drawings.append(learning_curves(title, curves, kept, percent=name != "loss"))
    stages = [*result.get("stages", {}).values()]
    soft_labels = bool(stages) and "train_loss" in stages[-1]  # such a stage keeps its last epoch
    return macros("run").history(drawings, soft_labels, own)


def write_review_page(path: Path, review: Review) -> Path:
    """The bags whose label the counts contradict, with their pictures."""
    content = macros("run").review(sections.suspicious(review), review, path.stem)
    write_text(path, page("review", path.stem, [Section("suspicious", "", "Labels to look at", content)]))
    return path
