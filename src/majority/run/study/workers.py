"""Workers that train the cells of a study side by side: processes on this machine, or tasks on a Ray cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path

import torch

from ...cores import usable_cores
from ...data.device import choose_device
from ...errors import InputError
from ...files import append
from ...io import describe, load
from ..cluster import LOCAL
from ..experiment import finished_result
from ..folder import LOCK
from ..shards import Shard
from .cells import Cell, FinishedCell, State, finished_cell, train_cell
from .ray_workers import ray_workers

WORKERS_PER_GPU = 2  # one run starts and evaluates while the other trains
MAX_JOBS = 1_024
POLL_SECONDS = 0.5
CONTEXT = multiprocessing.get_context("spawn")
DIED = "its process was killed, perhaps because memory ran out: use fewer --jobs"

Watch = Callable[[State, FinishedCell | None], None]  # called at every poll, and with each cell that ends


def no_watch(state: State, cell: FinishedCell | None) -> None:
    pass


def run_cells(
    cells: Sequence[tuple[Path, Cell]],
    out: Path,
    device: str = "auto",
    jobs: int | None = None,
    watch: Watch = no_watch,
    shard: Shard | None = None,
    on: str = LOCAL,
    trackers: Sequence[str] = (),
) -> list[FinishedCell]:
    """Train every cell that is not finished; return how each one ended, in the order given.

    A cell that fails is recorded in OUT/failures.txt and does not stop the others. `jobs` is the number of processes
    on a CPU, and the number of processes per GPU on GPUs. The cells of a shard have their own file of failures. With
    `on` = "ray", the cells are tasks on a Ray cluster, which sees the run folders under the same path.
    """
    check_jobs(jobs)
    state = State(dict(cells), out)
    for folder, each in cells:
        if result := finished_result(each.config, folder):
            state.finished[folder] = FinishedCell(folder, result)
    waiting = deque(folder for folder in state.cells if folder not in state.finished)
    failures = out / failures_name(shard)
    failures.unlink(missing_ok=True)
    watch(state, None)
    start = _local_workers if on == LOCAL else ray_workers
    with start(state, waiting, device, jobs) as workers:
        state.workers = len(workers)
        while len(state.finished) < len(state.cells):
            for worker in workers:
                if worker.folder is None and waiting:
                    folder = waiting.popleft()
                    worker.start_cell(folder, state.cells[folder], trackers)
                    state.running[folder] = time.monotonic()
            watch(state, None)
            busy = [worker for worker in workers if worker.folder]
            wait([worker.answer for worker in busy], POLL_SECONDS, FIRST_COMPLETED)
            for worker in (worker for worker in busy if worker.answer.done()):
                cell = worker.end_cell()
                seconds = time.monotonic() - state.running.pop(cell.folder)
                state.finished[cell.folder] = cell
                if cell.failure:
                    _record_failure(failures, cell)
                else:
                    state.seconds.append(seconds)
                watch(state, cell)
    return [state.finished[folder] for folder, _ in cells]


@contextmanager
def _local_workers(state: State, waiting: Sequence[Path], device: str, jobs: int | None) -> Iterator[Sequence[_Worker]]:
    """Processes on this machine."""
    chosen_device = choose_device(device)
    on_gpu = chosen_device.type == "cuda"
    environments = _worker_environments(on_gpu, jobs, len(state.cells), chosen_device.index)
    _download({state.cells[folder].config.bags.source for folder in waiting})
    workers = [_Worker(environment, "cuda" if on_gpu else device) for environment in environments[: len(waiting)]]
    try:
        yield workers
    finally:
        for worker in workers:
            worker.kill()


class _Worker:
    """A process that trains one cell after another; a pool of its own, so that its death is the failure of its cell."""

    def __init__(self, environment: dict[str, str], device: str):
        self.environment, self.device = environment, device
        self.folder: Path | None = None  # of the cell in training
        self.pool: ProcessPoolExecutor | None = None
        self.printed = tempfile.NamedTemporaryFile()  # noqa: SIM115 (what the process prints; removed with this object)

    def start_cell(self, folder: Path, cell: Cell, trackers: Sequence[str] = ()) -> None:
        self.folder = folder
        self.printed.seek(0)
        self.printed.truncate()  # details belong to one cell
        if self.pool is None:
            self.pool = ProcessPoolExecutor(1, CONTEXT, _prepare_process, (self.printed.name,))
        try:
            with _variables(self.environment):  # those with which the process starts
                self.answer = self.pool.submit(train_cell, cell, folder, self.device, trackers)
        except BrokenProcessPool:  # it died without a cell
            self.kill()
            self.start_cell(folder, cell, trackers)

    def end_cell(self) -> FinishedCell:
        assert self.folder is not None
        folder, self.folder = self.folder, None
        if self.answer.exception() is None:
            failure, details = self.answer.result()
            if details:  # the next cell gets a fresh process
                self.kill()
            return finished_cell(folder, failure, details)
        self.kill()
        details = self.printed.read().decode(errors="replace").strip()
        return FinishedCell(folder, failure=DIED, details=details)

    def kill(self) -> None:
        """End the process, also in the middle of a cell; the next cell starts another."""
        if self.pool is not None:
            for process in [*(self.pool._processes or {}).values()]:  # `kill_workers`, from Python 3.14 on
                process.kill()
            self.pool.shutdown(cancel_futures=True)
            self.pool = None


def _prepare_process(printed: str) -> None:
    """In the process: it ends with its parent, which also handles Ctrl-C; what libraries print goes to a file."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    file = os.open(printed, os.O_WRONLY | os.O_APPEND)
    os.dup2(file, 1)
    os.dup2(file, 2)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)  # releases the run folder at once, even in the middle of an epoch


@contextmanager
def _variables(values: dict[str, str]) -> Iterator[None]:
    """The environment variables have these values for a while."""
    before = dict(os.environ)
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _worker_environments(on_gpu: bool, jobs: int | None, cells: int, gpu: int | None = None) -> list[dict[str, str]]:
    """The environment variables of each process: its number of threads and its GPU (`gpu`, or all in turn).

    The number of threads depends on all cells, finished or not, so that a study computes the same after a restart.
    """
    cores = usable_cores()
    names = _gpu_names() if gpu is None else [_gpu_names()[gpu]]
    gpus: list[dict[str, str]] = [{"CUDA_VISIBLE_DEVICES": name} for name in names] if on_gpu else [{}]
    each = jobs or (WORKERS_PER_GPU if on_gpu else max(1, min(cores, cells)))
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores // (each * len(gpus))))
    return [{"OMP_NUM_THREADS": threads} | visible for _ in range(each) for visible in gpus]


def check_jobs(jobs: int | None) -> None:
    if jobs is not None and not 1 <= jobs <= MAX_JOBS:
        raise InputError(f"--jobs {jobs}: give a number from 1 to {MAX_JOBS}")


def _gpu_names() -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]


def _download(sources: set[str]) -> None:
    """Download published files once, with visible progress, before several processes need them."""
    for info in describe():
        if info.name in sources and not info.available:
            load(info.name)


def shard_lock(shard: Shard | None) -> str:
    """The name of the lock file that a command holds in the folder of the study."""
    return LOCK if shard is None else f".shard-{shard.file_name}{LOCK}"


def failures_name(shard: Shard | None) -> str:
    return "failures.txt" if shard is None else f"failures-{shard.file_name}.txt"


def _record_failure(path: Path, cell: FinishedCell) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    append(path, "\n".join(filter(None, [f"{cell.folder}: {cell.failure}", cell.details])) + "\n\n")
