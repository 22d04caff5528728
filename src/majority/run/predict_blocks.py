"""Predictions in a folder of Parquet files, one per block of the source, so that many processes can write them.

A file is complete or absent, and a block whose file is there is not done again. Blocks do not depend on who classifies
them: shards, a Ray cluster and one process write the same files.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..errors import InputError, count_noun
from ..files import read_json, remove_leftovers, retry_while_busy, write_shared_json
from ..io import is_custom_source
from ..io.custom import Block
from ..io.custom.blocks import Division, divide
from ..io.predictions import WRITERS, Columns, add_majority, bag_counts, check_pyarrow, instance_rows, write_rows
from ..log import Log
from ..predict.classifier import Classifier
from .cluster import LOCAL, LostTaskError, Shard, check_on, connect, side_by_side
from .folder import classifier_file, read_config
from .reopen import open_bags, read_options

PARTS = "_parts.json"  # programs that read a folder of Parquet files leave out names with _
BAGS = "bags.parquet"
SHOWN = 3  # failed blocks, in a message
SECONDS_APART = 60  # between lines about progress


@dataclass(frozen=True)
class Request:
    """Which predictions of which bags."""

    run: Path
    source: Path
    out: Path
    by_bag: bool = False
    abstain_below: float | None = None
    columns: dict[str, Any] | None = None
    device: str = "auto"

    def part(self, number: int) -> Path:
        """The file of a block. The counts of a block are hidden: only their sums over all blocks are a result."""
        return self.out / f"{'_counts' if self.by_bag else 'part'}-{number:06d}.parquet"


def predict_blocks(request: Request, block_rows: int, shard: str | None, on: str, log: Log) -> None:
    """Write the predictions of all bags of a source of your own into a folder, block by block.

    With a shard, only its blocks. With `on` = "ray", the blocks are tasks on a Ray cluster, whose nodes see all files
    under the same paths. With `by_bag`, the counts of all blocks are added when the last one is there.
    """
    check_on(on)
    part = Shard.parse(shard or "1/1")
    out = request.out
    _check_places(request)
    classifier = Classifier.load(classifier_file(request.run), "cpu")
    options = read_options(
        classifier, read_config(request.run), labels=False, unlabelled=False, columns=request.columns
    )
    if block_rows < 1:
        raise InputError(f"--block-rows {block_rows}: give 1 or more")
    places = {name: getattr(request, name).expanduser().absolute() for name in ("run", "source", "out")}
    request = replace(request, **places)  # the same on all machines
    division = divide(request.source, options, block_rows)
    if classifier.model.head.needs_bag and not division.whole_bags:
        raise InputError(
            f"method {classifier.model.spec.method} classifies an instance only within its bag, and the blocks of "
            f"{request.source} may divide a bag: give a folder of feature files, or a file as --out"
        )
    _start(request, division, block_rows)
    blocks = [*enumerate(division.blocks)]
    missing = [(request, block, number) for number, block in part.take(blocks) if not request.part(number).exists()]
    rows = _run(missing, on, log)
    remove_leftovers(request.out)
    done = sum(request.part(number).exists() for number, _ in blocks)
    if request.by_bag and done == len(blocks):
        log(f"{count_noun(_join_counts(request, len(blocks), classifier), 'bag')}: {out / BAGS}")
        return
    written = f"{count_noun(rows, 'row')} written; " if rows else ""
    log(f"{written}{done} of {count_noun(len(blocks), 'block')} done: {out}")
    if request.by_bag:
        log("After all shards, repeat the command without --shard: it adds the counts of all blocks")


# ---------------------------------------------------------------------- one block

Order = tuple[Request, Block, int]
Ended = tuple[int, list[str], str | None]  # rows that were written, lines that were logged, why it failed


def try_block(request: Request, block: Block, number: int) -> Ended:
    logged: list[str] = []
    try:
        rows = retry_while_busy(lambda: predict_block(request, block, number, logged.append))
        return rows, logged, None
    except (InputError, OSError, MemoryError) as error:
        return 0, logged, f"block {number}: {error or 'there is not enough memory'}"


def predict_block(request: Request, block: Block, number: int, log: Log) -> int:
    """Write the file of a block; return how many rows it has."""
    if request.part(number).exists():  # by another process that was given up too early
        return 0
    source = str(request.source)
    classifier, parts, opened = open_bags(
        request.run, source, labels=False, columns=request.columns, device=request.device, block=block, log=log
    )
    if request.by_bag:
        return write_rows(request.part(number), bag_counts(classifier, parts, request.abstain_below))
    rows = instance_rows(classifier, parts, opened, request.abstain_below)
    numbered = opened.paths is None and not opened.numbered_within_bags
    return write_rows(request.part(number), (_alike(columns, block.start * numbered) for columns in rows))


def _alike(columns: Columns, start: int) -> Columns:
    """The same columns of the same types in every file: instances by their row in the whole table."""
    if start:
        columns["instance"] = columns["instance"] + start
    return columns | {name: columns[name].astype(np.float64) for name in ("x", "y") if name in columns}


# ---------------------------------------------------------------------- all blocks


def _run(orders: Sequence[Order], on: str, log: Log) -> int:
    """Log what blocks reported, each line once; return the rows. Blocks that failed are one error, after all others."""
    rows, failures, seen, last = 0, list[str](), set[str](), time.monotonic()
    ended = (try_block(*order) for order in orders) if on == LOCAL else _on_cluster(orders)
    for count, (written, lines, failure) in enumerate(ended, start=1):
        rows += written
        for line in lines:
            if line not in seen:
                log(line)
            seen.add(line)
        failures += filter(None, [failure])
        if time.monotonic() - last >= SECONDS_APART:
            log(f"{count} of {count_noun(len(orders), 'block')}")
            last = time.monotonic()
    if failures:
        shown = "\n".join(sorted(failures)[:SHOWN])
        cure = "correct them and repeat the command: it does what is missing"
        raise InputError(f"{len(failures)} of {count_noun(len(orders), 'block')} failed: {cure}:\n{shown}")
    return rows


def _on_cluster(orders: Sequence[Order]) -> Iterator[Ended]:
    if not orders:
        return
    request = orders[0][0]
    with connect(request.device, paths=[request.out, request.run, request.source]) as cluster:
        request = replace(request, device=cluster.device)

        def attempt(order: Order) -> Ended:
            try:
                return cluster.call(try_block, request, *order[1:])
            except LostTaskError as error:
                return 0, [], f"block {order[2]}: {error}"

        yield from filter(None, side_by_side([attempt] * cluster.slots, orders, []))


def _check_places(request: Request) -> None:
    out, source = request.out, request.source
    if out.suffix in WRITERS and not out.is_dir():
        raise InputError(f"--out {out}: --shard and --on write a folder of Parquet files: give a folder as --out")
    if not is_custom_source(source):
        what = f"--out {out} is a folder, for bags of your own, not for {source}"
        raise InputError(f"{what}: give a table or a folder as SOURCE, or a file as --out")
    check_pyarrow(out)
    places = out.resolve(), source.resolve()
    if places[0].is_relative_to(places[1]) or places[1].is_relative_to(places[0]):
        raise InputError(f"one of --out {out} and the source {source} contains the other: choose another folder")
    if out.is_dir() and not (out / PARTS).exists() and any(not path.name.startswith(".") for path in out.iterdir()):
        raise InputError(f"--out {out} holds other files: give a new or empty folder")


def _start(request: Request, division: Division, block_rows: int) -> None:
    """Write _parts.json, or check that the folder has parts of the same predictions."""
    facts: dict[str, Any] = {
        "format": "majority-parts-1",
        "classifier": hashlib.sha256(classifier_file(request.run).read_bytes()).hexdigest(),
        "source": request.source.name,
        "files": division.fingerprint,
        "blocks": len(division.blocks),
        "block_rows": block_rows,
        "bags": request.by_bag,
        "abstain_below": request.abstain_below,
        "columns": request.columns,
    }
    request.out.mkdir(parents=True, exist_ok=True)
    path = request.out / PARTS
    before = read_json(path) if path.exists() else facts
    changed = [f"{name} is {before.get(name)}, not {facts[name]}" for name in facts if before.get(name) != facts[name]]
    if changed:
        shown = "; ".join(changed[:SHOWN])
        raise InputError(f"--out {request.out} holds parts of other predictions ({shown}): choose another folder")
    write_shared_json(path, facts)


def _join_counts(request: Request, blocks: int, classifier: Classifier) -> int:
    """Write bags.parquet: the counts of each bag over all blocks, in the order in which bags first occur."""
    parts = [pd.read_parquet(request.part(number)) for number in range(blocks)]
    total = pd.concat(parts).groupby(["part", "bag"], sort=False, as_index=False).sum()
    columns = {str(name): total[name].to_numpy() for name in total}
    return retry_while_busy(lambda: write_rows(request.out / BAGS, [add_majority(classifier, columns)]))
