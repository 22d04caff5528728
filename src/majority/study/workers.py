"""Cells side by side: a few processes, each of which takes one cell after another."""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch

from ..data.device import choose_device
from ..errors import InputError, TrainingError
from ..experiments.data import Data
from ..experiments.experiment import Experiment
from ..experiments.run_folder import RESULT
from ..files import append, read_json
from ..plugins import load_plugins
from ..sources import describe, load

FAILURES = "failures.txt"
PER_GPU = 2  # one run's start and evaluation hide behind another's training
LOOK_SECONDS = 0.5  # between two looks at what is running
PROGRAM = "from majority.study.workers import work; work()"


@dataclass(frozen=True)
class Done:
    """A cell that has ended: its result, or one line that says why there is none."""

    folder: Path
    result: dict | None = None
    failure: str | None = None
    details: str = ""  # of a failure: the traceback


@dataclass
class State:
    """Where a list of cells stands, for whoever watches."""

    cells: dict[Path, Experiment]
    out: Path
    done: dict[Path, Done] = field(default_factory=dict)
    running: dict[Path, float] = field(default_factory=dict)  # folder: when it began
    seconds: list[float] = field(default_factory=list)  # that each cell trained by this command took
    workers: int = 0
    began: float = field(default_factory=time.monotonic)


Watch = Callable[[State, Done | None], None]  # called at every look, and with each cell that ends


def run_cells(
    cells: Sequence[tuple[Path, Experiment]],
    out: Path,
    device: str = "auto",
    jobs: int | None = None,
    watch: Watch = lambda state, done: None,
) -> list[Done]:
    """Train every cell that is not finished; how each ended, in the order given.

    A cell that fails is noted in OUT/failures.txt and does not stop the others. `jobs` are processes on a
    CPU, and processes a GPU on GPUs.
    """
    on_gpu = choose_device(device).type == "cuda"
    places = _places(on_gpu, jobs, len(cells))
    state = State(dict(cells), out)
    for folder, experiment in cells:
        if result := experiment.finished(folder):
            state.done[folder] = Done(folder, result)
    waiting = deque(folder for folder in state.cells if folder not in state.done)
    _download({state.cells[folder].data.source for folder in waiting})
    (out / FAILURES).unlink(missing_ok=True)
    watch(state, None)
    workers = [_Worker(place) for place in places[: len(waiting)]]
    state.workers = len(workers)
    try:
        while len(state.done) < len(state.cells):
            for worker in workers:
                if worker.folder is None and waiting:
                    folder = waiting.popleft()
                    worker.begin(folder, state.cells[folder], device)
                    state.running[folder] = time.monotonic()
            watch(state, None)
            busy = [worker for worker in workers if worker.folder]
            for worker in select.select(busy, [], [], LOOK_SECONDS)[0]:
                done = worker.end()
                took = time.monotonic() - state.running.pop(done.folder)
                state.done[done.folder] = done
                if done.failure:
                    _note(out, done)
                else:
                    state.seconds.append(took)
                watch(state, done)
    finally:
        for worker in workers:
            worker.kill()
    return [state.done[folder] for folder, _ in cells]


class _Worker:
    """A process, from this side: it gets a cell as a line of JSON and answers with a line when it has ended."""

    def __init__(self, place: dict[str, str]):
        self.environment = os.environ | place
        self.folder: Path | None = None  # of the cell that it works on
        self._start()

    def _start(self) -> None:
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed by `kill`)
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.stderr}
        self.process = subprocess.Popen([sys.executable, "-P", "-c", PROGRAM], env=self.environment, **pipes)

    def fileno(self) -> int:
        return self.process.stdout.fileno()

    def begin(self, folder: Path, experiment: Experiment, device: str) -> None:
        if self.process.poll() is not None:  # it died, with the last cell or while it had none
            self.kill()
            self._start()
        self.stderr.seek(0)  # the process shares the position: details are of one cell
        self.stderr.truncate()
        order = {"folder": str(folder), "device": device, "experiment": asdict(experiment)}
        with suppress(BrokenPipeError):  # `end` says so
            self.process.stdin.write(json.dumps(order).encode() + b"\n")
            self.process.stdin.flush()
        self.folder = folder

    def end(self) -> Done:
        folder, self.folder = self.folder, None
        answer = self.process.stdout.readline()
        if answer.endswith(b"\n"):
            failure = json.loads(answer)["failure"]
            return Done(folder, failure=failure) if failure else Done(folder, read_json(folder / RESULT))
        code = self.process.wait()
        self.stderr.seek(0)
        details = self.stderr.read().decode(errors="replace").strip()
        if code == -signal.SIGKILL:
            failure = "the process was killed (signal 9): perhaps out of memory; take fewer --jobs"
        elif code < 0:
            failure = f"the process was killed ({signal.Signals(-code).name})"
        else:
            failure = details.splitlines()[-1] if "Traceback" in details else f"the process ended with exit code {code}"
        return Done(folder, failure=failure, details=details)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout, self.stderr):
            with suppress(BrokenPipeError):  # an order that was never read
                pipe.close()


def work() -> None:
    """The process itself: cells from standard input, an answer each to standard output, until the other side is gone.

    An error that is no person's request gone wrong ends the process: the next cell gets a fresh one.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer
    orders: queue.SimpleQueue[dict] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    opened, source = None, None
    try:
        load_plugins()
        while order := orders.get():
            data = Data(**_as_set(order["experiment"].pop("data")))
            experiment = Experiment(data, **_as_set(order["experiment"]))
            failure = None
            try:
                if opened != (wanted := (data.source, data.image_size, data.features)):
                    opened, source = None, None  # let go of one before the next is read
                    opened, source = wanted, data.open()
                experiment.run(order["folder"], order["device"], source=source)
            except (InputError, TrainingError) as error:
                failure = str(error)
            print(json.dumps({"failure": failure}), file=answers, flush=True)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # without a wait for threads


def _listen(orders: queue.SimpleQueue[dict]) -> None:
    for line in sys.stdin:
        orders.put(json.loads(line))
    os._exit(1)  # the other side was killed: let go of the run folder, in the middle of an epoch too


def _as_set(fields: dict) -> dict:
    """JSON has no tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in fields.items()}


def _places(on_gpu: bool, jobs: int | None, cells: int) -> list[dict[str, str]]:
    """The environment of each process: its threads and its GPU.

    Threads depend on all cells, finished or not, so that a study that goes on computes as it began.
    """
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs {jobs}: give at least 1")
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    gpus = [{"CUDA_VISIBLE_DEVICES": name} for name in _gpu_names()] if on_gpu else [{}]
    each = jobs or (PER_GPU if on_gpu else max(1, min(cores, cells)))
    threads = os.environ.get("OMP_NUM_THREADS") or str(max(1, cores // (each * len(gpus))))
    return [{"OMP_NUM_THREADS": threads} | gpu for _ in range(each) for gpu in gpus]


def _gpu_names() -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",") if visible else [str(number) for number in range(torch.cuda.device_count())]


def _download(sources: set[str]) -> None:
    """Published files that are not here, once and in sight, before several processes want them."""
    for info in describe():
        if info.name in sources and not info.here:
            load(info.name)


def _note(out: Path, done: Done) -> None:
    out.mkdir(parents=True, exist_ok=True)
    append(out / FAILURES, "\n".join(filter(None, [f"{done.folder}: {done.failure}", done.details])) + "\n\n")
