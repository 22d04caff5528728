"""Predictions in a folder of Parquet files, one per block of the source, so that many processes can write them.

A file is complete or absent, and a block whose file is there is not done again. Blocks do not depend on who classifies
them: shards, a Ray cluster and one process write the same files.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, count_noun
from ..files import read_json, retry_while_busy, write_shared_json
from ..io.custom import Block, ColumnNames
from ..io.custom.blocks import BLOCK_ROWS, Division, divide
from ..io.predictions import Columns, add_majority, bag_counts, check_pyarrow, instance_rows, write_rows
from ..log import Log, no_log
from ..predict.classifier import Classifier
from .cluster import LOCAL, LostTaskError, connect
from .folder import classifier_file, read_config
from .reopen import open_bags, read_options
from .shards import Shard

PARTS = "_parts.json"  # programs that read a folder of Parquet files leave out names with _
BAGS = "bags.parquet"
MAX_BLOCK_ROWS = 10**9
SHOWN = 3  # failed blocks, in a message
SECONDS_APART = 60  # between lines about progress


@dataclass(frozen=True)
class PartsRequest:
    """Which predictions of which bags."""

    run: Path
    source: Path
    out: Path
    by_bag: bool = False
    abstain_below: float | None = None
    names: ColumnNames | None = None
    device: str = "auto"

    def on_all_machines(self) -> PartsRequest:
        places = {name: getattr(self, name).expanduser().absolute() for name in ("run", "source", "out")}
        return replace(self, **places)

    def part(self, number: int) -> Path:
        """The file of a block. The counts of a block are hidden: only their sums over all blocks are a result."""
        return self.out / f"{'_counts' if self.by_bag else 'part'}-{number:06d}.parquet"


Order = tuple[PartsRequest, Block, int]


@dataclass(frozen=True)
class PartsOutcome:
    blocks: int  # of the source
    done: int  # of them that are in the folder now
    rows: int  # that this command wrote
    bags: int | None = None  # rows of bags.parquet, if it was written


def predict_blocks(
    request: PartsRequest,
    *,
    block_rows: int = BLOCK_ROWS,
    shard: Shard | None = None,
    on: str = LOCAL,
    log: Log = no_log,
) -> PartsOutcome:
    """Write the predictions of all bags of a source of your own into a folder, block by block.

    With a shard, only its blocks. With `on` = "ray", the blocks are tasks on a Ray cluster, whose nodes see all files
    under the same paths. With `by_bag`, the counts of all blocks are added when the last one is there.
    """
    request = request.on_all_machines()
    _check_places(request)
    classifier = Classifier.load(classifier_file(request.run), "cpu")
    options = read_options(classifier, read_config(request.run), labels=False, unlabelled=False, names=request.names)
    if not 1 <= block_rows <= MAX_BLOCK_ROWS:
        raise InputError(f"--block-rows {block_rows}: give 1 to {MAX_BLOCK_ROWS:,}")
    division = divide(request.source, options, block_rows)
    _check_whole_bags(request, classifier, division)
    _start(request, division, block_rows)
    numbers: Iterable[int] = range(len(division.blocks)) if shard is None else shard.take(range(len(division.blocks)))
    orders = [(request, division.blocks[n], n) for n in numbers if not request.part(n).exists()]
    rows = _collect(_one_by_one(orders) if on == LOCAL else _on_cluster(orders), len(orders), log)
    present = sum(request.part(n).exists() for n in range(len(division.blocks)))
    complete = present == len(division.blocks)
    bags = _join_counts(request, division, classifier) if request.by_bag and complete else None
    return PartsOutcome(len(division.blocks), present, rows, bags)


@dataclass(frozen=True)
class BlockOutcome:
    number: int
    rows: int = 0  # that were written
    logged: tuple[str, ...] = ()
    failure: str | None = None


def try_block(request: PartsRequest, block: Block, number: int) -> BlockOutcome:
    try:
        return predict_block(request, block, number)
    except (InputError, OSError, MemoryError) as error:
        return BlockOutcome(number, failure=f"block {number}: {error or 'there is not enough memory'}")


def predict_block(request: PartsRequest, block: Block, number: int) -> BlockOutcome:
    """Write the file of a block."""
    logged: list[str] = []

    def write() -> int:
        if request.part(number).exists():  # by another process that was given up too early
            return 0
        classifier, parts, source = open_bags(
            request.run,
            str(request.source),
            labels=False,
            names=request.names,
            device=request.device,
            block=block,
            log=logged.append,
        )
        if request.by_bag:
            return write_rows(request.part(number), bag_counts(classifier, parts, request.abstain_below))
        rows = instance_rows(classifier, parts, source, request.abstain_below)
        numbered = source.paths is None and not source.numbered_within_bags
        return write_rows(request.part(number), (_alike(columns, block.start * numbered) for columns in rows))

    return BlockOutcome(number, retry_while_busy(write), tuple(logged))


def _alike(columns: Columns, start: int) -> Columns:
    """The same columns of the same types in every file: instances by their row in the whole table."""
    if start:
        columns["instance"] = columns["instance"] + start
    return columns | {name: columns[name].astype(np.float64) for name in ("x", "y") if name in columns}


def _one_by_one(orders: list[Order]) -> Iterator[BlockOutcome]:
    for order in orders:
        yield try_block(*order)


def _on_cluster(orders: list[Order]) -> Iterator[BlockOutcome]:
    if not orders:
        return
    request = orders[0][0]
    with connect() as cluster:
        share, device = cluster.share(request.device)
        cluster.check_nodes(request.out, [request.run, request.source])
        on_nodes = [(replace(request, device=device), block, number) for request, block, number in orders]
        for i, future in cluster.run_all(try_block, on_nodes, share):
            try:
                yield cluster.result(future)
            except LostTaskError as error:
                yield BlockOutcome(orders[i][2], failure=f"block {orders[i][2]}: {error}")


def _collect(ended: Iterable[BlockOutcome], total: int, log: Log) -> int:
    """Log what blocks reported, each line once; return the rows. Blocks that failed are one error, after all others."""
    rows, failed, seen, last = 0, {}, set(), time.monotonic()
    for count, outcome in enumerate(ended, start=1):
        for line in outcome.logged:
            if line not in seen:
                seen.add(line)
                log(line)
        rows += outcome.rows
        if outcome.failure is not None:
            failed[outcome.number] = outcome.failure
        if time.monotonic() - last >= SECONDS_APART:
            log(f"{count} of {count_noun(total, 'block')}")
            last = time.monotonic()
    if failed:
        shown = "\n".join(failed[number] for number in sorted(failed)[:SHOWN])
        more = f"\nand {len(failed) - SHOWN} more" if len(failed) > SHOWN else ""
        cure = "correct them and repeat the command: it does what is missing"
        raise InputError(f"{len(failed)} of {count_noun(total, 'block')} failed: {cure}:\n{shown}{more}")
    return rows


def _check_places(request: PartsRequest) -> None:
    check_pyarrow(request.out)
    out, place = request.out.resolve(), request.source.resolve()
    if out == place or place in out.parents or out in place.parents:
        what = f"one of --out {request.out} and the source {request.source} contains the other"
        raise InputError(f"{what}: choose another folder")
    if request.out.exists() and not request.out.is_dir():
        raise InputError(f"--out {request.out} is a file: give a folder")
    if request.out.is_dir() and not (request.out / PARTS).exists() and any(_visible(request.out)):
        raise InputError(f"--out {request.out} holds other files: give a new or empty folder")


def _visible(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if not path.name.startswith("."))


def _check_whole_bags(request: PartsRequest, classifier: Classifier, division: Division) -> None:
    if classifier.model.head.needs_bag and not division.whole_bags:
        raise InputError(
            f"method {classifier.model.spec.method} classifies an instance only within its bag, and the blocks of "
            f"{request.source} may divide a bag: give a folder of feature files, or a file as --out"
        )


def _start(request: PartsRequest, division: Division, block_rows: int) -> None:
    """Write _parts.json, or check that the folder has parts of the same predictions."""
    classifier = hashlib.sha256(classifier_file(request.run).read_bytes()).hexdigest()
    facts: dict[str, Any] = {
        "format": "majority-parts-1",
        "classifier": classifier,
        "source": request.source.name,
        "files": division.fingerprint,
        "blocks": len(division.blocks),
        "block_rows": block_rows,
        "bags": request.by_bag,
        "abstain_below": request.abstain_below,
        "columns": None if request.names is None else asdict(request.names),
    }
    facts = json.loads(json.dumps(facts))
    request.out.mkdir(parents=True, exist_ok=True)
    path = request.out / PARTS
    if path.exists():
        before = read_json(path)
        changed = [name for name in facts if before.get(name) != facts[name]]
        if changed:
            shown = "; ".join(f"{name} is {before.get(name)}, not {facts[name]}" for name in changed[:SHOWN])
            raise InputError(f"--out {request.out} holds parts of other predictions ({shown}): choose another folder")
    write_shared_json(path, facts)


def _join_counts(request: PartsRequest, division: Division, classifier: Classifier) -> int:
    """Write bags.parquet: the counts of each bag over all blocks, in the order in which bags first occur."""
    import pandas as pd

    parts = [pd.read_parquet(request.part(number)) for number in range(len(division.blocks))]
    total = pd.concat(parts).groupby(["part", "bag"], sort=False, as_index=False).sum()
    columns = {str(name): total[name].to_numpy() for name in total}
    return retry_while_busy(lambda: write_rows(request.out / BAGS, [add_majority(classifier, columns)]))
