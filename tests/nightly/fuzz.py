"""A mutation fuzzer over every file that the program reads: 0 tracebacks, 0 hangs, bounded memory, nothing written.

    python tests/nightly/fuzz.py --minutes 60   # --seed N for other inputs, --only NAME for some targets

Each input is a valid file with one or a few changes: of its bytes, of a JSON value, of a cell, of a header. The command
or the call that reads it must end with a result or with one message. After a message, the folder must be as before.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fuzzing.mutations import change
from fuzzing.targets import Target, write_seeds

HANG_SECONDS = 120  # of one input: most take less than 0.1, the others train an epoch
MEMORY_BYTES = 2**30  # that one input may take


@dataclass
class Counts:
    """What happened to the inputs."""

    inputs: Counter[str] = field(default_factory=Counter)  # by target
    endings: Counter[str] = field(default_factory=Counter)
    failures: dict[str, str] = field(default_factory=dict)  # place -> what happened first there
    at_place: Counter[str] = field(default_factory=Counter)
    peak_growth: int = 0  # the most bytes that one input took

    def fail(self, place: str, details: str) -> None:
        self.at_place[place] += 1
        self.failures.setdefault(place, details)


def _memory(name: str) -> int:
    """Of this process, in bytes: now (VmRSS), or the most since it was reset (VmHWM)."""
    return int(re.findall(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())[0]) * 1024


def _snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Times and sizes of all files; of folders only that they are there."""
    status = {path: path.stat() for path in sorted(folder.rglob("*"))}
    return {
        str(path.relative_to(folder)): (of.st_mtime_ns, of.st_size) if path.is_file() else (0, 0)
        for path, of in status.items()
    }


class Hang(BaseException):
    pass


def _raise_hang(*_: object) -> None:
    raise Hang


def check_seeds(targets: list[Target], seeds: Path) -> None:
    """Every call ends with a result if no file is changed; otherwise its target would test nothing."""
    for target in targets:
        with tempfile.TemporaryDirectory(dir=seeds.parent) as work:
            copy = Path(work) / target.folder
            shutil.copytree(seeds / target.folder, copy)
            assert target.call(copy) != 2, f"{target.name}: a message without a change"


def fuzz(targets: list[Target], seeds: Path, seed: int, budget: Callable[[int], bool]) -> Counts:
    """Try inputs, one target after the other, while budget(number of inputs so far) holds."""
    rng, counts = random.Random(seed), Counts()
    work = Path(tempfile.mkdtemp(dir=seeds.parent, prefix="work-"))
    present: dict[str, dict[str, tuple[int, int]]] = {}
    signal.signal(signal.SIGALRM, _raise_hang)
    number = 0
    try:
        while budget(number):
            target = targets[number % len(targets)]
            number += 1
            copy = work / target.folder
            if present.get(target.folder) is None or _snapshot(copy) != present[target.folder]:
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(seeds / target.folder, copy)
            original = (seeds / target.folder / target.file).read_bytes()
            changed = change(original, target.file, rng)
            (copy / target.file).write_bytes(changed)
            before = _snapshot(copy)
            counts.inputs[target.name] += 1
            base = _memory("VmRSS")
            Path("/proc/self/clear_refs").write_text("5")  # resets the peak
            ending, problem = _call(target, copy)
            after, growth = _snapshot(copy), _memory("VmHWM") - base
            counts.endings[ending] += 1
            counts.peak_growth = max(counts.peak_growth, growth)
            if ending == "a message" and after != before:
                difference = sorted(set(after.items()) ^ set(before.items()))
                problem = f"changed: {target.name}: {difference[0][0]}", str(difference)
            elif growth > MEMORY_BYTES:
                problem = f"memory: {target.name}", f"{growth / 2**20:.0f} MiB"
            if problem:
                place, details = problem
                kept = seeds.parent / f"failed-{number}-{Path(target.file).name}"  # to look at it
                kept.write_bytes(changed)
                counts.fail(place, f"{target.name}; input {number}, kept as {kept}\n{details}")
            (copy / target.file).write_bytes(original)
            if ending == "a message":
                present[target.folder] = _snapshot(copy)
            else:
                present.pop(target.folder, None)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return counts


def _call(target: Target, copy: Path) -> tuple[str, tuple[str, str] | None]:
    """How it ends; and, if that is wrong, where, and what happened there."""
    from majority.errors import InputError, TrainingError

    signal.setitimer(signal.ITIMER_REAL, HANG_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ("a message" if target.call(copy) == 2 else "a result"), None
    except (InputError, TrainingError):
        return "a message", None
    except Hang:
        return "a hang", (f"hang: {target.name}", "no end")
    except BaseException as error:
        return "a traceback", (_place(error), traceback.format_exc())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _place(error: BaseException) -> str:
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/majority/" in frame.filename]
    where = f"{Path(frames[-1].filename).name}:{frames[-1].name}" if frames else "outside"
    return f"{type(error).__name__} in {where}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="targets whose name has this text")
    parser.add_argument("--out", type=Path, help="a .json file for the counts")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fuzz-"))
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    seeds = folder / "seeds"
    seeds.mkdir()
    targets = [target for target in write_seeds(seeds) if options.only in target.name]
    check_seeds(targets, seeds)
    end = time.monotonic() + 60 * options.minutes
    started = time.process_time()
    counts = fuzz(targets, seeds, options.seed, lambda number: time.monotonic() < end)
    for place, details in sorted(counts.failures.items(), key=lambda item: -counts.at_place[item[0]]):
        print(f"--- {counts.at_place[place]} x {place}\n{details}\n")
    summary = {
        "command": " ".join(["python", *sys.argv]),
        "inputs": sum(counts.inputs.values()),
        "targets": len(counts.inputs),
        "endings": dict(counts.endings),
        "places of failures": len(counts.failures),
        "most memory of one input, MiB": round(counts.peak_growth / 2**20),
        "CPU seconds": round(time.process_time() - started),
        "inputs by target": dict(counts.inputs),
    }
    print(json.dumps(summary, indent=2))
    if options.out:
        options.out.write_text(json.dumps(summary, indent=2) + "\n")
    if not counts.failures:
        shutil.rmtree(folder)
    sys.exit(bool(counts.failures))


if __name__ == "__main__":
    main()
