"""A run folder opened again: its classifier, and bags for it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..data.bags import Bags
from ..errors import InputError, count_noun
from ..files import user_path
from ..io import Parts, Source, is_custom_source
from ..io.custom import Block, ColumnNames, CustomBags, ReadOptions
from ..io.custom.load import load_custom
from ..io.embedding import Embedding
from ..io.encoders.network import reopen_network
from ..log import Log, no_log
from ..predict.classifier import CLASSIFIER, Classifier, mean_of
from .config import IN_MEMORY, BenchmarkBags, Columns, OwnBags, RunConfig
from .data import fingerprints, make_parts, open_source
from .folder import classifier_file, finished_file, fold_folders, is_trained_on, read_config, source_of
from .options import checked
from .record import RunRecord


def open_bags(
    folder: str | Path,
    source: str | None = None,
    *,
    labels: bool,
    unlabelled: bool = False,
    review: bool = False,
    all_parts: bool = False,
    columns: dict[str, Any] | None = None,
    device: str = "auto",
    block: Block | None = None,
    log: Log = no_log,
) -> tuple[Classifier, dict[str, Bags], Source]:
    """A run's classifier, bags for it by part ("all" for custom bags of another source), and their source. Of a
    cross-validation, without labels: the mean of its folds.

    With custom bags as `source`: all of them. `labels` says whether their labels are read, `unlabelled` whether they
    may have none, `review` whether the bags must have some, `columns` how its columns are called (None: as in
    training), `block` which piece of it is read (None: everything). Otherwise: the test bags, or all parts, of the
    run's source or of another labelled set with the same choices.
    """
    folder = Path(folder)
    folds = [] if labels else fold_folders(folder)  # an evaluation is of one classifier
    if folds and (source is None or not is_custom_source(source)):
        raise InputError(f"{folder} holds the runs of a cross-validation: give the bags to classify as SOURCE")
    if source is not None and is_custom_source(source):
        record = read_config(folds[0] if folds else folder)
        which: list[str] = []
        classifier = _classifier_for_others(folder, folds, device, which.append)
        options = replace(read_options(classifier, record, labels, unlabelled, columns), block=block, review=review)
        custom = load_custom(user_path(source), options)
        for line in (*which, *(f"warning: {warning}" for warning in custom.warnings_for(None))):
            log(line)
        if is_trained_on(record, source):
            log("note: the run was trained on this source; its training bags are included here")
        if custom.bags.store.ndim == 2 and (custom.encoder is None) != (record.encoder is None):
            trained, given = ("without", "with") if record.encoder is None else ("with", "without")
            what = f"{folder} was trained on features {trained} names, and {source} has features {given} names"
            log(f"warning: {what}: their order is taken on trust")
        custom = _embedded_alike(custom, record.embedding, folder, source, device, log)
        background = classifier.model.spec.background
        bags = custom.bags if background is None else custom.bags.with_background(classifier.classes[background.index])
        classifier.model.spec.check(bags.store)
        return classifier, {"all": bags}, custom
    classifier, parts, opened = reopen(folder, source, device)
    if parts.test is None and not all_parts:
        raise InputError(f"{folder} has no test bags: its source marks none; use --all, or give a SOURCE")
    chosen = {part: bags for part, bags in parts.present().items() if all_parts or part == "test"}
    return classifier, chosen, opened


def reopen(folder: str | Path, source: str | None = None, device: str = "auto") -> tuple[Classifier, Parts, Source]:
    """A run's classifier, the bags it was trained with (or those of another source with the same choices), and their
    source. The test bags are None if the source has none."""
    folder = Path(folder)
    record = read_config(folder)
    classifier = open_classifier(folder, device)
    if source is None and record.run.bags.source == IN_MEMORY:
        raise InputError(f"{folder} was trained on bags in memory, from Python: give the bags to use as SOURCE")
    path, place = record.source_path, source or source_of(record)
    if source is None and path and not os.path.exists(place):
        raise InputError(f"the bags that {folder} was trained on are gone: put them back, or a link to them, at {path}")
    config = _with_source(record.run, place, is_same=source is None)
    opened = open_source(config.bags)
    parts = make_parts(config, opened)
    if source is None and fingerprints(parts, record.run.method) != record.fingerprint:
        raise InputError(f"{place} has changed since {folder} was trained: put the old files back or train again")
    if parts.train.classes != tuple(classifier.classes):
        raise InputError(
            f"{source} has the classes {', '.join(parts.train.classes)}; "
            f"{folder} was trained on {', '.join(classifier.classes)}"
        )
    return classifier, parts, opened


def _with_source(config: RunConfig, source: str, is_same: bool) -> RunConfig:
    """The same run on the bags of another source, or of its own, which may be at another place now."""
    bags: OwnBags | BenchmarkBags = config.bags.model_copy(update={"source": source})
    if isinstance(bags, OwnBags) and not is_same:  # a labelled set: bags like those by default
        bags = checked(BenchmarkBags, {"source": source, "fold": bags.fold, "data_seed": bags.data_seed})
    return config.model_copy(update={"bags": bags})


def _embedded_alike(
    custom: CustomBags, embedding: Embedding | None, folder: Path, source: str, device: str, log: Log
) -> CustomBags:
    """The bags as features of the model that the run was trained with."""
    if embedding is None:
        return custom
    if custom.bags.store.ndim == 2:
        changed = "" if custom.embedding is None else embedding.differences(custom.embedding)
        if changed:
            cure = f"embed the images again, with {embedding.model}"
            raise InputError(f"{source} has features of another model than {folder} ({changed}): {cure}")
        return custom
    from ..io.embed import embed_bags  # reads images

    network = reopen_network(embedding, folder, device)
    log(f"embedding {count_noun(len(custom.bags.index), 'image')} with {embedding.model}")
    return replace(custom, bags=embed_bags(custom.bags, network))


def open_classifier(folder: Path, device: str = "auto") -> Classifier:
    """The classifier of a finished run for its own bags: it has not seen the test bags."""
    return Classifier.load(finished_file(folder, CLASSIFIER), device)


def _classifier_for_others(folder: Path, folds: list[Path], device: str, log: Log) -> Classifier:
    """For bags that are not the run's: the classifier that was trained on all bags, or the mean of all folds."""
    if folds:
        log(f"the mean of the classifiers of {count_noun(len(folds), 'fold')}")
        return mean_of([open_classifier(fold, device) for fold in folds])
    path = classifier_file(folder)
    if path.name != CLASSIFIER:
        log("the classifier that was trained on all bags of the run")
    return Classifier.load(path, device)


def read_options(
    classifier: Classifier, record: RunRecord, labels: bool, unlabelled: bool, columns: dict[str, Any] | None
) -> ReadOptions:
    """Read other files in the same way as those that the classifier was trained on."""
    spec, embedding, bags = classifier.model.spec, record.embedding, record.run.bags
    height, width, channels = spec.instance_shape if spec.images else (0, 0, 0)
    return ReadOptions(
        labels,
        unlabelled,
        training=False,
        classes=spec.classes,
        image_size=(height, width) if spec.images else None,
        channels=channels if spec.images else None,
        trained_images=record.images,
        encoder=record.encoder,
        names=ColumnNames(*((columns or dict(bags)).get(name) for name in Columns.model_fields)),
        encoder_shape=None if embedding is None else embedding.image_shape,
    )
