"""Images on a CPU: processor time of training and prediction, against the same network in a plain PyTorch loop.

    python benchmarks/cpu_images.py --out results/speed/cpu-images.json
    python benchmarks/cpu_images.py --tiny --out FILE                        # to test the code, not its speed

Each measurement is a new process, in turn: `plain` is a loop in PyTorch alone, `fit` this library, `command` this
library with memory that is kept after a step, as `majority train` and `majority predict` do. Seconds are user and
system time of one epoch, or of one pass over the images: more epochs minus fewer, so that the start does not count. The
least of `--repeats` is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from majority import Bags, Classifier, Settings, build_model, fit
from majority.data.device import keep_freed_memory
from majority.files import write_json
from majority.nn.backbones import create_backbone
from majority.run.folder import environment

CLASSES, SIDE, SIZE, BATCH_BAGS = 5, 32, 32, 16
BACKBONES = {"cnn": (32, (1, 4)), "resnet18-small": (2, (1, 3))}  # training bags; epochs or passes: fewer, more
LOOPS = ("plain", "fit", "command")


def random_bags(n_bags: int, seed: int) -> Bags:
    images = np.random.default_rng(seed).integers(0, 256, (n_bags * SIZE, SIDE, SIDE, 3), np.uint8)
    offsets = np.arange(n_bags + 1) * SIZE
    return Bags(images, np.arange(len(images)), offsets, np.arange(n_bags) % CLASSES, [str(c) for c in range(CLASSES)])


def plain_training(backbone: str, train: Bags, val: Bags) -> Callable[[int], object]:
    """The loss of `log-mean`: the logarithm of the mean probability of the bag's label."""
    network = create_backbone(backbone, (3, SIDE, SIDE))
    model = nn.Sequential(network, nn.Linear(network.out_features, CLASSES))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def losses(bags: Bags, numbers: torch.Tensor) -> torch.Tensor:
        images = torch.from_numpy(bags.store).view(len(bags), SIZE, SIDE, SIDE, 3)[numbers].flatten(0, 1)
        scores = model(images.permute(0, 3, 1, 2).float().div_(255)).view(len(numbers), SIZE, CLASSES)
        return nn.functional.nll_loss(scores.softmax(dim=2).mean(dim=1).log(), torch.from_numpy(bags.labels)[numbers])

    def run(epochs: int) -> None:
        for _ in range(epochs):
            model.train()
            for numbers in torch.randperm(len(train)).split(BATCH_BAGS):
                optimizer.zero_grad()
                losses(train, numbers).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                sum(losses(val, numbers) for numbers in torch.arange(len(val)).split(BATCH_BAGS))

    return run


def plain_prediction(backbone: str, bags: Bags) -> Callable[[int], object]:
    network = create_backbone(backbone, (3, SIDE, SIDE))
    model = nn.Sequential(network, nn.Linear(network.out_features, CLASSES)).eval()
    batch = BATCH_BAGS * SIZE

    def run(passes: int) -> None:
        with torch.no_grad():
            for _ in range(passes):
                for images in torch.from_numpy(bags.store).split(batch):
                    model(images.permute(0, 3, 1, 2).float().div_(255)).softmax(dim=1)

    return run


def training(backbone: str, train: Bags, val: Bags) -> Callable[[int], object]:
    def run(epochs: int) -> None:
        model = build_model(train, "log-mean", backbone)
        fit(model, train, val, Settings(epochs=epochs, batch_bags=BATCH_BAGS), device="cpu", title=None)

    return run


def prediction(backbone: str, bags: Bags) -> Callable[[int], object]:
    classifier = Classifier(build_model(bags, "log-mean", backbone), "cpu")

    def run(passes: int) -> None:
        for _ in range(passes):
            for _ in classifier.stream(bags):
                pass

    return run


def be_process(loop: str, work: str, backbone: str, bags: int, epochs: tuple[int, int]) -> None:
    """Print the processor seconds of an epoch, or of a pass over the images."""
    torch.manual_seed(0)
    if loop == "command":
        keep_freed_memory()
    train, val = random_bags(bags, 0), random_bags(max(1, bags // 4), 1)
    if work == "training":
        run = (plain_training if loop == "plain" else training)(backbone, train, val)
    else:
        run = (plain_prediction if loop == "plain" else prediction)(backbone, train)
    run(1)  # first calls allocate
    seconds = []
    for number in epochs:
        start = time.process_time()
        run(number)
        seconds.append(time.process_time() - start)
    print((seconds[1] - seconds[0]) / (epochs[1] - epochs[0]))


def measure(repeats: int, tiny: bool) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for work in ("training", "prediction"):
        for backbone, (bags, epochs) in BACKBONES.items():
            bags, epochs = (2, (1, 2)) if tiny else (bags, epochs)
            times: dict[str, list[float]] = {loop: [] for loop in LOOPS}
            for _ in range(repeats):
                for loop in LOOPS:
                    order = json.dumps([loop, work, backbone, bags, epochs])
                    ended = subprocess.run([sys.executable, __file__, "--order", order], capture_output=True, text=True)
                    if ended.returncode:
                        sys.exit(ended.stderr)
                    times[loop].append(float(ended.stdout))
            least = {loop: round(min(values), 3) for loop, values in times.items()}
            ratios = {f"{loop} / plain": round(least[loop] / least["plain"], 2) for loop in LOOPS[1:]}
            found[f"{work}, {backbone}"] = least | ratios | {"images": bags * SIZE}
            print(work, backbone, found[f"{work}, {backbone}"], flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--order", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.order:
        be_process(*json.loads(options.order))
        return
    found = {"cpu_seconds": measure(1 if options.tiny else options.repeats, options.tiny)}
    facts = {"command": "python benchmarks/cpu_images.py", "cores": os.cpu_count(), "load": os.getloadavg()[0]}
    if options.out:
        write_json(options.out, found | facts | {"environment": environment("cpu")})


if __name__ == "__main__":
    main()
