"""Peak memory of a run with one giant bag among small ones, beside that of equal bags with as many instances in all.

    python scripts/giant_bags.py --out results/scale/giant-bags.json

Each run is a process of its own on the CPU, with one thread: 480 bags of random vectors, two thirds of them for
training, and all that `majority.train` does: training, evaluation and the report.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from majority.files import write_json

BAGS, SMALL, EPOCHS = {"train": 320, "val": 80, "test": 80}, 64, 2


def run(giant: str, instances: int, width: int, recipe: str) -> None:
    """Train; print the peak of the resident memory in MB. The giant bag is in the part of this name, or nowhere."""
    import majority

    parts = []
    for name, count in BAGS.items():
        rng = np.random.default_rng(len(name))
        equal = SMALL + instances // sum(BAGS.values())
        sizes = np.full(count, equal if giant == "none" else SMALL)
        sizes[0] = instances if giant == name else sizes[0]
        labels, store = np.arange(count) % 3, np.empty((sizes.sum(), width), np.float32)
        for start in range(0, len(store), 2**16):
            part = store[start : start + 2**16]
            part[...] = rng.standard_normal(part.shape, np.float32)
        store[np.arange(len(store)), np.repeat(labels, sizes)] += 1
        names = [f"{name}-{number}" for number in range(count)]
        offsets = np.cumsum([0, *sizes])
        parts.append(majority.Bags(store, np.arange(len(store)), offsets, labels, "abc", names=names))
    with tempfile.TemporaryDirectory() as folder:
        epochs = {"training.epochs": EPOCHS}
        out = Path(folder) / "run"
        majority.train(tuple(parts), recipe=recipe, settings=epochs, device="cpu", verbose=False, out=out)
    print(round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instances", type=int, default=1_000_000)
    parser.add_argument("--width", type=int, default=32)
    parser.add_argument("--recipe", default="quick")
    parser.add_argument("--giant", choices=("none", *BAGS), help="measure this one in this process")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    if given.giant:
        return run(given.giant, given.instances, given.width, given.recipe)
    peaks = {}
    for giant in ("none", *BAGS):
        words = ["--giant", giant, "--instances", given.instances, "--width", given.width, "--recipe", given.recipe]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        program = [sys.executable, __file__, *map(str, words)]
        printed = subprocess.run(program, env=environment, check=True, capture_output=True, text=True).stdout
        peaks[giant] = int(printed.split()[-1])
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    facts = {"command": " ".join(["python", *sys.argv]), "commit": commit, "machine": platform.machine(), "n": 1}
    found = {"peak_mb": peaks, "ratio": {name: round(peak / peaks["none"], 2) for name, peak in peaks.items()}}
    print(found)
    if given.out:
        write_json(
            given.out, facts | {"instances": given.instances, "width": given.width, "recipe": given.recipe} | found
        )


if __name__ == "__main__":
    main()
