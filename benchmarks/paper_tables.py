"""The runs of the paper's tables at full length: one queue that can be stopped at any moment and continued.

    nvidia-cuda-mps-control -d  # lets trainings share one GPU well
    python benchmarks/paper_tables.py --jobs 5 --minutes 30 --out results/paper/paper-1500-epochs.jsonl

Cells run in the order of BLOCKS; `--blocks a,c` takes some of them. Each is one training of 1,500 epochs, one seed per
fold. On one H200 a cell takes 76 s alone, its start included (n = 1); six side by side took 51 s per cell (n = 31).

Each line of OUT is one finished cell: its result.json, its thinned learning curve, `train` (the same metrics on the
training bags) and `overestimation_per_bag` (instances predicted as the bag's class minus their true number, training
and test bags). Lines of mpem also have `left_out`: the number of training instances that it left out of the count, and
the share that is not of the bag's class among these, among all candidates and among all instances. A cell that has a
line is not run again. `majority report` on a folder with OUT makes the tables; overestimation.csv and .svg beside OUT
are made here.

The queue may be killed: the same command continues it, unfinished cells from their checkpoints in WORK. With
`--minutes`, a cell is started only if it should end in time, and cells that still run at the end are stopped.
Named sets are found as by the command (MAJORITY_DATA), svhn28.npz and oct_kermany_7801.npz in the current folder.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import numpy as np
from overestimation_tables import MAIN, SCENARIOS, write_overestimation
from provenance import commit

from majority import Bags, evaluate
from majority.errors import InputError
from majority.files import append_line, read_lines
from majority.predict.metrics import overestimation
from majority.recipes.mpem import LEFT_OUT
from majority.recipes.stages import STAGES
from majority.run.config import RunConfig
from majority.run.reopen import reopen
from majority.run.study import Cell, FinishedCell, run_cells
from majority.run.study.results import read_results
from majority.training.run_files import METRICS

EPOCHS = 1_500
TINY = {"backbone": "mlp", "training.epochs": 2}
REPORT_SECONDS, SPEED_SECONDS = 15, 60  # between two lines of progress; over which the speed is measured
START_SECONDS = 25  # of a cell: process, compilation, evaluation
APART_SECONDS = 60  # that a cell waits at most until the one started before it has trained an epoch
SLOWER_ALONE = 1.2  # the last cells have fewer beside them, and the GPU does less work per second


@dataclass(frozen=True)
class Grid:
    """Cells in order: fold by fold, then by source, method and scenario."""

    sources: Sequence[str]
    folds: Sequence[int]
    methods: Sequence[str]
    changes: dict = field(default_factory=dict)  # to the experiment of the paper
    scenarios: Sequence[str] = SCENARIOS

    def experiments(self) -> Iterator[RunConfig]:
        for fold, source, method, scenario in product(self.folds, self.sources, self.methods, self.scenarios):
            changes = {"recipe": "paper"} | self.changes
            settings = {"training.epochs": EPOCHS} | changes.pop("settings", {})
            grid = {"scenario": scenario, "fold": fold, "method": method}
            yield RunConfig.from_options(source, **grid, settings=settings, **changes)


CIFAR = ["cifar10"]
BLOCKS = {
    "a": [Grid(CIFAR, range(5), MAIN)],
    "b": [Grid(["pathmnist", "svhn28.npz"], range(3), MAIN)],
    "c": [
        Grid(CIFAR, [0], ["feature-mean", "attention", "additive"]),
        Grid(CIFAR, [0], ["additive-transmil"], {"method_options": {"attention": "published"}}),
        Grid(CIFAR, [0], ["count-only", "adjusted-mean"]),
        Grid(CIFAR, [0], ["feature-max", "feature-pnorm", "feature-lse"], {"settings": {"training.patience": 300}}),
        Grid(CIFAR, [0], ["additive"], {"settings": {"training.precision": "float32"}}, ["large"]),
    ],
    "d": [
        Grid(CIFAR, [0], ["count"], {"method_options": {"of": "counts"}}),
        Grid(CIFAR, [0], ["count"], {"recipe": "mpem", "settings": {"mpem.ratios": (0.3, 0.5, 0.7)}}),
    ],
    "e": [
        Grid(["oct_kermany_7801.npz"], range(3), MAIN),  # split by patient: the file names them
        Grid(CIFAR, [0], ["count", "log-mean"], {"seed": 1}),
        Grid(CIFAR, [0], ["count", "log-mean"], {"seed": 2}),
    ],
}


def cells_of(block: str, tiny: bool = False) -> dict[str, RunConfig]:
    """The experiments of a block by the names of their cells, which are their folders in WORK."""
    experiments = [experiment for grid in BLOCKS[block] for experiment in grid.experiments()]
    if tiny:
        experiments = [one.with_options(source="digits", bags=8, bag_size=8, settings=TINY) for one in experiments]
    return {_name(experiment): experiment for experiment in experiments}


def _name(experiment: RunConfig) -> str:
    data, words = experiment.bags, [experiment.method]
    words += [f"{option}-{value}" for option, value in experiment.method_options.items()]
    words += [experiment.recipe] if experiment.recipe != "paper" else []
    patience = experiment.settings.get("training.patience")
    words += [f"patience-{patience}"] if patience else []
    precision = experiment.settings.get("training.precision")
    words += [precision] if precision else []
    words += [f"seed-{experiment.seed}"] if experiment.seed else []
    return f"{Path(data.source).stem}/{data.scenario}/{'-'.join(words)}/fold{data.fold}"


def _planned(experiment: RunConfig) -> int:
    """The epochs of one training."""
    return experiment.settings["training.epochs"]


class Stopped(Exception):
    """The queue's time is over."""


class Queue:
    """Cells that wait, those that run in `jobs` processes, and the file of those that are done."""

    def __init__(self, cells: dict[str, RunConfig], out: Path, work: Path, device: str, about: dict):
        self.cells, self.out, self.work, self.device, self.about = cells, out, work, device, about
        self.waiting = deque(cells)
        self.running: dict[str, float] = {}  # name: when it started
        self.failed: list[str] = []
        self.began = time.monotonic()
        self.deadline = float("inf")
        self.epochs: deque[tuple[float, int]] = deque()  # when, how many there were in all cells
        self.started: list[str] = []
        self.starting, self.writing = threading.Lock(), threading.Lock()

    def run(self, jobs: int, minutes: float | None) -> None:
        if minutes is not None:
            self.deadline = self.began + 60 * minutes
        with ThreadPoolExecutor(jobs) as pool:
            threads = [pool.submit(self._work) for _ in range(jobs)]
            while wait(threads, timeout=REPORT_SECONDS).not_done:
                self._report()
        for thread in threads:
            thread.result()

    def stop(self, *_) -> None:
        self.deadline = 0.0

    def _work(self) -> None:
        while name := self._take_apart():
            try:
                self._end(name, self._train(name))
            except Stopped:
                self._say(f"{name} stopped after {self._epochs_of(name)} epochs: it continues from its checkpoint")
            finally:
                del self.running[name]

    def _take_apart(self) -> str | None:
        """One cell starts after the other: the next finds the network compiled, and the device is never idle while all
        of them start."""
        with self.starting:
            end = time.monotonic() + APART_SECONDS
            while self._is_starting() and time.monotonic() < min(end, self.deadline):
                time.sleep(0.2)
            return self._take()

    def _is_starting(self) -> bool:
        last = self.started[-1] if self.started else None
        return last in self.running and self._epochs_of(last) == 0

    def _take(self) -> str | None:
        if not self.waiting or not self._fits(self.waiting[0]):
            return None
        name = self.waiting.popleft()
        self.running[name] = time.monotonic()
        self.started.append(name)
        return name

    def _fits(self, name: str) -> bool:
        """Whether this cell and all that run should end in time. They share one device, so their work adds up."""
        epochs = sum(self._epochs_left(cell) for cell in (*list(self.running), name))
        speed = self._speed()
        needed = START_SECONDS + SLOWER_ALONE * epochs / speed if speed else 0.0
        return time.monotonic() + needed < self.deadline

    def _train(self, name: str) -> FinishedCell:
        def watch(state, done) -> None:
            if time.monotonic() > self.deadline:
                raise Stopped  # run_cells ends its process

        folder = self.work / name
        try:
            return run_cells([(folder, Cell(self.cells[name]))], self.work / "failures" / name, self.device, 1, watch)[
                0
            ]
        except InputError as error:
            return FinishedCell(folder, failure=str(error))

    def _end(self, name: str, done: FinishedCell) -> None:
        took = time.monotonic() - self.running[name]
        if done.failure:
            self.failed.append(name)
            self._say(f"{name} FAILED: {done.failure}\n{done.details}")
            return
        with self.writing:
            line = raw_line(name, done.folder, self.device) | self.about
            append_line(self.out, line)
        figures = " ".join(f"{part} {line[part]['instance_accuracy']:.4f}" for part in ("train", "test"))
        self._say(f"{name} done in {took:.0f} s: instance accuracy {figures}, epoch {line['best_epoch']}")

    def _report(self) -> None:
        self.epochs.append((time.monotonic(), sum(map(self._epochs_of, self.started))))
        while self.epochs[-1][0] - self.epochs[0][0] > SPEED_SECONDS:
            self.epochs.popleft()
        cells = ", ".join(f"{name} {self._epochs_of(name)}" for name in list(self.running))
        self._say(f"{len(self.waiting)} waiting, {self._speed():.1f} epochs per second; {cells}")

    def _speed(self) -> float:
        """Epochs per second of all cells together; 0 where it is not known yet."""
        if len(self.epochs) < 2:
            return 0.0
        (before, few), (now, many) = self.epochs[0], self.epochs[-1]
        return (many - few) / (now - before)

    def _epochs_of(self, name: str) -> int:
        return sum(file.read_bytes().count(b"\n") for file in (self.work / name).rglob(METRICS))

    def _epochs_left(self, name: str) -> int:
        experiment = self.cells[name]
        return max(
            0, _planned(experiment) * (1 + len(experiment.settings.get("mpem.ratios", ()))) - self._epochs_of(name)
        )

    def _say(self, line: str) -> None:
        print(f"{time.monotonic() - self.began:6.0f} s  {line}", flush=True)


def raw_line(name: str, folder: Path, device: str) -> dict:
    """The line of a finished run, with metrics of its training bags."""
    classifier, parts, _ = reopen(folder, device=device)
    outcomes = {part: evaluate(classifier.model, getattr(parts, part), device) for part in ("train", "test")}
    surplus = {
        part: overestimation(outcome.labels.winners, outcome.hard_counts, outcome.true_counts).tolist()
        for part, outcome in outcomes.items()
    }
    (line,) = read_results(folder)
    line |= {"cell": name, "train": outcomes["train"].summary(), "overestimation_per_bag": surplus}
    if "mpem" in line:
        file = np.load(folder / STAGES / f"r{line['mpem']['r']}" / LEFT_OUT)
        line["left_out"] = count_left_out(parts.train, file["candidates"], file["left_out"])
    return line


def count_left_out(train: Bags, candidates: np.ndarray, left_out: np.ndarray) -> dict[str, float | None]:
    """The number of instances that were left out; the share of them that are not of the bag's class; the same share of
    the candidates, and of all instances."""
    other = train.instance_labels != np.repeat(train.labels, train.sizes)

    def share_in(chosen: np.ndarray) -> float | None:
        return float(other[chosen].mean()) if chosen.any() else None

    return {
        "instances": int(left_out.sum()),
        "share_not_of_label": share_in(left_out),
        "share_not_of_label_candidates": share_in(candidates),
        "share_not_of_label_all": float(other.mean()),
    }


def finished_cells(out: Path) -> set[tuple[str, int]]:
    """The names of the cells in OUT and the epochs they were planned for. A last line that a kill cut short is
    removed: another would be appended to it."""
    if out.exists():
        content = out.read_bytes()
        os.truncate(out, content.rfind(b"\n") + 1)
    return {(line["cell"], line["plan"]["training"]["epochs"]) for line in read_lines(out)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the .jsonl file of finished cells; lines are appended")
    parser.add_argument("--work", type=Path, default=Path("runs/paper"), help="run folders, with their checkpoints")
    parser.add_argument("--blocks", default=",".join(BLOCKS))
    parser.add_argument("--only", default="", metavar="TEXT", help="cells whose name has this text, such as additive/")
    parser.add_argument("--limit", type=int, default=None, help="largest number of cells to run")
    parser.add_argument("--jobs", type=int, default=4, help="trainings side by side")
    parser.add_argument("--minutes", type=float, default=None, help="stop by then; 0: list what is missing")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tiny", action="store_true", help="to test the code: digits, an mlp, 8 bags of 8, 2 epochs")
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    options = parser.parse_args()
    blocks = options.blocks.split(",")
    if not set(blocks) <= set(BLOCKS):
        parser.error(f"--blocks {options.blocks}: choose from {','.join(BLOCKS)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    finished, cells = finished_cells(options.out), {}
    for block in blocks:
        every = {name: one for name, one in cells_of(block, options.tiny).items() if options.only in name}
        missing = {name: one for name, one in every.items() if (name, _planned(one)) not in finished}
        print(f"block {block}: {len(missing)} of {len(every)} cells to run", flush=True)
        cells |= missing
    cells = dict(list(cells.items())[: options.limit])
    if options.minutes == 0:
        print("\n".join(cells))
        return
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // options.jobs)))
    about = {"side_by_side": options.jobs, "commit": options.commit or commit()}
    queue = Queue(cells, options.out, options.work, options.device, about)
    before = {number: signal.signal(number, queue.stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        queue.run(options.jobs, options.minutes)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    write_overestimation(options.out)
    left = len(cells) - len({name for name, _ in finished_cells(options.out)} & cells.keys())
    print(f"{len(cells) - left} cells finished, {left} to go", flush=True)
    if queue.failed:
        raise SystemExit(f"failed: {', '.join(queue.failed)}")


if __name__ == "__main__":
    main()
