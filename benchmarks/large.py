"""Features larger than memory: peak resident memory and speed of training on them in place, against in memory.

    python benchmarks/large.py FOLDER --out results/large/cpu.json     1,000 bags, 10 million vectors, 7.7 GB in FOLDER
    python benchmarks/large.py FOLDER --bags 20 --size 50 --width 8    to test the code, not its speed

Writes one float16 .npy file per bag into FOLDER (and removes them at the end), then trains log-mean on an mlp, nine
tenths of the bags for training and one for validation, each variant in its own process:

streamed   `FeatureFiles`: rows are read from disk for every batch (from the page cache, once it is warm)
in memory  the same rows in one array; if memory is short, only as many bags as fit into half of it ("bags")

each with whole bags and with a random `max_instances` of each. Prints one line per variant: the peak resident
memory of the process (VmHWM) including loading, the seconds of the fastest epoch, and instances (of whole bags) per
second.
"load_average" is that of the machine over the last minute of a variant. If it is above the number of threads, the
machine had other work, and the processor time of an epoch ("epoch_cpu_seconds", all threads) is a better measure.

Measured (two cores of an Arm Neoverse-N1, otherwise idle, page cache warm, n = 1, commit 8a891fb): whole bags 1.56 GiB
and 60.3 s per epoch streamed, 8.54 GiB and 59.4 s in memory (99 %); 1,000 of each bag 0.96 GiB and 11.8 s, 8.11 GiB and
10.9 s (92 %).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from provenance import commit

from majority import Bags, build_model, fit
from majority.data.stores import FeatureFiles
from majority.errors import InputError
from majority.files import write_json
from majority.run.folder import environment
from majority.training.settings import Settings

N_CLASSES, MAJORITY, BATCH_BAGS = 5, 0.6, 16


def write_bags(folder: Path, bags: int, size: int, width: int) -> None:
    """Bag i has class i modulo N_CLASSES for a majority of its instances, any class for the others."""
    need = bags * size * width * 2
    free = shutil.disk_usage(folder).free
    if free < need * 1.1:
        raise InputError(f"{folder} has {free / 1e9:.1f} GB free, {need / 1e9:.1f} GB are needed: give another folder")
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((N_CLASSES, width)).astype(np.float16)
    noise = rng.standard_normal((2 * size, width)).astype(np.float16)  # shared: each bag starts at another row of it
    for i in range(bags):
        of_majority = rng.random(size) < MAJORITY
        truth = np.where(of_majority, i % N_CLASSES, rng.integers(0, N_CLASSES, size))  # (size,)
        start = rng.integers(0, size + 1)
        np.save(folder / f"{i:06d}.npy", centres[truth] + noise[start : start + size])


def train(folder: Path, bags: int, streamed: bool, max_instances: int | None, epochs: int) -> dict:
    """One variant, in this process."""
    files = FeatureFiles(sorted(folder.glob("*.npy"))[:bags])
    store = files if streamed else files[:]
    classes = [f"class {c}" for c in range(N_CLASSES)]
    all_bags = Bags(store, np.arange(len(store)), files.starts, np.arange(bags) % N_CLASSES, classes)
    train, val = all_bags.split([0.9, 0.1])
    settings = Settings(epochs=epochs, batch_bags=BATCH_BAGS, max_instances=max_instances, warmup_epochs=0)
    model, started = build_model(train, "log-mean", "mlp"), time.process_time()
    fitted = fit(model, train, val, settings, device="cpu")
    cpu_seconds = (time.process_time() - started) / epochs
    seconds = min(record["seconds"] for record in fitted.history)
    return {
        "bags": bags,
        "instances": len(store),
        "epoch_seconds": seconds,
        "epoch_cpu_seconds": cpu_seconds,
        "instances_per_second": len(store) / seconds,
        "peak_resident_gib": peak_resident_bytes() / 2**30,
        "load_average": os.getloadavg()[0],
        "val_bag_accuracy": fitted.history[-1]["val_bag_accuracy"],
    }


def peak_resident_bytes() -> int:
    return 1024 * _kilobytes(Path("/proc/self/status"), "VmHWM")


def _kilobytes(table: Path, name: str) -> int:
    return next(int(line.split()[1]) for line in table.read_text().splitlines() if line.startswith(name + ":"))


def in_a_process(folder: Path, bags: int, streamed: bool, max_instances: int | None, epochs: int) -> dict:
    """One variant in a new process, so that peaks are measured separately."""
    call = [sys.executable, __file__, str(folder), "--variant", json.dumps([bags, streamed, max_instances, epochs])]
    done = subprocess.run(call, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"a variant failed:\n{done.stderr}")
    row = json.loads(done.stdout.splitlines()[-1])
    name = (
        f"{'streamed' if streamed else 'in memory'}, {f'{max_instances} of a bag' if max_instances else 'whole bags'}"
    )
    print(
        f"{name}: peak {row['peak_resident_gib']:.2f} GiB, {row['epoch_seconds']:.1f} s per epoch, "
        f"{row['instances_per_second']:,.0f} instances/s (n = {row['instances']:,})",
        flush=True,
    )
    return row


def measure(folder: Path, bags: int, size: int, width: int, max_instances: int, epochs: int) -> dict:
    write_bags(folder, bags, size, width)
    available = 1024 * _kilobytes(Path("/proc/meminfo"), "MemAvailable")
    fitting = min(bags, int(available / 2 / (size * width * 2)))
    rows = {}
    for limit in (None, max_instances):
        kind = "whole bags" if limit is None else "max_instances"
        pair = {
            "in memory": in_a_process(folder, fitting, False, limit, epochs),
            "streamed": in_a_process(folder, bags, True, limit, epochs),
        }
        share = pair["streamed"]["instances_per_second"] / pair["in memory"]["instances_per_second"]
        rows[kind] = {"max_instances": limit, "streamed_share_of_in_memory_speed": share, **pair}
        print(f"{kind}: streamed at {share:.0%} of the in-memory speed", flush=True)
    return rows


def processor() -> str:
    """The name of the processor, as reported by the system."""
    listed = subprocess.run(["lscpu"], capture_output=True, text=True, check=False).stdout
    named = [line.split(":", 1)[1].strip() for line in listed.splitlines() if line.startswith("Model name")]
    return named[0] if named else platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="for the feature files: an empty or a new folder")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--bags", type=int, default=1000)
    parser.add_argument("--size", type=int, default=10_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--max-instances", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    parser.add_argument("--variant", type=json.loads, help=argparse.SUPPRESS)
    o = parser.parse_args()
    if o.variant:
        print(json.dumps(train(o.folder, *o.variant)))
        return
    o.folder.mkdir(parents=True, exist_ok=True)
    if any(o.folder.iterdir()):
        sys.exit(f"{o.folder} is not empty: give a new folder")
    try:
        rows = measure(o.folder, o.bags, o.size, o.width, o.max_instances, o.epochs)
    except InputError as error:
        sys.exit(f"error: {error}")
    finally:
        for file in o.folder.glob("*.npy"):
            file.unlink()
    shape = f"--bags {o.bags} --size {o.size} --width {o.width} --max-instances {o.max_instances} --epochs {o.epochs}"
    result = {
        "command": f"python benchmarks/large.py FOLDER --out ... {shape}",
        "commit": o.commit or commit(),
        "environment": environment() | {"processor": processor(), "cores": os.cpu_count()},
        "bytes_on_disk": o.bags * o.size * o.width * 2,
        "variants": rows,
    }
    if o.out:
        o.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(o.out, result)


if __name__ == "__main__":
    main()
