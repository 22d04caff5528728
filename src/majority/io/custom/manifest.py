"""A manifest: a CSV or Parquet table with one row per instance, which names an image or contains features."""

from __future__ import annotations

import os
from collections.abc import Hashable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...data.stores import Store
from ..image_summary import ImageFileSummary
from .bag_table import check_consistent, check_filled, check_for_training, check_some_label, normalise_splits
from .columns import RESERVED, TEXT, read_features, warn_of_unused_columns
from .content import Content
from .findings import Findings, UnreadableError
from .image_warnings import warn_of_changes, warn_of_losses
from .instance_table import has_instance_labels, read_coordinates, read_weights
from .look_alikes import warn_of_look_alikes
from .names import did_you_mean
from .parquet import is_parquet
from .read_options import ReadOptions
from .tables import LISTS, describe_content, read_table

_LAST_TABLE: dict[Hashable, pd.DataFrame] = {}  # text has to be read as a whole, for the first block
BAG_COLUMNS = ("bag_label", "second_label", "split", "group")  # have one value per bag
HASHED_COLUMNS = 64  # to find rows that may be equal


def read_manifest(path: Path, options: ReadOptions, findings: Findings) -> Content:
    return read_rows(read_frame(path, options, findings), path, options, findings)


def read_frame(path: Path, options: ReadOptions, findings: Findings) -> pd.DataFrame:
    """The rows of a table, or of a block of it."""
    names, block = options.names.usual("bag_label"), options.block
    if block is None or is_parquet(path):
        return read_table(path, TEXT, findings, names, optional_names=options.for_classifier, block=block)
    facts = path.stat()
    key = (path, facts.st_size, facts.st_mtime_ns, options.names)
    if key not in _LAST_TABLE:
        _LAST_TABLE.clear()
        _LAST_TABLE[key] = read_table(path, TEXT, findings, names, optional_names=options.for_classifier)
    return _LAST_TABLE[key].iloc[block.start :][: block.rows].copy()


def read_rows(
    frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings, labels_checked: bool = False
) -> Content:
    """The content of a table of instances, which is at this path; images are relative to its folder.

    With `labels_checked`, the labels are from a table of bags, whose problems were found with its rows.
    """
    if options.unlabelled:
        frame, options = _without_labels(frame, options)
    options = _check_columns(frame, path, options, findings)
    has_images = "path" in frame
    options.check_applicable(path, images=has_images, columns=not has_images)
    used = _used_columns(frame, options)
    check_filled(frame, path, [name for name in used if name not in ("bag_label", "second_label")], findings)
    if options.labels:
        normalise_splits(frame, path, findings)
    resolved = _resolve_paths(frame, path) if has_images else frame
    bags = _read_bags(frame, path, [name for name in used if name in BAG_COLUMNS], findings)
    if options.labels:
        if not labels_checked:
            _check_labels(bags, path, options, findings)
        if options.training:
            _check_shared_images(resolved, path, findings)
    if has_images:
        instances = _read_images(frame, path, options, findings)
        _check_repeated_images(resolved, path, findings)
    else:
        instances = _read_features(frame, path, options, findings)
    return _content(frame, path, bags, instances, options, findings)


def _check_columns(frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings) -> ReadOptions:
    """Check that the needed columns are there. The options are then without labels if these are missing, to find other
    problems."""
    instance_labels_suffice = (
        not (options.training or options.review) and "bag_label" not in frame and has_instance_labels(frame)
    )
    needed = ["bag", "bag_label"] if options.labels and not instance_labels_suffice else ["bag"]
    for name in needed:
        if name not in frame:
            guess = did_you_mean(name, [other for other in frame.columns if other not in RESERVED])
            findings.add_problem(path, 1, f"there is no column {name}{guess}", _missing_column_cure(name, options))
    if "bag" not in frame:
        raise UnreadableError
    return options if set(needed) <= set(frame) else replace(options, labels=False)


def _used_columns(frame: pd.DataFrame, options: ReadOptions) -> list[str]:
    """Those of text: the bag, its label, the image and what else belongs to the bag."""
    of_labels = ("bag_label", "second_label", "split")
    names = ("bag", "bag_label", "path", "second_label", "split", "group")
    return [name for name in names if name in frame and (options.labels or name not in of_labels)]


def _resolve_paths(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The rows with one path per image file, for comparisons."""
    from .images import resolve_aliases

    return frame.assign(path=frame["path"].map(resolve_aliases(path.parent, frame["path"])))


def _read_bags(frame: pd.DataFrame, path: Path, columns: list[str], findings: Findings) -> pd.DataFrame:
    """One row per bag, with these columns, whose values are the same in all rows of a bag."""
    check_consistent(frame, path, "bag", columns, "give all rows of a bag the same value", findings)
    return frame.drop_duplicates("bag")[["bag", *columns]].rename(columns={"bag_label": "label"})


def _check_labels(bags: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings) -> None:
    """Check that an evaluation or, with further checks, a training can use the labels."""
    check_some_label(bags, path, options, findings)
    if "split" in bags and "group" in bags:
        check_consistent(bags, path, "group", ["split"], "move all bags of a group to one split", findings)
    if options.training:
        check_for_training(bags, path, findings)


def _content(
    frame: pd.DataFrame,
    path: Path,
    bags: pd.DataFrame,
    instances: _Instances,
    options: ReadOptions,
    findings: Findings,
) -> Content:
    """The rows sorted by bag, with what the table says of the instances."""
    bag_of = pd.factorize(frame["bag"])[0]  # bags in the order of their first row
    order = np.argsort(bag_of, kind="stable")
    coordinates, weights = read_coordinates(frame, path, findings), read_weights(frame, path, findings)
    read_labels = options.labels and has_instance_labels(frame)
    return Content(
        path,
        bags,
        sizes=np.bincount(bag_of),
        store=instances.store,
        index=instances.positions[order],
        instance_labels=frame["label"].to_numpy()[order] if read_labels else None,
        coordinates=None if coordinates is None else coordinates[order],
        weights=None if weights is None else weights[order],
        paths=instances.paths,
        columns=instances.columns,
        image_files=instances.image_files,
    )


def _without_labels(frame: pd.DataFrame, options: ReadOptions) -> tuple[pd.DataFrame, ReadOptions]:
    """Remove an empty column of bag labels; read no labels if the instances have none either."""
    if "bag_label" in frame and (frame["bag_label"] == "").all():
        frame = frame.drop(columns="bag_label")
    return frame, replace(options, labels="bag_label" in frame or has_instance_labels(frame))


def _missing_column_cure(column: str, options: ReadOptions) -> str:
    cure = (
        "a manifest needs the columns bag and bag_label, and path or numeric columns; columns of other names are given "
        "by --bag-column and --label-column"
    )
    if column == "bag":
        return cure
    if options.review:
        return "a review compares the labels of bags with the counts: add this column, or name it by --label-column"
    evaluate = "" if options.training else "; for `majority evaluate` a column label is enough"
    return f"{cure}{evaluate}; `majority predict` and `majority report` need no labels"


class _Instances(NamedTuple):
    """What the rows name, or contain."""

    store: Store | None  # (N, ...); None if some images cannot be read
    positions: np.ndarray  # (n,) position in the store of each row
    paths: np.ndarray | None = None  # (N,) of images, as the manifest writes them
    image_files: ImageFileSummary | None = None
    columns: tuple[str, ...] | None = None  # of the features


def _read_features(frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings) -> _Instances:
    features, columns = read_features(frame, path, options, findings)
    _warn_of_repeated_rows(frame, features, findings)
    return _Instances(features, np.arange(len(frame)), columns=columns)


def _read_images(frame: pd.DataFrame, path: Path, options: ReadOptions, findings: Findings) -> _Instances:
    from .images import load_images

    if options.training:
        warn_of_unused_columns(frame, options, findings)
    else:
        warn_of_look_alikes(frame.columns, RESERVED, options, findings)
    names, first, index = np.unique(frame["path"].to_numpy(str), return_index=True, return_inverse=True)
    size, channels, on_demand = options.image_size, options.channels, options.encoder_shape is not None
    if options.encoder_shape is not None:
        size, channels = options.encoder_shape[:2], options.encoder_shape[2]
    store, files, errors = load_images(path, names.tolist(), size, channels, on_demand)
    _add_image_problems(frame, path, names, first, errors, findings)
    if store is None:
        return _Instances(None, index, names)
    images, (height, width, channels) = [files[i] for i in range(len(names))], store.shape[1:]
    warn_of_changes(names.tolist(), images, (height, width, channels), options, findings)
    warn_of_losses(names.tolist(), images, findings)
    return _Instances(store, index, names, ImageFileSummary.of(images))


def _add_image_problems(
    frame: pd.DataFrame, path: Path, names: np.ndarray, first: np.ndarray, errors: dict[int, str], findings: Findings
) -> None:
    """One problem per image that cannot be used, in the order of the first rows that name them."""
    from .images import NO_IMAGE, find_ignoring_case

    absent = [names[i] for i in errors if names[i] and errors[i] == NO_IMAGE]
    other_case = find_ignoring_case(path.parent, absent)
    for i in sorted(errors, key=lambda i: int(first[i])):
        if not frame["path"].iloc[first[i]]:  # check_filled reports empty cells
            continue
        cure = "repair it or leave it out"
        if names[i] in other_case:
            cure = f"its name on disk is {other_case[names[i]]}: write it like this"
        elif errors[i] == NO_IMAGE:
            backslashes = "\\" in names[i] and os.sep != "\\"
            cure = "write / between folders, not \\" if backslashes else "correct the path (relative to the manifest)"
        findings.add_problem(path, frame.index[first[i]], f"{path.parent / names[i]}: {errors[i]}", cure)


def _repeated_rows(frame: pd.DataFrame, columns: list[str]) -> list[tuple[int, int]]:
    """Each row that equals an earlier one in these columns, with the number of the earlier row."""
    group = frame.groupby(columns, sort=False, dropna=False).ngroup()
    repeated = group.duplicated()
    first_row = dict(zip(group[~repeated], group.index[~repeated], strict=True))
    return [(row, first_row[number]) for row, number in zip(group.index[repeated], group[repeated], strict=True)]


def _check_repeated_images(frame: pd.DataFrame, path: Path, findings: Findings) -> None:
    for row, first in _repeated_rows(frame, ["bag", "path"]):
        what = f"it names the same image as row {first} of the same bag"
        findings.add_problem(path, row, what, "remove one of the two")


def _warn_of_repeated_rows(frame: pd.DataFrame, numbers: np.ndarray, findings: Findings) -> None:
    """Warn of rows that are equal in every cell. It is no problem, because rows of few values may well be equal."""
    rows = frame[pd.Series(_hash_rows(numbers)).duplicated(keep=False).to_numpy()]
    if rows.empty:
        return
    compared = [name for name in rows.columns if describe_content(rows[name]) != LISTS]
    repeated = _repeated_rows(rows, compared)
    if repeated:
        count = "1 row is" if len(repeated) == 1 else f"{len(repeated)} rows are"
        row, first = repeated[0]
        findings.warn(
            f"{count} the same as another row of the bag in every cell (e.g. row {row} as row {first}): "
            "each row counts as one instance: remove accidental duplicates"
        )


def _hash_rows(numbers: np.ndarray) -> np.ndarray:  # (n, d) -> (n,) uint64
    """Equal for rows that are equal, and rarely for others; up to HASHED_COLUMNS are used."""
    factors = np.random.default_rng(0).integers(1, 2**63, HASHED_COLUMNS, np.uint64) | np.uint64(1)
    hashes = np.zeros(len(numbers), np.uint64)
    for column, factor in zip(numbers.T, factors, strict=False):
        hashes += (column.astype(np.float64) + 0.0).view(np.uint64) * factor  # -0.0 becomes 0.0
    return hashes


def _check_shared_images(frame: pd.DataFrame, path: Path, findings: Findings) -> None:
    """Check that no image is in two splits, where it would be used for training and for testing."""
    if {"path", "split"} <= set(frame):
        cure = "an image belongs to one split; leave it out of the others"
        check_consistent(frame, path, "path", ["split"], cure, findings)
    elif "path" in frame:
        bags = frame.groupby("path")["bag"].nunique()
        if (bags > 1).any():
            count, example = int((bags > 1).sum()), bags.index[bags > 1][0]
            shared = "1 image is" if count == 1 else f"{count} images are"
            findings.warn(
                f"{shared} in two or more bags (e.g. {example}): give a split or group column, "
                "otherwise the same image may be used for training and for testing"
            )
