"""Seconds per epoch of four loops on one machine, in one run: published, eager, shipped, floor.

    python benchmarks/speed.py --out results/speed/h200.json      on a GPU
    python benchmarks/speed.py --tiny --out speed.json            on a CPU: a test of the code, not of its speed

published  a plain loop like the published one: a DataLoader without workers, one Python transform per image,
           float32, validation and test every epoch, losses read every step
eager      `majority.fit(..., eager=True)`: resident data, bf16, every kernel launched from Python
shipped    `majority.fit(...)` with its defaults for 1,500 epochs: captured and compiled steps, one read per epoch
floor      the network's forward and backward alone (and the validation images' forward), captured and compiled, on
           random float images on the device: no gather, no normalisation, no bag loss, no optimizer

An epoch is the paper recipe's: 400 training bags of 64 in 7 steps, then 100 validation bags. Also measured: ragged bags
beside equal ones, as the ratio of seconds per instance; and the speed of predictions. The file is written after every
case, so that an interrupted run keeps what it has measured. `--parts ragged` measures one part only.
"""

from __future__ import annotations

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from helpers import commit, make_parser
from torch import nn
from torch.utils.data import DataLoader, Dataset

from majority import Bags, Classifier, build_model, fit
from majority.data.device import BATCH_INSTANCES, choose_device
from majority.data.segments import Segments
from majority.files import write_json
from majority.recipes import RECIPES, TaskInfo
from majority.run.folder import environment
from majority.training.cuda_graphs import compiled
from majority.training.settings import Settings
from majority.training.steps import COMPILED_FROM

N_CLASSES = 10
PARTS = ("loops", "ragged", "prediction")


def random_bags(sizes: np.ndarray, side: int, seed: int, stored: int = 60_000) -> Bags:
    """Bags of random pixels: the time of a loop does not depend on the values of pixels."""
    rng = np.random.default_rng(seed)
    store = rng.integers(0, 256, (min(stored, int(sizes.sum())), side, side, 3), dtype=np.uint8)
    index = rng.integers(0, len(store), sizes.sum())
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return Bags(store, index, offsets, rng.integers(0, N_CLASSES, len(sizes)), [str(c) for c in range(N_CLASSES)])


def paper_settings(epochs: int, **changes) -> Settings:
    return replace(RECIPES["paper"].plan_for(TaskInfo("random")).training, epochs=epochs, **changes)


def as_shipped(train: Bags, epochs: int, **changes) -> Settings:
    """Settings for a few epochs that are trained like those of a run of full length."""
    whole = RECIPES["paper"].plan_for(TaskInfo("random")).training.epochs
    return paper_settings(epochs, compile=whole * len(train.index) >= COMPILED_FROM, **changes)


def epoch_of_fit(train: Bags, val: Bags, backbone: str, settings: Settings, eager: bool) -> dict:
    """Median seconds of an epoch of `fit`, with metrics and checkpoints written to a run folder."""
    model = build_model(train, "count", backbone, pixels="published")
    _reset_peak()
    with tempfile.TemporaryDirectory() as folder:
        fitted = fit(model, train, val, settings, folder=folder, eager=eager)
    seconds = [record["seconds"] for record in fitted.history[1:]] or [fitted.history[0]["seconds"]]
    return {
        "seconds": statistics.median(seconds),
        "capture_seconds": fitted.capture_seconds,
        "peak_gib": _peak_gib(),
    }


class OneBagAtATime(Dataset):
    """The images of one bag, each transformed separately in Python."""

    def __init__(self, bags: Bags):
        self.bags = bags
        self.mean, self.std = torch.rand(3, 1, 1), torch.rand(3, 1, 1) + 0.5

    def __len__(self) -> int:
        return len(self.bags)

    def __getitem__(self, i: int):
        images = [torch.from_numpy(image).permute(2, 0, 1).float().div(255) for image in self.bags.bag(i)]
        return torch.stack([(image - self.mean) / self.std for image in images]), int(self.bags.labels[i])


def epoch_of_published_way(train: Bags, val: Bags, test: Bags, backbone: str, device: torch.device) -> dict:
    model = build_model(train, "count", backbone, pixels="published").to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    loaders = [DataLoader(OneBagAtATime(bags), 64, shuffle=bags is train) for bags in (train, val, test)]
    _reset_peak()
    start = time.perf_counter()
    for loader in loaders:
        model.train(loader is loaders[0])
        for images, labels in loader:
            with torch.set_grad_enabled(model.training):
                features = model.backbone(images.flatten(0, 1).to(device))
                segments = Segments([images.shape[1]] * len(images))
                segments.sizes = segments.sizes.to(device)
                output = model.head(features, segments)
                loss = torch.nn.functional.nll_loss(output.bag_log_probs, labels.to(device))
            if model.training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            loss.item()
    return {"seconds": time.perf_counter() - start, "peak_gib": _peak_gib()}


def epoch_of_floor(train: Bags, val: Bags, backbone: str, side: int, device: torch.device) -> dict:
    model = build_model(train, "count", backbone, pixels="published").to(device)
    on_gpu = device.type == "cuda"
    network = model.backbone.to(memory_format=torch.channels_last)
    steps = [min(64, len(train) - start) * int(train.sizes[0]) for start in range(0, len(train), 64)]
    forwards = [len(rows) for rows in torch.arange(len(val.index)).split(BATCH_INSTANCES)]
    _reset_peak()
    works = [*((n, True) for n in steps), *((n, False) for n in forwards)]
    with compiled(*[network] if on_gpu else []):
        seconds = {work: _network_seconds(model, network, *work, side, device, on_gpu) for work in set(works)}
    total = sum(seconds[work] for work in works)
    return {"seconds": total, "peak_gib": _peak_gib()}


def _network_seconds(
    model: nn.Module, network: nn.Module, n: int, backward: bool, side: int, device, on_gpu: bool
) -> float:
    images = torch.randn(n, 3, side, side, device=device).to(memory_format=torch.channels_last)
    model.train(backward)

    def work():
        with (
            torch.set_grad_enabled(backward),
            torch.autocast(device.type, torch.bfloat16, enabled=on_gpu, cache_enabled=False),
        ):
            features = network(images)
            if backward:
                model.zero_grad(set_to_none=True)
                features.float().square().mean().backward()

    if not on_gpu:
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    side_stream = torch.cuda.Stream()
    with torch.cuda.stream(side_stream), torch.backends.cudnn.flags(enabled=True, benchmark=True):
        for _ in range(3):
            work()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    times = []
    for _ in range(10):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1000)
    return statistics.median(times)


def _reset_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def _peak_gib() -> float | None:
    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None


def four_loops(side: int, backbone: str, bags: int, size: int, epochs: int, device: torch.device) -> dict:
    train, val, test = (
        random_bags(np.full(n, size), side, seed) for seed, n in enumerate((bags, bags // 4, bags // 4))
    )
    row = {
        "published": epoch_of_published_way(train, val, test, backbone, device),
        "eager": epoch_of_fit(train, val, backbone, paper_settings(max(epochs // 2, 2)), eager=True),
        "shipped": epoch_of_fit(train, val, backbone, as_shipped(train, epochs), eager=False),
        "floor": epoch_of_floor(train, val, backbone, side, device),
    }
    print(f"{side}x{side} {backbone}: " + ", ".join(f"{name} {loop['seconds']:.4f} s" for name, loop in row.items()))
    return row


def prediction(images: int, side: int, backbone: str, device: torch.device) -> dict:
    """Images per second of `Classifier.stream` over bags in host memory, and of the forward pass alone."""
    bags = random_bags(np.full(images // 64, 64), side, 0, stored=images)
    classifier = Classifier(build_model(bags, "count", backbone, pixels="published"))
    batch = torch.randn(min(BATCH_INSTANCES, images), 3, side, side, device=device)
    batch = batch.to(memory_format=torch.channels_last)
    classifier.model.to(memory_format=torch.channels_last)

    def forward() -> None:
        classifier.model.backbone(batch)

    def stream() -> None:
        for _ in classifier.stream(bags):
            pass

    with torch.inference_mode():
        rates = {"forward": len(batch) / _median_seconds(forward, 10)}
    _reset_peak()
    rates["stream"] = images / _median_seconds(stream, 3)
    rates["peak_gib"] = _peak_gib()
    print(f"predictions, {side}x{side} {backbone}: {rates['stream']:.0f} images/s, forward {rates['forward']:.0f}")
    return rates


def _median_seconds(work: Callable[[], object], times: int) -> float:
    seconds = []
    for _ in range(times + 1):  # the first is a warm-up
        start = time.perf_counter()
        work()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def bag_sizes(tiny: bool) -> dict[str, np.ndarray]:
    """Sizes of training bags by name; the first are equal. The number of instances is about the same."""
    rng = np.random.default_rng(0)
    if tiny:
        return {"equal": np.full(8, 4), "1 to 7": rng.integers(1, 8, 8)}
    some_large = rng.permutation(np.concatenate([rng.integers(1, 41, 394), rng.integers(2_000, 4_000, 6)]))
    return {
        "equal": np.full(400, 64),
        "1 to 127": rng.integers(1, 128, 400),
        "20 to 110": rng.integers(20, 111, 400),
        "some of thousands": some_large,
    }


def ragged_beside_equal(side: int, backbone: str, tiny: bool) -> dict:
    """Seconds per epoch, peak memory and the ratio of seconds per instance to equal bags, by sizes."""
    rows: dict[str, dict] = {}
    for name, sizes in bag_sizes(tiny).items():
        train, val = random_bags(sizes, side, 0), random_bags(sizes[: len(sizes) // 4], side, 1)
        row = rows[name] = epoch_of_fit(train, val, backbone, as_shipped(train, 2 if tiny else 10), eager=False)
        row["instances"] = len(train.index) + len(val.index)
        equal = rows["equal"]
        row["ragged_over_equal"] = row["seconds"] / row["instances"] * equal["instances"] / equal["seconds"]
        print(f"{name}: {row}", flush=True)
    return rows


def main() -> None:
    parser = make_parser(__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument(
        "--tiny", action="store_true", help="8 bags of 4 images of 8x8, a tiny network: to test the code"
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure")
    parser.add_argument("--epochs", type=int, default=30, help="of the shipped loop")
    options = parser.parse_args()
    device = choose_device()
    bags, size, sides, epochs = (8, 4, (8,), 2) if options.tiny else (400, 64, (32, 28), options.epochs)
    backbones = ("tiny",) if options.tiny else ("resnet18", "resnet18-small")  # the first is the paper's
    result = {"command": "python benchmarks/speed.py --out ...", "commit": options.commit or commit()}
    result |= {"environment": environment(), "epoch_seconds": {}, **{part: {} for part in PARTS}}
    networks = [(side, backbone) for side in sides for backbone in backbones]
    for side, backbone in networks if "loops" in options.parts else []:
        row = result["loops"][f"{side}x{side} {backbone}"] = four_loops(side, backbone, bags, size, epochs, device)
        result["epoch_seconds"] = result["epoch_seconds"] or {name: loop["seconds"] for name, loop in row.items()}
        write_json(options.out, result)
    if "ragged" in options.parts:
        result["ragged"] = ragged_beside_equal(sides[0], backbones[0], options.tiny)
        write_json(options.out, result)
    for side, backbone in networks if "prediction" in options.parts else []:
        rates = prediction(64 if options.tiny else 102_400, side, backbone, device)
        result["prediction"][f"{side}x{side} {backbone}"] = rates
        write_json(options.out, result)
    print(json.dumps({name: round(seconds, 4) for name, seconds in result["epoch_seconds"].items()}))


if __name__ == "__main__":
    main()
