"""Faults at every write of a command: killed, disk full, read-only, folder removed, a second command at once.

    python tests/nightly/kills.py               # every recipe, the study, predict, report: every fault at every write
    python tests/nightly/kills.py --only quick --faults kill,full --points 5

A write is everything that changes the output folder: a file opened for writing, renamed or removed, a folder made or
removed. At the k-th write the fault happens. Then the same command is repeated: it must end with exit code 0 and, byte
for byte, with the files of a command without faults. Each command runs in a fork of this process, which has imported
everything, with a clock that stands still, so that no file holds a duration.

kill       the process is killed (SIGKILL) before the write
half       ... and the file that it wrote last is cut to half of what it wrote
full       this write and all later ones fail: no space left on the device. One message, exit code 2
read-only  the same with: read-only file system
removed    the output folder is removed. One message or a result, no traceback
second     the process is stopped; a second command in the same folder is refused and changes nothing; the first goes on
clock      killed, and all files that it left are dated one day ahead, as if the clock was set back
"""

from __future__ import annotations

import argparse
import errno
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HANG_SECONDS = 300  # of one command; most take less than one second
FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
ERRORS = {"full": errno.ENOSPC, "read-only": errno.EROFS}
FAULTS = ("kill", "half", "full", "read-only", "removed", "second", "clock")
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}


class Case(NamedTuple):
    name: str
    words: str  # the command; OUT stands for its output
    before: Callable[[Path], object] = lambda work: None  # fills the folder in which it works


class Ended(NamedTuple):
    code: int  # negative: the signal that killed it
    printed: str
    writes: list[str]  # "event path", below the folder in which it works


def cases(source: str) -> list[Case]:
    """A short command for every recipe, for the study, and for those that write one file."""
    bags = "--bags 10 --bag-size 4 --device cpu"
    train = f"train {source} {bags} --out OUT/run --recipe"
    quick = f"{train} quick --method log-mean --epochs 2"
    study = f"study {source} {bags} --scenarios large --methods log-mean,vote --folds 0,1 --recipe quick --epochs 1"
    study += " --jobs 1 --out OUT/study"

    def write_bags(work: Path) -> None:
        work.mkdir(parents=True, exist_ok=True)
        rows = [f"{bag},{'ab'[bag % 2]},{bag % 2 + 0.1 * i},{0.1 * bag}" for bag in range(20) for i in range(4)]
        (work / "bags.csv").write_text("\n".join(["bag,bag_label,u,v", *rows]))

    def after(words: str) -> Callable[[Path], object]:
        return lambda work: run(words, work)

    def after_refit(work: Path) -> None:
        write_bags(work)
        run(refit, work)

    refit = "train OUT/bags.csv --recipe quick --method log-mean --epochs 2 --device cpu --refit --out OUT/run"
    census = "census --epochs 1 --set census.teacher_epochs=1 --backbone mlp"
    return [
        Case("quick", quick),
        Case("paper", f"{train} paper --method count --epochs 2 --backbone mlp"),
        Case("augmented", f"{train} augmented --method vote --epochs 2 --backbone mlp"),
        Case("mpem", f"{train} mpem --method count --epochs 1 --backbone mlp --set mpem.ratios=[0.5,1.0]"),
        Case("census", f"{train} {census}"),
        Case("corrected", f"{quick} --wrong-labels 0.2 --set assumed_wrong=0.4"),
        Case("refit", refit, write_bags),
        Case("study", study),
        Case("predict", "predict OUT/run --device cpu --out OUT/classes.csv", after(quick)),
        Case(
            "blocks", "predict OUT/run OUT/bags.csv --block-rows 30 --bags --device cpu --out OUT/blocks", after_refit
        ),
        Case("report", "report OUT/run", after(quick)),
        Case("study-report", "report OUT/study", after(study)),
    ]


# ---------------------------------------------------------------------- one command


def start(words: str, work: Path, output: Any, log: Any, fault: str = "", at: int | None = None) -> int:
    """Start the command in a fork of this process, with a fault at its write number `at` (from 0); its process id."""
    work.mkdir(parents=True, exist_ok=True)
    child = os.fork()
    if child == 0:
        _be_the_command(words.replace("OUT", str(work)).split(), output, _Fault(work, log, fault, at))
    return child


def run(words: str, work: Path, fault: str = "", at: int | None = None) -> Ended:
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as log:
        return finish(start(words, work, output, log, fault, at), output, log)


def wait(child: int, options: int = 0) -> int:
    """Wait until the process ends, or is stopped if the options say so; one that hangs is ended."""
    deadline = time.monotonic() + HANG_SECONDS
    while (ended := os.waitpid(child, os.WNOHANG | options))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGABRT)
        time.sleep(0.003)
    return ended[1]


def finish(child: int, output: Any, log: Any) -> Ended:
    code = os.waitstatus_to_exitcode(wait(child))
    output.seek(0)
    log.seek(0)
    return Ended(code, output.read(), log.read().splitlines())


def _be_the_command(words: list[str], output: Any, fault: _Fault) -> None:
    """Never returns."""
    from majority.cli.app import main
    from majority.training import checkpoint

    code = 70
    try:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        time.perf_counter = lambda: 0.0
        checkpoint.CHECKPOINT_SECONDS = 0  # a checkpoint after every epoch, in every run
        sys.argv = ["majority", *words]
        sys.addaudithook(fault)
        main()
    except SystemExit as stopped:
        code = int(stopped.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class _Fault:
    """An audit hook that numbers the writes below a folder and lets something happen before one of them."""

    def __init__(self, work: Path, log: Any, fault: str, at: int | None):
        self.work, self.log, self.fault, self.at = str(work), log, fault, at
        self.number = 0
        self.acts = True
        self.opened: tuple[str, int] | None = None  # the last write, if it opened a file: its path and its size before

    def __call__(self, event: str, arguments: tuple) -> None:
        if not self.acts or (event != "open" and event not in CHANGES):
            return
        if event == "open" and not (arguments[2] or 0) & FLAGS:
            return
        path = os.fsdecode(arguments[0]) if not isinstance(arguments[0], int) else ""
        if not path.startswith(self.work):
            return
        if self.at is not None and self.number >= self.at:
            self.happen(event, path)
        self.number += 1
        os.write(self.log.fileno(), f"{event} {path.removeprefix(self.work)}\n".encode())
        self.opened = None
        if event == "open" and not path.endswith(".lock"):
            appends = bool(arguments[2] & os.O_APPEND) and os.path.exists(path)
            self.opened = path, os.path.getsize(path) if appends else 0

    def happen(self, event: str, path: str) -> None:
        if self.fault in ERRORS:
            if self.fault == "read-only" or event in ("open", "os.mkdir"):  # a full disk removes and renames
                number = ERRORS[self.fault]
                raise OSError(number, os.strerror(number), path)
            return
        if self.number > self.at:
            return
        if self.fault == "half" and self.opened:
            name, before = self.opened
            os.truncate(name, (before + os.path.getsize(name)) // 2)
        if self.fault in ("kill", "half", "clock"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fault == "second":
            os.kill(os.getpid(), signal.SIGSTOP)
        if self.fault == "removed":
            self.acts = False
            shutil.rmtree(self.work, ignore_errors=True)


# ---------------------------------------------------------------------- all faults of a command


@dataclass
class Counts:
    writes: int = 0  # of the command without faults
    tried: Counter[str] = field(default_factory=Counter)  # by fault
    files: Counter[str] = field(default_factory=Counter)  # by the file that was about to be written
    failures: list[str] = field(default_factory=list)


class Trials:
    """One command, the files that it leaves, and its faults."""

    def __init__(self, case: Case, folder: Path):
        self.case, self.folder = case, folder
        self.whole = folder / f"{case.name}-whole/work"
        self.whole.mkdir(parents=True)
        case.before(self.whole)
        self.prepared = shutil.copytree(self.whole, folder / f"{case.name}-before")
        ended = run(case.words, self.whole)
        assert ended.code == 0, ended.printed
        self.expected, self.writes, self.counts = _content(self.whole), ended.writes, Counts(len(ended.writes))

    def points(self, faults: Sequence[str]) -> list[tuple[int, str]]:
        """All pairs of a write and a fault; a file is cut only if the last write was to one."""
        numbers = range(len(self.writes))
        return [(k, fault) for fault in faults for k in numbers if fault != "half" or _is_file_before(self.writes, k)]

    def try_fault(self, at: int, fault: str) -> None:
        parent = Path(tempfile.mkdtemp(dir=self.folder))
        work = shutil.copytree(self.prepared, parent / "work")
        self.counts.tried[fault] += 1
        self.counts.files[_written_file(self.writes[at])] += 1
        problem = self.second_command(work, at) if fault == "second" else self.one_fault(work, at, fault)
        if problem:
            where = f"{self.case.name}, {fault} at write {at} of {len(self.writes)}, {self.writes[at]}"
            self.counts.failures.append(f"{where}: {problem}")
        shutil.rmtree(parent)

    def one_fault(self, work: Path, at: int, fault: str) -> str:
        ended = run(self.case.words, work, fault, at)
        problem = _wrong_end(ended, fault)
        if fault == "removed":
            shutil.rmtree(work, ignore_errors=True)
            shutil.copytree(self.prepared, work)
        if fault == "clock":
            for path in work.rglob("*"):
                os.utime(path, (time.time() + 86_400,) * 2)
        return problem or self.repeat(work)

    def second_command(self, work: Path, at: int) -> str:
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as log:
            child = start(self.case.words, work, output, log, "second", at)
            if not os.WIFSTOPPED(wait(child, os.WUNTRACED)):
                return "it was not stopped"
            before = _content(work)
            second = run(self.case.words, work)
            os.kill(child, signal.SIGCONT)
            locked = any(name.endswith(".lock") for name in before)
            first = finish(child, output, log)
        if "Traceback" in first.printed + second.printed or {first.code, second.code} - {0, 2}:
            return f"they end with {first.code} and {second.code}\n{first.printed}\n{second.printed}"
        if locked and self.case.name != "study" and (first.code, second.code) != (0, 2):
            return f"the second is not refused: {first.code} and {second.code}\n{first.printed}\n{second.printed}"
        return self.repeat(work)

    def repeat(self, work: Path) -> str:
        again = run(self.case.words, work)
        if again.code != 0 or "Traceback" in again.printed:
            return f"repeated, it ends with {again.code}\n{again.printed}"
        return _difference(_content(work), self.expected, str(work), str(self.whole))


def _wrong_end(ended: Ended, fault: str) -> str:
    """What is wrong with the end of a command in which the fault happened."""
    killed, allowed = fault in ("kill", "half", "clock"), {0, 1, 2}
    message = ended.code == 0 or fault == "removed" or os.strerror(ERRORS.get(fault, 0)) in ended.printed
    if killed and ended.code == -signal.SIGKILL:
        return ""
    if killed or ended.code not in allowed or "Traceback" in ended.printed or not message:
        return f"it ends with {ended.code}\n{ended.printed}"
    return ""


def _is_file_before(writes: list[str], k: int) -> bool:
    return k > 0 and writes[k - 1].startswith("open ") and not writes[k - 1].endswith(".lock")


def _content(work: Path) -> dict[str, bytes]:
    return {str(path.relative_to(work)): path.read_bytes() for path in sorted(work.rglob("*")) if path.is_file()}


def _difference(found: dict[str, bytes], expected: dict[str, bytes], place: str, other: str) -> str:
    if found.keys() != expected.keys():
        return f"other files: {sorted(found.keys() ^ expected.keys())}"
    different = [name for name in found if found[name].replace(place.encode(), other.encode()) != expected[name]]
    return f"other content: {different}" if different else ""


def _written_file(write: str) -> str:
    """The file of a write; its lock and its draft count as the file."""
    event, _, path = write.partition(" ")
    name = Path(path).name.removesuffix(".lock").removesuffix(".unfinished").strip(".")
    return "folders" if event in ("os.mkdir", "os.rmdir") else name or "lock of the folder"


def write_set(path: Path) -> str:
    """A small labelled set of images."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 3
    images = (rng.integers(0, 100, (60, 6, 6)) + 50 * labels[:, None, None]).astype(np.uint8)
    np.savez(path, train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    return str(path)


def prepare(commands: list[Case], work: Path) -> None:
    """Run each command once in this process, which then has imported everything.

    The study trains in its own process, so that every write is one of its own.
    """
    import torch

    sys.path.insert(0, str(Path(__file__).parents[1]))
    from run.study.conftest import InProcessWorker

    from majority.cli.app import main
    from majority.run.study import workers

    workers.ProcessWorker = InProcessWorker  # type: ignore[misc]
    torch.set_num_threads(1)
    for case in commands:
        case.before(work / case.name)
        sys.argv = ["majority", *case.words.replace("OUT", str(work / case.name)).split()]
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), suppress(SystemExit):
            main()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of commands, separated by commas")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--points", type=int, help="faults per command, evenly spaced; all of them if it is left out")
    parser.add_argument("--out", type=Path, help="a .json file for the counts")
    options = parser.parse_args()
    summary, failures, arguments = {}, [], sys.argv
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        os.environ["XDG_CACHE_HOME"] = f"{name}/cache"
        commands = [
            case
            for case in cases(write_set(Path(name) / "set.npz"))
            if not options.only or case.name in options.only.split(",")
        ]
        prepare(commands, Path(name) / "first")
        for case in commands:
            trials = Trials(case, Path(name))
            points = trials.points(options.faults.split(","))
            for i in range(options.points or len(points)):
                trials.try_fault(*points[(2 * i + 1) * len(points) // (2 * (options.points or len(points)))])
            counts = trials.counts
            failures += counts.failures
            tried = {"faults": dict(counts.tried), "faults by file": dict(counts.files)}
            summary[case.name] = {"writes": counts.writes, **tried, "failures": len(counts.failures)}
            print(case.name, json.dumps(summary[case.name]), flush=True)
    for failure in failures:
        print(f"--- {failure}")
    if options.out:
        about = {"command": " ".join(["python", *arguments]), "commands": summary}
        options.out.write_text(json.dumps(about, indent=2) + "\n")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
