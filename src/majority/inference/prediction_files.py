"""Predictions as rows of a CSV or Parquet file, written batch by batch.

No more than a batch of probabilities is held, nor of instances where their store is on disk. What grows with the
input is what Bags hold of it: some numbers and names an instance, and a store in memory.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..data.bags import Bags
from ..errors import InputError
from ..files import write_atomically
from ..sources import is_custom_source
from .classifier import Classifier

ROWS_AT_ONCE = 65_536  # of a Parquet row group

Columns = dict[str, np.ndarray]  # name -> (rows,), the same names in every batch


def check_output_path(path: Path, sources: Iterable[str]) -> None:
    """Refuse a file that cannot be written, or that one of these sources is made of."""
    if path.suffix not in WRITERS or not path.parent.is_dir():
        raise InputError(f"--out {path}: give a file that ends in .csv or .parquet, in a folder that exists")
    for source in filter(is_custom_source, sources):
        place = Path(source).expanduser().resolve()
        if path.resolve() == place:
            raise InputError(f"--out {path} is the source itself: choose another file")
        if path.resolve().parent == place and path.suffix == ".csv":
            raise InputError(
                f"--out {path} lies in the source {source}, where tables are labels: choose another folder"
            )
    if path.suffix == ".parquet":
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            raise InputError(f"--out {path}: Parquet needs pyarrow: pip install pyarrow") from None


def write_predictions(path: Path, classifier: Classifier, parts: dict[str, Bags], source=None) -> int:
    """A row an instance: part, bag, which instance, x and y where known, class, probability of each class.

    An instance is known by its `path` where the source is a manifest of images, else by `instance`: its
    number within its bag's feature file, or its position in the source (the manifest's row below the header, rows
    without a filled cell not counted).
    """

    def batches() -> Iterator[Columns]:
        for part, bags in parts.items():
            for which, probabilities in classifier.stream(bags):
                yield _instance_rows(part, bags, which, probabilities, classifier.classes, source)

    return _write(path, batches())


def write_bag_predictions(path: Path, classifier: Classifier, parts: dict[str, Bags]) -> int:
    """A row a bag: part, bag, instances of each class, the majority, its share and its margin over the next."""

    def batches() -> Iterator[Columns]:
        for part, bags in parts.items():
            counts, majority, share, margin = classifier.predict_bags(bags)
            named = {f"n({name})": counts[:, c] for c, name in enumerate(classifier.classes)}
            columns = {"part": np.full(len(bags), part), "bag": _bag_names(bags, np.arange(len(bags)))}
            yield columns | named | {"majority": majority, "share": share, "margin": margin}

    return _write(path, batches())


def instance_ids(bags: Bags, positions: np.ndarray, source) -> tuple[str, np.ndarray]:
    """What the instances at these positions are known by, "path" or "instance", and each one's own."""
    if getattr(source, "paths", None) is not None:
        return "path", source.paths[bags.index[positions]]
    if getattr(source, "numbered_within_bags", False):
        return "instance", positions - bags.offsets[np.searchsorted(bags.offsets, positions, side="right") - 1]
    return "instance", bags.index[positions]


def _instance_rows(part: str, bags: Bags, which, probabilities, classes, source) -> Columns:
    positions, sizes = bags.positions(which), bags.sizes[which]
    columns = {"part": np.full(len(positions), part), "bag": np.repeat(_bag_names(bags, which), sizes)}
    kind, named = instance_ids(bags, positions, source)
    columns[kind] = named
    if bags.coordinates is not None:
        columns["x"], columns["y"] = bags.coordinates[positions].T
    columns["class"] = classes[probabilities.argmax(axis=1)]
    return columns | {f"p({name})": probabilities[:, c] for c, name in enumerate(classes)}


def _bag_names(bags: Bags, which: np.ndarray) -> np.ndarray:
    return which if bags.names is None else bags.names[which]


def _write(path: Path, batches: Iterator[Columns]) -> int:
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
    with place.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        begun = False

        def add(columns: Columns) -> None:
            nonlocal begun
            if not begun:
                table.writerow(columns)
                begun = True
            table.writerows(zip(*(_cells(name, values) for name, values in columns.items()), strict=True))

        yield add


def _cells(name: str, values: np.ndarray) -> Iterable:
    """As they are written; what numpy holds becomes Python's, which is written twice as fast."""
    if values.dtype.kind == "f":
        return values if name in ("x", "y") else [f"{value:.6g}" for value in values.tolist()]
    return values.tolist()


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
        if sum(map(len, waiting)) >= ROWS_AT_ONCE:
            flush()

    try:
        yield add
        flush()
    finally:
        if writer is not None:
            writer.close()


WRITERS = {".csv": _csv_file, ".parquet": _parquet_file}
