"""Predictions as rows of a CSV or Parquet file, written batch by batch.

Only one batch of probabilities is in memory at a time and, if their store is on disk, only one batch of instances.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pandas as pd

from ..data.bags import Bags
from ..data.winners import lead_of
from ..errors import InputError
from ..files import user_path, write_atomically
from ..predict.classifier import Classifier, check_threshold
from ..predict.predictions import name_majority
from . import Source, is_custom_source
from .custom.tables import is_parquet

ROWS_PER_GROUP = 65_536  # of a Parquet file, at least

Columns = dict[str, np.ndarray]  # (rows,) by name; the same names in every batch


def check_output_path(path: Path, sources: Iterable[str]) -> None:
    """Refuse a file that cannot be written, or that would change one of these sources."""
    if path.suffix not in WRITERS or not path.parent.is_dir():
        raise InputError(f"--out {path}: give a file that ends in .csv or .parquet, in a folder that exists")
    for source in filter(is_custom_source, sources):
        place = user_path(source).resolve()
        inside = path.resolve().parent == place and (path.suffix == ".csv" or is_parquet(place))
        if path.resolve() == place or inside:
            what = "is inside the source, where tables are read" if inside else "is the source itself"
            raise InputError(f"--out {path} {what}: choose another {'folder' if inside else 'file'}")
    if path.suffix == ".parquet":
        check_pyarrow(path)


def check_pyarrow(path: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError(f"--out {path}: Parquet needs pyarrow: pip install pyarrow") from None


def write_predictions(
    path: str | Path,
    classifier: Classifier,
    parts: dict[str, Bags],
    source: Source | None = None,
    abstain_below: float | None = None,
) -> int:
    """Write one row per instance: part, bag, instance, x and y if known, class, probability of each class.

    The column `path` identifies an instance if the source is a manifest of images. Otherwise the column `instance`
    has its number within the feature file of its bag, or its position in the source: the row of the manifest below the
    header, not counting empty rows. The class is empty if its probability is below `abstain_below`. Returns the number
    of rows.
    """

    check_threshold(abstain_below)
    if source is not None and not hasattr(source, "numbered_within_bags"):
        raise InputError(f"source is a {type(source).__name__}: give what load_source returns")
    return write_rows(Path(path), instance_rows(classifier, parts, source, abstain_below))


def instance_rows(
    classifier: Classifier, parts: dict[str, Bags], source: Source | None, abstain_below: float | None
) -> Iterator[Columns]:
    """One row per instance, batch by batch."""
    for part, bags in parts.items():
        for numbers, probabilities in classifier.stream(bags):
            names = classifier.name_classes(probabilities, abstain_below)
            yield _instance_rows(part, bags, numbers, names, probabilities, classifier.classes, source)


def write_bag_predictions(
    path: str | Path, classifier: Classifier, parts: dict[str, Bags], abstain_below: float | None = None
) -> int:
    """Write one row per bag: part, bag, instances of each class, majority, its share, its margin over the next one.

    If instances have weights, the sum of the weights of each class is written too, and the majority is by these sums.
    With `abstain_below` there is a column `abstained`: instances that are not counted. Returns the number of rows.
    """

    counted = bag_counts(classifier, parts, abstain_below)
    return write_rows(Path(path), (add_majority(classifier, columns) for columns in counted))


def bag_counts(classifier: Classifier, parts: dict[str, Bags], abstain_below: float | None) -> Iterator[Columns]:
    """One row per bag: instances predicted as each class, and those without a class where it may abstain."""
    for part, bags in parts.items():
        predicted = classifier.predict_bags(bags, abstain_below)
        columns = {"part": np.full(len(bags), part), "bag": _bag_names(bags, np.arange(len(bags)))}
        for form, counts in (("n({})", predicted.counts), ("weight({})", predicted.weighted_counts)):
            if counts is not None:
                columns |= dict(zip(map(form.format, classifier.classes), counts.T, strict=True))
        if abstain_below is not None:
            columns["abstained"] = bags.sizes - predicted.counts.sum(axis=1)
        yield columns


def add_majority(classifier: Classifier, columns: Columns) -> Columns:
    """The counts of bags, with majority, share and margin."""
    names = [f"n({name})" for name in classifier.classes]
    of_weights = [f"weight({name})" for name in classifier.classes]
    counts = np.stack([columns[name] for name in names], axis=1)
    weighted = np.stack([columns[name] for name in of_weights], axis=1) if of_weights[0] in columns else None
    background = classifier.model.spec.background
    chosen = counts if weighted is None else weighted, None if background is None else background.index
    share, margin = lead_of(*chosen)
    return columns | {"majority": name_majority(classifier.classes, *chosen), "share": share, "margin": margin}


def instance_ids(bags: Bags, positions: np.ndarray, source: Source | None) -> tuple[str, np.ndarray]:
    """What identifies the instances at these positions: "path" or "instance", and the path or number of each."""
    if source is not None and source.paths is not None:
        return "path", source.paths[bags.index[positions]]
    if source is not None and source.numbered_within_bags:
        return "instance", positions - bags.offsets[np.searchsorted(bags.offsets, positions, side="right") - 1]
    return "instance", bags.index[positions]


def instance_numbers(bags: Bags, positions: np.ndarray, source: Source | None) -> np.ndarray:
    """The numbers of the instances at these positions, also of those that a path identifies."""
    return bags.index[positions] if (ids := instance_ids(bags, positions, source))[0] == "path" else ids[1]


def _instance_rows(
    part: str,
    bags: Bags,
    numbers: np.ndarray,  # (b,) of the bags
    names: np.ndarray,  # (n,) predicted classes
    probabilities: np.ndarray,  # (n, C)
    classes: np.ndarray,
    source: Source | None,
) -> Columns:
    positions, sizes = bags.positions(numbers), bags.sizes[numbers]
    columns = {"part": np.full(len(positions), part), "bag": np.repeat(_bag_names(bags, numbers), sizes)}
    kind, ids = instance_ids(bags, positions, source)
    columns[kind] = ids
    if bags.coordinates is not None:
        columns["x"], columns["y"] = bags.coordinates[positions].T
    columns["class"] = names
    return columns | {f"p({name})": probabilities[:, c] for c, name in enumerate(classes)}


def _bag_names(bags: Bags, numbers: np.ndarray) -> np.ndarray:
    return numbers if bags.names is None else bags.names[numbers]


def write_rows(path: Path, batches: Iterable[Columns]) -> int:
    """Write a .csv or .parquet file, whole or not at all; return the number of rows."""
    if path.suffix not in WRITERS:
        raise InputError(f"{path}: predictions are written as {' or '.join(WRITERS)}: choose such a name")
    rows = 0

    def frames() -> Iterator[pd.DataFrame]:
        nonlocal rows
        for columns in batches:
            rows += len(columns["part"])
            yield pd.DataFrame(columns)

    write_atomically(path, lambda place: WRITERS[path.suffix](place, frames()))
    return rows


def _write_csv(place: Path, frames: Iterator[pd.DataFrame]) -> None:
    """Numbers have six digits, but coordinates all of theirs."""
    with place.open("w", newline="", encoding="utf-8", errors="replace") as file:
        for frame in frames:
            exact = frame.astype({name: object for name in ("x", "y") if name in frame})
            exact.to_csv(file, header=file.tell() == 0, index=False, float_format="%.6g", lineterminator="\r\n")


def _write_parquet(place: Path, frames: Iterator[pd.DataFrame]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    tables = (pa.Table.from_pandas(frame, preserve_index=False) for frame in frames)
    first = next(tables)
    waiting: list[pa.Table] = []  # for one row group
    with pq.ParquetWriter(place, first.schema) as writer:
        for table in chain([first], tables):
            waiting.append(table)
            if sum(map(len, waiting)) >= ROWS_PER_GROUP:
                writer.write_table(pa.concat_tables(waiting))
                waiting.clear()
        if waiting:
            writer.write_table(pa.concat_tables(waiting))


WRITERS = {".csv": _write_csv, ".parquet": _write_parquet}
