"""A run folder opened again: its classifier, and bags for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from ..data.bags import Bags
from ..errors import InputError
from ..inference.classifier import Classifier
from ..sources import CustomBags, LabelledSet, Parts, is_custom_source
from ..sources.custom import ReadOptions
from ..sources.custom.image_summary import ImageFileSummary
from ..sources.custom.load import load_custom
from .data import Data, fingerprints
from .run_folder import CLASSIFIER, finished_file, read_config, source_of


class Opened(NamedTuple):
    classifier: Classifier
    bags: dict[str, Bags]  # by part; "all" of a source of one's own
    source: LabelledSet | CustomBags


def open_bags(
    folder: str | Path,
    source: str | None = None,
    *,
    labels: bool,
    unlabelled: bool = False,
    all_parts: bool = False,
    device: str = "auto",
    log: Callable[[str], None] = lambda line: None,
) -> Opened:
    """A run's classifier and bags for it: all bags of another source of one's own (whose labels may be needed, or
    not where it is `unlabelled`, or never); else the test bags, or all parts, of the run's source or of another one
    made alike."""
    folder = Path(folder)
    if source is not None and is_custom_source(source):
        config, classifier = read_config(folder), open_classifier(folder, device)
        own = load_custom(Path(source).expanduser(), _wish(classifier, config, labels, unlabelled))
        for warning in own.warnings:
            log(f"warning: {warning}")
        background = classifier.model.spec.background
        bags = own.bags if background is None else own.bags.with_background(classifier.classes[background.index])
        classifier.model.spec.check(bags.store)
        return Opened(classifier, {"all": bags}, own)
    classifier, parts, opened = reopen(folder, source, device)
    if parts.test is None and not all_parts:
        raise InputError(f"{folder} has no test bags: its source marks none; take --all, or give a SOURCE")
    chosen = parts._asdict() if all_parts else {"test": parts.test}
    return Opened(classifier, {part: bags for part, bags in chosen.items() if bags is not None}, opened)


def reopen(
    folder: str | Path, source: str | None = None, device: str = "auto"
) -> tuple[Classifier, Parts, LabelledSet | CustomBags]:
    """A run's classifier, the bags it is for (those it was trained with, or of another source made alike) and their
    source. The test bags are None where it gives none."""
    folder = Path(folder)
    config = read_config(folder)
    choices = config["data"]
    recorded = choices.pop("fingerprint")
    classifier = open_classifier(folder, device)
    choices["source"] = source_of(config)
    if source is not None:
        choices |= {"source": source, "folds": None, "image_size": None, "features": None}
    path = config.get("source_path")
    if source is None and path and not Path(choices["source"]).exists():
        raise InputError(
            f"the bags that {folder} was trained on are not where they were: put them, or a link, at {path}"
        )
    data = Data(**choices)
    opened = data.open()
    parts = data.parts(opened)
    if source is None and fingerprints(parts, config["method"]) != recorded:
        raise InputError(
            f"{choices['source']} has changed since {folder} was trained: put the old files back or train again"
        )
    if parts.train.classes != tuple(classifier.classes):
        raise InputError(
            f"{source} has classes {', '.join(parts.train.classes)}; "
            f"{folder} was trained on {', '.join(classifier.classes)}"
        )
    return classifier, parts, opened


def open_classifier(folder: Path, device: str = "auto") -> Classifier:
    """What a finished run left."""
    return Classifier.load(finished_file(folder, CLASSIFIER), device)


def _wish(classifier: Classifier, config: dict, labels: bool, unlabelled: bool) -> ReadOptions:
    """Other files are read as those that the classifier was trained on."""
    spec, columns, images = classifier.model.spec, config.get("columns"), config.get("images")
    return ReadOptions(
        labels,
        unlabelled,
        training=False,
        classes=spec.classes,
        image_size=spec.instance_shape[:2] if spec.images else None,
        channels=spec.instance_shape[2] if spec.images else None,
        seen=ImageFileSummary(**images) if images else None,
        features=tuple(columns) if columns else None,
    )
