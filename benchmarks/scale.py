"""Studies and predictions beyond one process: local workers, blocks and a Ray cluster on this machine.

    python benchmarks/scale.py FOLDER --out results/scale/cpu.json                # FOLDER for the files: 4 GB
    python benchmarks/scale.py FOLDER --out FILE --only workers --scale 0.01      # to test the code, not its speed

workers   48 small cells by 1, 2 and 4 local workers
study     100 small cells by 2 local workers and by a Ray cluster of 2 CPUs
predict   10,000,000 vectors of 32 features in 1,000 files: one file out, blocks out, a Ray cluster; the first two also
          at a tenth of the size, for slopes
files     1,000,000 of these vectors in 20,000 files: seconds per bag

Each command is a process of its own, and each is run `--repeats` times in turn; the run with the least wall time
counts. "cpu" are the user and system seconds of all its processes, those of Ray included, "wall" its time, "peak_mb"
the resident memory of its own process.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from helpers import commit

from majority.files import read_json, write_json

WIDTH, CLASSES = 32, 3
LOOK_SECONDS = 0.5
TICKS = os.sysconf("SC_CLK_TCK")
TRAINING = ["--recipe", "quick", "--bags", "20", "--bag-size", "8", "--epochs", "20", "--device", "cpu"]


class Tree:
    """The processes below a command: their processor time, also of those that have ended."""

    def __init__(self, root: int):
        self.root, self.known, self.seconds, self.peak_mb = root, {root}, {}, 0.0

    def look(self) -> None:
        parents = {}
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    text = Path(entry.path, "stat").read_text()
                except OSError:  # it has ended
                    continue
                fields = text[text.rindex(")") + 2 :].split()
                parents[int(entry.name)] = (int(fields[1]), (int(fields[11]) + int(fields[12])) / TICKS)
        grown = True
        while grown:
            new = {pid for pid, (parent, _) in parents.items() if parent in self.known} - self.known
            self.known |= new
            grown = bool(new)
        for pid in self.known & parents.keys():
            self.seconds[pid] = parents[pid][1]
        try:
            status = Path(f"/proc/{self.root}/status").read_text()
            peak = [line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")]
            self.peak_mb = max(self.peak_mb, *(int(kb) / 1024 for kb in peak)) if peak else self.peak_mb
        except OSError:
            pass


def measure(*words: object) -> dict[str, Any]:
    started = time.monotonic()
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    environment.pop("RAY_ADDRESS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "majority", *map(str, words)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    tree = Tree(process.pid)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    printed = b""
    while process.poll() is None:
        tree.look()
        printed += process.stdout.read() or b""
        time.sleep(LOOK_SECONDS)
    if process.returncode:
        raise SystemExit((printed + (process.stdout.read() or b"")).decode())
    wall = time.monotonic() - started
    return {"wall": round(wall, 1), "cpu": round(sum(tree.seconds.values()), 1), "peak_mb": round(tree.peak_mb)}


def best(cases: dict[str, list[object]], work: Path, repeats: int) -> dict[str, Any]:
    """Each command `repeats` times, in turn: OUT in its words is a fresh path."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in cases}
    for _ in range(repeats):
        for name, words in cases.items():
            out = work / "out"
            shutil.rmtree(out, ignore_errors=True)
            (work / "out.parquet").unlink(missing_ok=True)
            places = {"OUT": out, "OUT.parquet": work / "out.parquet"}
            row = measure(*(places.get(str(word), word) for word in words))
            files = [*work.glob("out/*.parquet"), *work.glob("out.parquet")]
            if files:
                row["out_mb"] = round(sum(path.stat().st_size for path in files) / 1e6, 1)
            print(name, row, flush=True)
            found[name].append(row)
    return {name: min(rows, key=lambda row: row["wall"]) | {"n": len(rows)} for name, rows in found.items()}


def write_features(folder: Path, files: int, rows: int) -> Path:
    if not folder.exists():
        part = folder.with_name(f"{folder.name}-part")
        part.mkdir()
        rng = np.random.default_rng(0)
        pool = rng.standard_normal((1_000_000, WIDTH), np.float32)
        for i in range(files):
            start = int(rng.integers(0, len(pool) - rows))
            np.save(part / f"bag-{i:06d}.npy", pool[start : start + rows])
        part.rename(folder)
    return folder


def write_run(folder: Path) -> Path:
    """A classifier of such vectors."""
    source, run = folder / "train", folder / "run"
    if not run.exists():
        source.mkdir()
        rng = np.random.default_rng(0)
        lines = ["bag,label"]
        for i in range(60):
            np.save(source / f"{i}.npy", rng.standard_normal((20, WIDTH)).astype(np.float32) + i % CLASSES)
            lines.append(f"{i},class-{i % CLASSES}")
        (source / "labels.csv").write_text("\n".join(lines) + "\n")
        options = ["--recipe", "quick", "--method", "log-mean", "--epochs", "2", "--device", "cpu"]
        measure("train", source, *options, "--out", run)
    return run


def write_set(path: Path) -> Path:
    rng = np.random.default_rng(0)
    arrays = {f"{part}_images": rng.integers(0, 256, (200, 8, 8), np.uint8) for part in ("train", "val", "test")}
    arrays |= {f"{part}_labels": np.arange(200)[:, None] % CLASSES for part in ("train", "val", "test")}
    np.savez(path, **arrays)
    return path


def study(folder: Path, cells: int, variants: dict[str, list[str]], repeats: int) -> dict[str, Any]:
    seeds = max(1, cells // 4)
    common = ["study", write_set(folder / "set.npz"), "--methods", "count,log-mean,vote,naive", "--scenarios", "large"]
    common += ["--seeds", f"0-{seeds - 1}" if seeds > 1 else "0", *TRAINING]
    rows = best({name: [*common, *options, "--out", "OUT"] for name, options in variants.items()}, folder, repeats)
    for row in rows.values():
        row["cells"] = 4 * seeds
        row["cells_per_minute"] = round(4 * seeds / row["wall"] * 60, 1)
        row["cpu_per_cell"] = round(row["cpu"] / (4 * seeds), 3)
    return rows


def predict(folder: Path, files: int, rows: int, repeats: int) -> dict[str, Any]:
    run, found = write_run(folder), {}
    for count in (max(1, files // 10), files):
        source = write_features(folder / f"{count}-of-{rows}", count, rows)
        common = ["predict", run, source, "--device", "cpu"]
        cases = {"file": [*common, "--out", "OUT.parquet"], "blocks": [*common, "--out", "OUT"]}
        if count == files:
            cases["ray"] = [*common, "--on", "ray", "--out", "OUT"]
            cases["ray --bags"] = [*common, "--on", "ray", "--bags", "--out", "OUT"]
        found[f"{count * rows} rows"] = best(cases, folder, repeats)
    small, large = found.values()
    difference = (files - max(1, files // 10)) * rows
    slopes = {
        name: {
            "cpu_seconds_per_million_rows": round((large[name]["cpu"] - small[name]["cpu"]) / difference * 1e6, 3),
            "peak_bytes_per_row": round((large[name]["peak_mb"] - small[name]["peak_mb"]) / difference * 2**20, 1),
            "bytes_out_per_row": round(large[name]["out_mb"] * 1e6 / (files * rows), 1),
        }
        for name in ("file", "blocks")
    }
    return {"bytes_in_per_row": 4 * WIDTH, "runs": found, "slopes": slopes}


def small_files(folder: Path, scale: float, repeats: int) -> dict[str, Any]:
    run, total = write_run(folder), int(1_000_000 * scale)
    cases: dict[str, list[object]] = {}
    counts = (max(1, total // 10_000), max(2, total // 50))
    for count in counts:
        source = write_features(folder / f"{count}-files", count, total // count)
        cases[f"{count} files"] = ["predict", run, source, "--device", "cpu", "--bags", "--out", "OUT"]
    rows = best(cases, folder, repeats)
    few, many = rows.values()
    return rows | {"cpu_ms_per_file": round((many["cpu"] - few["cpu"]) / (counts[1] - counts[0]) * 1e3, 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--out", type=Path, required=True, help="a .json file; parts that are not run stay in it")
    parser.add_argument("--only", default="workers,study,predict,files")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    folder, scale, repeats = options.folder.absolute(), options.scale, options.repeats
    parts = {
        "workers": lambda: study(
            folder, int(48 * scale), {f"{n} workers": ["--jobs", str(n)] for n in (1, 2, 4)}, repeats
        ),
        "study": lambda: study(
            folder, int(100 * scale), {"local": ["--jobs", "2"], "ray": ["--on", "ray", "--jobs", "2"]}, repeats
        ),
        "predict": lambda: predict(folder, max(10, int(1_000 * scale)), 10_000, repeats),
        "files": lambda: small_files(folder, scale, repeats),
    }
    result = read_json(options.out) if options.out.exists() else {}
    for name in options.only.split(","):
        load = os.getloadavg()[0]
        result[name] = parts[name]()
        result[name] |= {"load_average": [round(load, 1), round(os.getloadavg()[0], 1)], "commit": commit()[:7]}
        result[name]["command"] = f"python benchmarks/scale.py FOLDER --only {name} --scale {scale:g}"
        write_json(options.out, result | {"cores": len(os.sched_getaffinity(0))})


if __name__ == "__main__":
    main()
