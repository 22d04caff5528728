"""Predictions as rows of a CSV or Parquet file, written batch by batch.

Only one batch of probabilities is in memory at a time and, if their store is on disk, only one batch of instances.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..data.bags import Bags
from ..errors import InputError
from ..files import user_path, write_atomically
from ..predict.classifier import Classifier, check_threshold
from . import Source, is_custom_source
from .custom.parquet import is_parquet

ROWS_PER_GROUP = 65_536  # of a Parquet file, at least

Columns = dict[str, np.ndarray]  # (rows,) by name; the same names in every batch


def check_output_path(path: Path, sources: Iterable[str]) -> None:
    """Refuse a file that cannot be written, or that would change one of these sources."""
    if path.suffix not in WRITERS or not path.parent.is_dir():
        raise InputError(f"--out {path}: give a file that ends in .csv or .parquet, in a folder that exists")
    check_not_source(path, sources)
    if path.suffix == ".parquet":
        check_pyarrow(path)


def check_pyarrow(path: Path) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise InputError(f"--out {path}: Parquet needs pyarrow: pip install pyarrow") from None


def check_not_source(path: Path, sources: Iterable[str]) -> None:
    """Refuse a file that would change one of these sources."""
    for source in filter(is_custom_source, sources):
        place = user_path(source).resolve()
        if path.resolve() == place:
            raise InputError(f"--out {path} is the source itself: choose another file")
        if path.resolve().parent != place:
            continue
        if path.suffix == ".csv":
            raise InputError(
                f"--out {path} is inside the source folder {source}, where tables are labels: choose another folder"
            )
        if path.suffix == ".parquet" and is_parquet(place):
            raise InputError(
                f"--out {path} is inside the source folder {source}, a table in parts: choose another folder"
            )


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
        counts, weighted = predicted.counts, predicted.weighted_counts
        columns = {"part": np.full(len(bags), part), "bag": _bag_names(bags, np.arange(len(bags)))}
        columns |= {name: counts[:, c] for c, name in enumerate(_count_names(classifier))}
        if weighted is not None:
            columns |= {name: weighted[:, c] for c, name in enumerate(_weight_names(classifier))}
        yield columns | ({} if abstain_below is None else {"abstained": bags.sizes - counts.sum(axis=1)})


def add_majority(classifier: Classifier, columns: Columns) -> Columns:
    """The counts of bags, with majority, share and margin."""
    counts = np.stack([columns[name] for name in _count_names(classifier)], axis=1)
    names = _weight_names(classifier)
    weighted = np.stack([columns[name] for name in names], axis=1) if names[0] in columns else None
    summary = classifier.summarise_counts(counts, weighted)
    return columns | {"majority": summary.majority, "share": summary.share, "margin": summary.margin}


def _count_names(classifier: Classifier) -> list[str]:
    return [f"n({name})" for name in classifier.classes]


def _weight_names(classifier: Classifier) -> list[str]:
    return [f"weight({name})" for name in classifier.classes]


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

    def write(place: Path) -> None:
        nonlocal rows
        with WRITERS[path.suffix](place) as add:
            for columns in batches:
                add(columns)
                rows += len(columns["part"])

    write_atomically(path, write)
    return rows


@contextmanager
def _csv_file(place: Path) -> Iterator[Callable[[Columns], None]]:
    """Numbers at the end of the rows, such as the probabilities of all classes, are formatted row by row: that is three
    times as fast as `csv.writer`, and only one row of text is in memory."""
    with place.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="")
        has_header = False

        def add(columns: Columns) -> None:
            nonlocal has_header
            if not has_header:
                table.writerow(columns)
                file.write("\r\n")
                has_header = True
            names = list(columns)
            while names and _is_formatted(names[-1], columns[names[-1]]):
                names.pop()
            ending = [columns[name] for name in list(columns)[len(names) :]]
            rows = len(next(iter(columns.values())))
            numbers = np.stack(ending, axis=1) if ending else np.empty((rows, 0))
            form = ",%.6g" * len(ending) + "\r\n"
            beginnings = zip(*(_format_cells(name, columns[name]) for name in names), strict=True)
            for cells, row in zip(beginnings, numbers, strict=True):
                table.writerow(cells)
                file.write(form % tuple(row.tolist()))

        yield add


def _format_cells(name: str, values: np.ndarray) -> Iterable[object]:
    """The values as they are written. Python numbers are written twice as fast as those of numpy."""
    if _is_formatted(name, values):
        return [f"{value:.6g}" for value in values.tolist()]
    return values if values.dtype.kind == "f" else values.tolist()


def _is_formatted(name: str, values: np.ndarray) -> bool:
    """Whether these are numbers that are written with six digits: all but coordinates."""
    return values.dtype.kind == "f" and name not in ("x", "y")


@contextmanager
def _parquet_file(place: Path) -> Iterator[Callable[[Columns], None]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer: pq.ParquetWriter | None = None
    waiting: list[pa.Table] = []

    def flush() -> None:
        nonlocal writer
        if waiting:
            table = pa.concat_tables(waiting)
            writer = writer or pq.ParquetWriter(place, table.schema)
            writer.write_table(table)
            waiting.clear()

    def add(columns: Columns) -> None:
        waiting.append(pa.table({name: np.ascontiguousarray(values) for name, values in columns.items()}))
        if sum(map(len, waiting)) >= ROWS_PER_GROUP:
            flush()

    try:
        yield add
        flush()
    finally:
        if writer is not None:
            writer.close()


WRITERS = {".csv": _csv_file, ".parquet": _parquet_file}
