"""Workers that train the cells of a study side by side: processes on this machine, or tasks on a Ray cluster."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch

from ...cores import usable_cores
from ...data.device import choose_device
from ...errors import InputError, TrainingError
from ...files import append
from ...io import describe, load
from ...registry import load_plugins
from ..cluster import LOCAL
from ..experiment import finished_result
from ..folder import LOCK, read_result
from ..shards import Shard
from .cells import Cell, CellTrainer, FinishedCell, State, cell_order
from .ray_workers import ray_workers

WORKERS_PER_GPU = 2  # one run starts and evaluates while the other trains
MAX_JOBS = 1_024
POLL_SECONDS = 0.5
KILLED = 9  # signal.SIGKILL, which Windows does not have
PROGRAM = "from majority.run.study.workers import run_worker; run_worker()"


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
    for folder, cell in cells:
        if result := finished_result(cell.config, folder):
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
                ended = worker.end_cell()
                seconds = time.monotonic() - state.running.pop(ended.folder)
                state.finished[ended.folder] = ended
                if ended.failure:
                    _record_failure(failures, ended)
                else:
                    state.seconds.append(seconds)
                watch(state, ended)
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
    """The parent's side of a process. It gets each cell as a line of JSON and answers with a line when it has ended."""

    def __init__(self, environment: dict[str, str], device: str):
        self.environment = os.environ | environment
        self.device = device
        self.folder: Path | None = None  # of the cell in training
        self._start_process()

    def _start_process(self) -> None:
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `kill`)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", PROGRAM],
            env=self.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stdin, self.stdout = self.process.stdin, self.process.stdout

    def start_cell(self, folder: Path, cell: Cell, trackers: Sequence[str] = ()) -> None:
        if self.process.poll() is not None:  # it died, with the last cell or without one
            self.kill()
            self._start_process()
        self.stderr.seek(0)  # the process shares this position: details belong to one cell
        self.stderr.truncate()
        order = cell_order(folder, cell, self.device, trackers)
        with suppress(BrokenPipeError):  # `end_cell` reports it
            self.stdin.write(json.dumps(order).encode() + b"\n")
            self.stdin.flush()
        self.folder = folder
        self.answer: Future[bytes] = Future()
        threading.Thread(target=self._read_answer, args=(self.answer,), daemon=True).start()

    def _read_answer(self, answer: Future[bytes]) -> None:
        """Run in a thread: Windows has no select() for pipes."""
        answer.set_result(self.stdout.readline())

    def end_cell(self) -> FinishedCell:
        assert self.folder is not None
        folder, self.folder = self.folder, None
        answer = self.answer.result()
        if answer.endswith(b"\n"):
            failure = json.loads(answer)["failure"]
            return FinishedCell(folder, failure=failure) if failure else FinishedCell(folder, read_result(folder))
        code = self.process.wait()
        self.stderr.seek(0)
        details = self.stderr.read().decode(errors="replace").strip()
        if code == -KILLED:
            failure = "the process was killed (signal 9), perhaps because memory ran out: use fewer --jobs"
        elif code < 0:
            failure = f"the process was killed ({signal.Signals(-code).name})"
        else:
            failure = details.splitlines()[-1] if "Traceback" in details else f"the process ended with exit code {code}"
        return FinishedCell(folder, failure=failure, details=details)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.stdin, self.stdout, self.stderr):
            with suppress(BrokenPipeError):  # an order that was never read
                pipe.close()


def run_worker() -> None:
    """The process itself: reads cells from standard input and answers each on standard output, until input ends.

    An unexpected error ends the process, and the next cell gets a fresh one.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    orders: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_read_orders, args=(orders,), daemon=True).start()
    trainer = CellTrainer()
    try:
        load_plugins()
        while order := orders.get():
            failure = None
            try:
                trainer.train(order)
            except (InputError, TrainingError) as error:
                failure = str(error)
            print(json.dumps({"failure": failure}), file=answers, flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # does not wait for threads


def _read_orders(orders: queue.SimpleQueue[dict[str, Any]]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(1)  # the parent was killed: release the run folder at once, even in the middle of an epoch


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
