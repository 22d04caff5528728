"""What a training in several processes costs: CPU seconds per epoch of all processes together, and bytes per step.

    OMP_NUM_THREADS=1 python benchmarks/processes.py --out results/scale/processes.json

The processes are those of one machine, over gloo, as with `torchrun --nproc-per-node N`. CPU seconds do not depend on
other work on the machine or on the number of cores; wall seconds would. The seconds of an epoch are the difference
between trainings of more and fewer epochs, so that the start does not count.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist

from majority import Bags, Settings, build_model, fit
from majority.files import write_json
from majority.run.folder import environment
from majority.training import distributed

CASES = {  # shape of an instance, backbone, training bags, bag size, epochs: fewer, more
    "vectors of 64 values, mlp": ((64,), "mlp", 400, 32, (2, 12)),
    "images of 32x32, cnn": ((32, 32, 3), "cnn", 32, 16, (1, 3)),
}
SIZES = (1, 2, 4)


def random_bags(shape: tuple[int, ...], n_bags: int, size: int, seed: int) -> Bags:
    rng = np.random.default_rng(seed)
    store = rng.random((n_bags * size, *shape), np.float32)
    if len(shape) == 3:
        store = (255 * store).astype(np.uint8)
    offsets = np.arange(n_bags + 1) * size
    return Bags(store, np.arange(len(store)), offsets, np.arange(n_bags) % 5, [str(c) for c in range(5)])


def cpu_seconds(case: str, epochs: int) -> float:
    """Of this process, for one training."""
    shape, backbone, n_bags, size, _ = CASES[case]
    train, val = random_bags(shape, n_bags, size, 0), random_bags(shape, n_bags // 4, size, 1)
    model, settings = build_model(train, "log-mean", backbone), Settings(epochs=epochs, batch_bags=16)
    start = time.process_time()
    fit(model, train, val, settings, device="cpu", title=None)
    return time.process_time() - start


def be_process(rank: int, size: int, folder: str, results: multiprocessing.Queue) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/group", rank=rank, world_size=size)
    for case, (*_, epochs) in CASES.items():
        fewer, more = (sum(distributed.gather_objects(cpu_seconds(case, number))) for number in epochs)
        if rank == 0:
            results.put((case, (more - fewer) / (epochs[1] - epochs[0])))
    dist.destroy_process_group()


def measure(size: int) -> dict[str, float]:
    """CPU seconds per epoch of all processes together, by case."""
    context = multiprocessing.get_context("fork")  # nothing is imported again
    results = context.Queue()
    with tempfile.TemporaryDirectory() as folder:
        started = [context.Process(target=be_process, args=(rank, size, folder, results)) for rank in range(size)]
        for process in started:
            process.start()
        found = dict(results.get(timeout=900) for _ in CASES)
        for process in started:
            process.join()
    return found


def bytes_per_step(case: str) -> int:
    """What a process sends to the others together in a step: its gradients, and running means."""
    shape, backbone, n_bags, size, _ = CASES[case]
    model = build_model(random_bags(shape, n_bags, size, 0), "log-mean", backbone)
    tensors = [*model.parameters(), *(buffer for buffer in model.buffers() if buffer.is_floating_point())]
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    rows: dict[str, dict] = {case: {"bytes_per_step": bytes_per_step(case)} for case in CASES}
    for size in SIZES:
        repeats = [measure(size) for _ in range(options.repeats)]
        for case in CASES:
            values = sorted(repeat[case] for repeat in repeats)
            rows[case][f"cpu_seconds_per_epoch_{size}"] = [round(value, 4) for value in values]
            print(f"{case}, {size} processes: {values[len(values) // 2]:.3f} CPU seconds per epoch", flush=True)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_json(options.out, {"environment": environment("cpu"), "cases": rows})


if __name__ == "__main__":
    main()
