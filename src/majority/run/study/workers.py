"""The cells of a study are trained side by side: by processes on this machine, or by tasks on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ...cores import usable_cores
from ...data.device import choose_device
from ...errors import InputError, TrainingError
from ...files import append, retry_while_busy
from ...io import Source, describe, load
from ...registry import load_plugins
from ..cluster import LOCAL, Ended, LostTaskError, Shard, connect, side_by_side
from ..config import Reading, RunConfig
from ..data import open_source, path_of
from ..experiment import How, finished_result, run_experiment
from ..folder import LOCK
from ..record import read_result
from ..trackers import create_trackers

WORKERS_PER_GPU = 2  # one run starts and evaluates while the other trains
CONTEXT = multiprocessing.get_context("spawn")
DIED = "its process was killed, perhaps because memory ran out: use fewer --jobs"


@dataclass(frozen=True)
class Cell:
    config: RunConfig
    varied: dict[str, Any] = field(default_factory=dict)  # the options by which a study tells its cells apart


@dataclass(frozen=True)
class FinishedCell:
    """A cell that has ended: its result, or the reason of its failure in one line."""

    folder: Path
    result: dict[str, Any] | None = None
    failure: str | None = None
    details: str = ""  # of a failure: the traceback


@dataclass
class State:
    """The progress of a list of cells."""

    cells: dict[Path, Cell]
    out: Path
    finished: dict[Path, FinishedCell] = field(default_factory=dict)
    running: list[Path] = field(default_factory=list)


Call = Callable[..., Any]  # a function, with its arguments, in another process
Watch = Callable[[State, FinishedCell | None], None]  # called at every poll, and with each cell that ends


def run_cells(
    cells: Sequence[tuple[Path, Cell]],
    out: Path,
    device: str = "auto",
    jobs: int | None = None,
    watch: Watch = lambda state, cell: None,
    shard: Shard | None = None,
    on: str = LOCAL,
    trackers: Sequence[str] = (),
) -> list[FinishedCell]:
    """Train every cell that is not finished; return how each one ended, in the order given.

    A cell that fails is recorded in OUT/failures.txt and does not stop the others. `jobs` is the number of processes
    on a CPU, and the number of processes per GPU on GPUs. The cells of a shard have their own file of failures. With
    `on` = "ray", the cells are tasks on a Ray cluster, which sees the run folders under the same path.
    """
    state = State(dict(cells), out)
    for folder, cell in cells:
        if result := finished_result(cell.config, folder):
            state.finished[folder] = FinishedCell(folder, result)
    waiting = [folder for folder in state.cells if folder not in state.finished]
    failures = out / ("failures.txt" if shard is None else f"failures-{shard.file_name}.txt")
    failures.unlink(missing_ok=True)
    watch(state, None)
    if waiting:
        out.mkdir(parents=True, exist_ok=True)
        with _workers(state, waiting, device, jobs, on) as (calls, chosen):

            def train(call: Call, folder: Path) -> FinishedCell:
                place = Path(os.path.abspath(folder))
                try:
                    ended: FinishedCell = call(train_cell, state.cells[folder], place, chosen, trackers, on != LOCAL)
                except LostTaskError as error:
                    return FinishedCell(folder, failure=str(error))
                return replace(ended, folder=folder)  # as this command names it

            for ended in side_by_side([partial(train, call) for call in calls], waiting, state.running):
                if ended is not None:
                    state.finished[ended.folder] = ended
                    if ended.failure:
                        append(failures, f"{ended.folder}: {ended.failure}\n{ended.details}".rstrip() + "\n\n")
                watch(state, ended)
    return [state.finished[folder] for folder, _ in cells]


def shard_lock(shard: Shard | None) -> str:
    """The name of the lock file that a command holds in the folder of the study."""
    return LOCK if shard is None else f".shard-{shard.file_name}{LOCK}"


# ---------------------------------------------------------------------- one cell, in a process that trains many


OPENED: dict[str, Source] = {}  # the source of the last cell of this process, for the next


def train(cell: Cell, folder: Path, device: str, trackers: Sequence[str]) -> None:
    bags = cell.config.bags
    name = bags.model_dump_json(include=Reading.model_fields.keys() | {"source"})
    if name not in OPENED:
        OPENED.clear()  # free the memory of one source before the next is read
        OPENED[name] = open_source(bags)
    run_experiment(cell.config, folder, How(device, callbacks=create_trackers(trackers)), OPENED[name], cell.varied)


def train_cell(
    cell: Cell, folder: Path, device: str, trackers: Sequence[str] = (), keep_trying: bool = False
) -> FinishedCell:
    """In a process that trains many cells. A failure has details if it was unexpected.

    With `keep_trying`, a folder in which another process works is waited for: on a cluster, the node of an earlier
    attempt may be unreachable, but its process still alive for a while.
    """
    attempt = partial(train, cell, folder, device, trackers)
    try:
        load_plugins()
        retry_while_busy(attempt) if keep_trying else attempt()
        return FinishedCell(folder, read_result(folder))
    except (InputError, TrainingError) as error:
        return FinishedCell(folder, failure=str(error))
    except (Exception, SystemExit) as error:
        failure = f"{type(error).__name__}: {error}".splitlines()[0]
        return FinishedCell(folder, failure=failure, details=traceback.format_exc())


# ---------------------------------------------------------------------- where cells are trained


@contextmanager
def _workers(
    state: State, waiting: Sequence[Path], device: str, jobs: int | None, on: str
) -> Iterator[tuple[list[Call], str]]:
    """Functions that call others elsewhere: in processes on this machine, or on the nodes of a Ray cluster, as many as
    it has room for now; and the device there."""
    bags = [state.cells[folder].config.bags for folder in waiting]
    if on != LOCAL:
        sources = sorted({Path(path) for path in map(path_of, bags) if path})
        with connect(device, jobs, [state.out.absolute(), *sources]) as cluster:
            yield [cluster.call] * cluster.slots, cluster.device
        return
    chosen = choose_device(device)
    on_gpu = chosen.type == "cuda"
    needed = {of.source for of in bags}
    for named in describe():
        if named.name in needed and not named.locate()[0]:
            load(named.name)  # downloaded once, with visible progress, before several processes need it
    environments = worker_environments(on_gpu, jobs, len(state.cells), chosen.index)[: len(waiting)]
    processes = [*map(ProcessWorker, environments)]
    try:
        yield [process.call for process in processes], "cuda" if on_gpu else device
    finally:
        for process in processes:
            process.kill()


def worker_environments(on_gpu: bool, jobs: int | None, cells: int, gpu: int | None = None) -> list[dict[str, str]]:
    """The environment variables of each process: its number of threads and its GPU (`gpu`, or all in turn).

    The number of threads depends on all cells, finished or not, so that a study computes the same after a restart.
    """
    gpus: list[dict[str, str]] = [{}]
    if on_gpu:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]
        gpus = [{"CUDA_VISIBLE_DEVICES": name} for name in (names if gpu is None else [names[gpu]])]
    each = jobs or (WORKERS_PER_GPU if on_gpu else max(1, min(usable_cores(), cells)))
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, usable_cores() // (each * len(gpus))))
    return [{"OMP_NUM_THREADS": threads} | of_gpu for _ in range(each) for of_gpu in gpus]


class ProcessWorker:
    """A process that trains one cell after another; a pool of its own, so that its death is the failure of its cell."""

    starting = threading.Lock()  # the environment of this process is that of the one that starts

    def __init__(self, environment: dict[str, str]):
        self.environment, self.ended = environment, False
        self.pool: ProcessPoolExecutor | None = None

    def call(self, function: Callable[..., Ended], *arguments: Any) -> Ended:
        try:
            with self.starting:
                if self.ended:
                    raise BrokenProcessPool
                before = dict(os.environ)
                os.environ.update(self.environment)
                try:
                    self.pool = self.pool or ProcessPoolExecutor(1, CONTEXT, _prepare_process)
                    answer = self.pool.submit(function, *arguments)
                finally:
                    os.environ.clear()
                    os.environ.update(before)
            ended = answer.result()
            if isinstance(ended, FinishedCell) and ended.details:  # the next cell gets a fresh process
                self._end_process()
            return ended
        except BrokenProcessPool:
            self._end_process()
            raise LostTaskError(DIED) from None

    def kill(self) -> None:
        """End the process, also in the middle of a cell, for good."""
        with self.starting:
            self.ended = True
            self._end_process()

    def _end_process(self) -> None:
        pool, self.pool = self.pool, None
        if pool is not None:
            for process in [*(pool._processes or {}).values()]:  # `kill_workers`, from Python 3.14 on
                process.kill()
            pool.shutdown(cancel_futures=True)


def _prepare_process() -> None:
    """In the process: it ends with its parent, which also handles Ctrl-C; nothing of what libraries print is shown."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for output in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), output)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # releases the run folder at once, even in the middle of an epoch
