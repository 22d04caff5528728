"""RUN/report.html: the data, the training, and the predictions for the test bags of a run."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...data.bags import Bags
from ...errors import count_noun
from ...files import flatten, user_path, write_text
from ...io import Source, names
from ...io.metrics import summary_with_intervals
from ...predict.classifier import Classifier
from ...predict.metrics import coverage_note
from ..classified_bags import ClassifiedBags, classify_bags
from ..headline import in_order
from ..plots.figures import Curve, confusion_matrix, learning_curves
from ..record import RunRecord
from ..review import Review, review_labels
from . import sections
from .about import REPORT, about_run
from .audit import audit_blocks
from .blocks import (
    NOTHING,
    Block,
    Card,
    Cards,
    Columns,
    Command,
    Details,
    Drawings,
    Facts,
    Filter,
    Heading,
    Lead,
    Note,
    Section,
    Table,
    markup,
    number,
    percent,
    signed,
    write_html,
)
from .command import train_command
from .verdict import verdict

MAX_MATRIX_CLASSES = 150  # with more classes, no confusion matrix is drawn
SIGNED = ("overestimation",)  # figures that are not shares
FIGURES = {  # of a result: title, explanation
    "instance_accuracy": ("instance accuracy", "instances classified correctly"),
    "weighted_accuracy": ("weighted accuracy", "the same by weight, not by number"),
    "voter_accuracy": ("voter accuracy", "the same without the background's instances"),
    "macro_f1": ("macro F1", "mean F1 score over classes"),
    "mean_iou": ("mean IoU", "mean intersection over union over classes"),
    "bag_accuracy": ("bag accuracy", "bags whose most frequent predicted class is the label"),
    "method_bag_accuracy": (
        "bags right by the method itself",
        "bags whose label the method predicts correctly; it need not count predicted classes",
    ),
    "runner_up_accuracy": (
        "winner and runner-up by count",
        "bags whose two most frequent predicted classes are the winner and the runner-up, of those with a runner-up",
    ),
    "most_frequent_label": ("most frequent label", "bag accuracy of always predicting it"),
    "consistency_rate": ("consistency", "bags whose count agrees, of those right by the method itself"),
    "overestimation": ("overestimation", "mean surplus of instances predicted as the bag's class"),
    "background_share": ("background", "instances predicted as background"),
    "background_precision": ("background precision", "background instances, of those predicted as it"),
    "background_recall": ("background recall", "background instances that are predicted as it"),
    "calibration_error": ("calibration error", "mean gap between confidence and accuracy"),
}
COUNTED = {"instance_accuracy": "instances", "bag_accuracy": "bags", "method_bag_accuracy": "bags"}
PART_NAMES = {"train": "training", "val": "validation", "test": "test"}
MATRIX_NOTE = "Cells are shaded by their share of the row: blue is correct, orange is wrong."
BARS_NOTE = "Each bar shows the instances of one bag by predicted class; the label or, without one, the predicted "
BARS_NOTE += "majority is framed."
MOSAICS_NOTE = "Each image is framed in the colour of its predicted class, which is written below it. Point at an "
MOSAICS_NOTE += "image, or open the list, to see its name."


@dataclass(frozen=True)
class RunFacts:
    """The contents of a run folder."""

    folder: Path
    record: RunRecord
    result: dict[str, Any]
    history: list[dict[str, Any]]  # one record per epoch
    trained_on: bool  # whether the run was trained on bags of the reported source


@dataclass(frozen=True)
class Report:
    """What a page is about: bags of the run, or those of another `source`."""

    facts: RunFacts
    classifier: Classifier
    parts: Mapping[str, Bags]  # train, val, test; not every run has all of them
    part: str
    classified: ClassifiedBags
    review: Review
    figures: dict[str, Any]
    source: str | None

    @property
    def name(self) -> str:
        """Of the bags."""
        return PART_NAMES[self.part] if self.source is None else str(Path(*_absolute(self.source).parts[-2:]))


def write_page(
    facts: RunFacts,
    classifier: Classifier,
    parts: Mapping[str, Bags],
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
    figures = (facts.result.get(part) or {}) if source is None else summary_with_intervals(classified.outcome())
    review = review_labels({PART_NAMES[part]: classified})
    report = Report(facts, classifier, parts, part, classified, review, figures, source)
    title = [Path(facts.record.run.bags.source).name, facts.record.method, *([report.name] if source else [])]
    path = facts.folder / REPORT if source is None else _page_path(facts.folder, source)
    source_hash = None if source is None else _source_hash(source)
    write_text(path, write_html("run", " · ".join(title), _sections(report), source_hash))
    return path


def _sections(report: Report) -> Iterator[Section]:
    """Results first, then what they come from; sections without blocks are left out."""
    classified, bags = report.classified, report.classified.bags
    yield Section("figures", "Results", _results_title(report), [*_verdict(report), *_figures(report)])
    yield Section("audit", "Audit", "Audit", audit_blocks(report.facts.folder) if report.source is None else [])
    if bags.labelled or bags.instance_labels is not None:
        unit = "bags" if bags.instance_labels is None else "instances"
        yield Section("classes", "Classes", f"Classes, by {unit}", _classes(classified))
    doubtful = sections.suspicious(report.review)
    if doubtful.tiles:
        yield Section("suspicious", "Labels", "Labels that the counts contradict", [_doubtful_note(report), doubtful])
    yield Section("filter", "", "", [Filter(classified.classes, bags.labelled)])
    yield Section(
        "bags", "Bags", "Bags: instances by predicted class", [*_bar_notes(report), sections.bars(classified)]
    )
    crosses = "" if bags.instance_labels is None else sections.CROSS
    if bags.store.ndim == 4:
        about = Note(MOSAICS_NOTE + crosses)
        yield Section("mosaics", "Mosaics", "Bags as mosaics", [about, sections.mosaics(classified)])
    if bags.coordinates is not None:
        about = Note("One dot per instance at its coordinates, coloured by predicted class.")
        colours = Note(sections.legend(classified.classes))
        yield Section("maps", "Maps", "Bags as maps", [about, colours, sections.maps(classified)])
    if bags.store.ndim == 4:
        never = [name for name, n in zip(classified.classes, classified.counts.sum(axis=0), strict=True) if not n]
        about = Note("Below each image is the probability of its predicted class." + crosses)
        missing = [Note(f"Never predicted: {', '.join(never)}.")] if never else []
        title = "Gallery: most and least confident predictions of each class"
        yield Section("gallery", "Gallery", title, [about, *missing, sections.gallery(classified)])
    yield Section("run", "Run", "The run", _run(report))
    yield Section("curves", "Curves", "Learning curves", _curves(report))


# ---------------------------------------------------------------------- results


def _results_title(report: Report) -> str:
    bags = report.classified.bags
    if bags.labelled:
        return f"Results on the {report.name} bags"
    if bags.instance_labels is not None:
        return f"Results on the {report.name} bags, which have no bag labels: accuracy is known for instances only"
    return f"Predictions for the {report.name} bags, which have no labels: their accuracy is not known"


def _verdict(report: Report) -> list[Block]:
    run = Path(report.facts.folder.resolve().name)  # no path of this machine
    bags = "bags" if report.source else "held-out bags" if report.part == "test" else "validation bags"
    doubtful = sections.count_probable(report.review)
    baseline = None if report.source else report.facts.result.get("baseline")
    found = verdict(report.figures, run, bags, report.source and report.name, doubtful, baseline)
    return [Lead(markup("{} {}: <code>{}</code>.", *found))]


def _figures(report: Report) -> Iterator[Block]:
    classified, result, own = report.classified, report.facts.result, report.source is None
    bags, figures = classified.bags, report.figures
    counts = [
        Card("bags", number(len(bags)), "classified"),
        Card("instances", number(len(bags.index)), "in these bags"),
    ]
    yield Cards([*(counts if not bags.labelled else []), *_cards(figures)])
    if figures.get("intervals"):
        yield Note(
            "Below each figure: its 95 % bootstrap interval over the bags of this page. It shows how much the figure "
            "depends on these bags, not how much it depends on the training."
        )
    if coverage := coverage_note(figures):
        yield Note(f"{coverage[0].upper()}{coverage[1:]}.")
    yield from (Note(f"Caution: {text}.", True) for text in (*figures.get("warnings", ()), *result.get("warnings", ())))
    if report.facts.trained_on:
        text = "Caution: the run was trained on bags of this source, and they are included here. The figures are too "
        yield Note(f"{text}optimistic.", warning=True)
    if own and result.get("refit_bags"):
        text = "These figures are those of a first classifier, which was not trained on the labels of these bags. For "
        text += "other bags, <code>majority predict</code> uses a second one, trained on all {} bags."
        yield Note(markup(text, number(result["refit_bags"])))
    if own and report.part == "val":
        yield Note(
            "There are no test bags. The epoch was chosen on these bags, so these metrics are slightly optimistic."
        )
    if bags.labelled and bags.instance_labels is None:
        yield Note(
            "These bags have no instance labels. Accuracy is known for bags only, and classes are compared by bag."
        )
    if not bags.labelled:
        yield Heading("Predictions by class")
        yield Note("The bags with each predicted majority, and the instances with each predicted class.")
        yield sections.predicted_classes(classified)


def _cards(figures: dict[str, Any]) -> Iterator[Card]:
    for name, value in in_order(figures).items():
        if name in FIGURES and value is not None:
            title, about = FIGURES[name]
            form, intervals = signed if name in SIGNED else percent, figures.get("intervals", {})
            yield Card(
                title, form(value), _count(figures, name) + about, " to ".join(map(form, intervals.get(name, ())))
            )


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


def _classes(classified: ClassifiedBags) -> Iterator[Block]:
    """By instance if the class of any instance is known, otherwise by bag."""
    known = classified.bags.instance_labels is not None
    matrix, classes = classified.confusion(), classified.true_classes
    unknown = [name for name, row in zip(classes, matrix, strict=True) if row.any() and name not in classified.classes]
    if unknown:
        yield Note(f"Not trained on the class {' or '.join(unknown)}: its instances count as wrong.", warning=True)
    left: list[Block] = [Heading("Recall and precision"), sections.class_table(matrix, classes)]
    rows, columns = ("true class", "predicted class") if known else ("bag label", "predicted label")
    right: list[Block] = [Heading("Confusion matrix")]
    if len(classes) > MAX_MATRIX_CLASSES:
        right.append(Note(f"A confusion matrix of {len(classes)} classes is too large to draw."))
    else:
        drawing = confusion_matrix(matrix, sections.without_common_prefix(classes), rows, columns)
        right += [Drawings("confusion matrix", {"": drawing}, "matrix"), Note(MATRIX_NOTE)]
    head = (rows, "predicted as", "instances" if known else "bags", "share of its class")
    if confused := sections.most_confused(matrix, classes, head):
        left += [Heading("Most frequent confusions"), confused]
    yield Columns([left, right])


# ---------------------------------------------------------------------- bags


def _doubtful_note(report: Report) -> Note:
    found = sections.count_probable(report.review)
    left_out = max(0, found - sections.MAX_SUSPICIOUS)
    text = "{} whose label is probably wrong, the most certain first, of the {} bags. <code>majority review</code> "
    text += "looks at all bags of the run and writes a file in which labels can be corrected."
    rest = f" Left out: {count_noun(left_out, 'bag')}." * bool(left_out)
    return Note(markup(text + "{}", count_noun(found, "bag"), report.name, rest))


def _bar_notes(report: Report) -> Iterator[Block]:
    classified, bags = report.classified, report.classified.bags
    known = bags.bag_labels.known
    if bags.labelled:
        wrong = int((known & ~classified.right).sum())
        counts = (
            f"In {number(wrong)} of {number(known.sum())} {report.name} bags, the most frequent predicted class is "
        )
        rest = f" {count_noun(int((~known).sum()), 'bag')} without a label come last." * (not known.all())
        yield Note(f"{counts}not the label. {BARS_NOTE}{rest}")
    else:
        ties = "Bags with the smallest margin between the majority and the next class come first: check these. If two "
        yield Note(f"{BARS_NOTE} {ties}classes tie, the first one is the majority.")
    if classified.background is not None:
        name = classified.classes[classified.background]
        yield Note(f"{name} is the background: its instances do not vote, and are left out of share and margin.")
    if bags.weights is not None:
        yield Note("Instances have weights: majority, share and margin are by sums of weights; bars show instances.")
    yield Note(sections.legend(classified.classes))


# ---------------------------------------------------------------------- the run


def _run(report: Report) -> Iterator[Block]:
    record, result = report.facts.record, report.facts.result
    yield Facts(about_run(record, result, report.classifier, result.get("lines", {})))
    titles = PART_NAMES if report.source is None else {report.part: f"{report.name} (this page)"}
    before = [] if report.source is None else result.get("parts", [])
    found = [row for row in before if row["name"] != PART_NAMES["test"]] + part_rows(report.parts, titles)
    rows = []
    for row in found:
        name = f"{row['name']}: {row['labels']}" if "labels" in row else row["name"]
        sizes = " to ".join(dict.fromkeys((number(row["smallest"]), number(row["largest"]))))
        rows.append([name, number(row["bags"]), number(row["instances"]), sizes, percent(row["majority"])])
    yield Table("parts of the data", ("part", "bags", "instances", "bag size", "mean majority"), rows)
    if command := train_command(record):
        yield Heading("Command that repeats this run")
        yield Command(command)
    yield Details("All settings", [Facts(_all_settings(record))])


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


def _all_settings(record: RunRecord) -> dict[str, str]:
    """Every setting of a run, without hashes and paths of the data."""
    left_out = ("fingerprint", "source_path", "embedding.model", "embedding.weights")
    options = record.run.options()
    if "corrections" in options:
        options["corrections"] = len(options["corrections"])
    settings = flatten(record.as_json() | {"run": options})
    names = [name for name in settings if not name.endswith(left_out)]
    return {name: NOTHING if settings[name] is None else str(settings[name]) for name in names}


def _curves(report: Report) -> list[Block]:
    history, kept = report.facts.history, report.facts.result["best_epoch"] + 1
    if not history or not all("val_loss" in record and "val_bag_accuracy" in record for record in history):
        return []

    def curve(name: str) -> Curve:
        training, validation = ([record[f"{part}_{name}"] for record in history] for part in ("train", "val"))
        return Curve(range(1, len(history) + 1), training, validation, kept)

    drawn = {"": learning_curves("Loss per bag", [curve("loss")])}
    drawn[" "] = learning_curves("Bag accuracy", [curve("bag_accuracy")], percent=True)
    of_run = "" if report.source is None else " The curves show the bags of the run, not those of this page."
    return [Drawings("learning curves", drawn), Note(f"{_why_kept(report.facts.result)}{of_run}")]


def _why_kept(result: dict[str, Any]) -> str:
    """Which epoch was kept. A last stage that records its training loss learned soft labels and kept its last epoch."""
    stages = [*result.get("stages", {}).values()]
    if stages and "train_loss" in stages[-1]:
        return (
            "The last epoch was kept. The training loss is that of soft labels and the validation loss that of bag "
            "labels, so they cannot be compared."
        )
    return "The dot is the kept epoch, the one with the lowest validation loss."


# ---------------------------------------------------------------------- the page of another source


def _absolute(source: str) -> Path:
    """The name of a source, or its absolute path; links are not followed, because images may lie next to a link."""
    return Path(source if source in names() else os.path.abspath(user_path(source)))


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
