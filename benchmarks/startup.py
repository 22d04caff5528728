"""CPU seconds of short commands: `majority --help`, `list`, `check` of a small table, `predict` of its hundred rows.

    python benchmarks/startup.py --out results/speed/startup.json
    python benchmarks/startup.py --before OTHER/src --out FILE     also those of another checkout, in turns

Most of them are imports, so `imports` has the seconds of each package by `python -X importtime`, and `torch`, `pandas`
and `python` say what an import of these alone costs on this machine. CPU seconds (user and system, of all threads) are
counted, because other processes change them less than the time by the clock; they still make them longer, so measure on
an idle machine.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from helpers import commit, majority, run_measured

from majority.files import write_json
from majority.run.folder import environment

SHOWN = 0.01  # seconds: packages that take less to import are left out


def cpu_seconds(command: list[object], **variables: str) -> float:
    return run_measured(command, **variables)["cpu"]


def summary(seconds: list[float]) -> dict:
    return {"median": round(statistics.median(seconds), 3), "lowest": round(min(seconds), 3), "n": len(seconds)}


def machine() -> dict:
    """The environment, the number of cores, and the load at this moment: idle is near 0."""
    return environment() | {"cores": os.cpu_count(), "load": round(os.getloadavg()[0], 2)}


def write_table(path: Path, bags: int = 20, size: int = 5) -> None:
    rng = np.random.default_rng(0)
    rows = [
        f"{bag},{'ab'[bag % 2]},{x:.4f},{y:.4f}" for bag in range(bags) for x, y in rng.normal(bag % 2, 1, (size, 2))
    ]
    path.write_text("\n".join(["bag,bag_label,one,two", *rows]))


def import_seconds(command: list[object]) -> dict:
    """Seconds of the imports of each package, largest first."""
    python, *words = map(str, command)
    done = subprocess.run([python, "-X", "importtime", *words], capture_output=True, text=True)
    seconds: dict[str, float] = defaultdict(float)
    for own, module in re.findall(r"^import time:\s+(\d+) \|\s+\d+ \| +(\S+)$", done.stderr, re.MULTILINE):
        seconds[module.split(".")[0]] += int(own) / 1e6
    largest = sorted(seconds.items(), key=lambda item: -item[1])
    return {package: round(value, 3) for package, value in largest if value >= SHOWN}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--tiny", action="store_true", help="`list` alone, once: to test the code")
    parser.add_argument("--before", type=Path, help="the src folder of another checkout")
    options = parser.parse_args()
    this = str(Path(__file__).resolve().parents[1] / "src")
    sources = {"after": this} | ({"before": str(options.before)} if options.before else {})
    with tempfile.TemporaryDirectory() as folder:
        table, run = Path(folder, "bags.csv"), Path(folder, "run")
        write_table(table)
        if not options.tiny:
            cpu_seconds(majority("train", table, "--recipe", "quick", "--epochs", "1", "--out", run))
        commands = {
            "help": majority("--help"),
            "list": majority("list"),
            "check": majority("check", table),
            "predict": majority("predict", run, table, "--out", Path(folder, "classes.csv")),
        }
        alone = {name: [sys.executable, "-c", f"import {name}"] for name in ("torch", "pandas")}
        alone["python"] = [sys.executable, "-c", "pass"]
        if options.tiny:
            commands, alone, options.repeats = {"list": commands["list"]}, {}, 1
        for source in [] if options.tiny else sources.values():
            for command in commands.values():  # compiles the modules
                cpu_seconds(command, PYTHONPATH=source)
        seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
        for _ in range(options.repeats):
            for name, command in (commands | alone).items():
                for when, source in sources.items() if name in commands else [("alone", this)]:
                    seconds[when, name].append(cpu_seconds(command, PYTHONPATH=source))
        imports = {name: import_seconds(command) for name, command in commands.items()}
    result: dict = {"command": "python benchmarks/startup.py", "environment": machine(), "commit": commit()}
    for (when, name), values in seconds.items():
        result.setdefault("cpu_seconds", {}).setdefault(when, {})[name] = summary(values)
        print(f"{when:7s} {name:8s} {statistics.median(values):.2f} s of CPU, lowest {min(values):.2f}", flush=True)
    write_json(options.out, result | {"imports": imports})


if __name__ == "__main__":
    main()
