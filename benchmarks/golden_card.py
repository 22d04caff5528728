"""Short runs of each recipe and epoch times on one GPU, to compare two versions of the code.

    python benchmarks/golden_card.py --out FILE [--before results/speed/before-redesign.json]

runs   quick, paper, mpem and census on CIFAR-10 Small, fold 0, side by side, a few epochs each: test instance accuracy
       per seed. A GPU does not repeat a run bit for bit: seeds show the spread.
times  seconds of an epoch of random pixels, 400 bags of 64 or ragged ones: the median of each training. "steps" has 25
       steps per epoch and no validation bags: a loop of one's own can be held against it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from helpers import commit
from speed import PRETRAIN, as_shipped, bag_sizes, paper_settings, random_bags, stages_of_recipes
from torch.utils.data import DataLoader

from majority import BagDataset, Bags, Model, build_model, collate_bags, fit
from majority.losses import CountLoss

CENSUS = {"census.pretrain.epochs": 10, "census.teachers": 1, "census.teacher_epochs": 4, "training.epochs": 6}
RUNS: dict[str, tuple[str, dict[str, object], int]] = {  # method, settings, seeds
    "quick": ("count", {"training.epochs": 20}, 3),
    "paper": ("count", {"training.epochs": 100}, 3),
    "mpem": ("count", {"training.epochs": 60, "mpem.ratios": [0.5]}, 3),
    "census": ("auto", CENSUS, 2),
}
STEP_BAGS = 16


def train_all(source: str, folder: Path) -> dict[str, dict]:
    """The test figures of every run, by recipe. All are started at once."""
    running = {}
    for recipe, (method, settings, seeds) in RUNS.items():
        for seed in range(seeds):
            words = ["train", source, "--scenario", "small", "--fold", 0, "--method", method, "--recipe", recipe]
            words += [word for name, value in settings.items() for word in ("--set", f"{name}={json.dumps(value)}")]
            words += ["--seed", seed, "--out", folder / f"{recipe}{seed}"]
            running[recipe, seed] = subprocess.Popen([sys.executable, "-m", "majority", *map(str, words)])
    results: dict[str, dict] = {}
    for (recipe, seed), process in running.items():
        if process.wait():
            raise SystemExit(f"{recipe}, seed {seed}: it failed")
        test = json.loads((folder / f"{recipe}{seed}" / "result.json").read_text())["test"]
        entry = results.setdefault(recipe, {"settings": RUNS[recipe][1], "instance_accuracy": []})
        entry["instance_accuracy"].append(test["instance_accuracy"])
    return results


def cases(tiny: bool) -> dict[str, Callable[[], list[dict]]]:
    """Trainings by name; each returns the history of one."""
    side, backbone, epochs = (8, "tiny", 9) if tiny else (32, "resnet18", 30)
    equal, ragged = list(bag_sizes(tiny).values())[:2]

    def paper(sizes, eager: bool, **changes) -> list[dict]:
        train, val = random_bags(sizes, side, 0), random_bags(sizes[: len(sizes) // 4], side, 1)
        settings = paper_settings(epochs // 2, **changes) if eager else as_shipped(train, epochs)
        model = build_model(train, "count", backbone, pixels="published")
        return fit(model, train, None if changes else val, settings, eager=eager).history

    def stage(name: str) -> list[dict]:
        train, val = random_bags(equal, side, 0), random_bags(equal[: len(equal) // 4], side, 1)
        return stages_of_recipes(tiny)[name](train, val).history

    def own_loop(sizes) -> list[dict]:
        train = random_bags(sizes, side, 0)
        return own_epochs(build_model(train, "count", backbone, pixels="published"), train, epochs // 2)

    return {
        "paper, equal bags, captured": partial(paper, equal, eager=False),
        "paper, ragged bags, captured": partial(paper, ragged, eager=False),
        "paper, equal bags, eager": partial(paper, equal, eager=True),
        "paper, ragged bags, eager": partial(paper, ragged, eager=True),
        f"paper, steps of {STEP_BAGS} equal bags, eager": partial(paper, equal, eager=True, batch_bags=STEP_BAGS),
        f"own loop, steps of {STEP_BAGS} equal bags": partial(own_loop, equal),
        **{name: partial(stage, name) for name in (PRETRAIN, "census, student")},
    }


def own_epochs(model: Model, train: Bags, epochs: int) -> list[dict]:
    """The loop of docs/how-to/own-loop.md with the network and the optimizer of the paper; images travel as stored."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model.to(device).to(memory_format=torch.channels_last)
    loader = DataLoader(
        BagDataset(train, torch.uint8),
        STEP_BAGS,
        shuffle=True,
        num_workers=4,
        collate_fn=collate_bags,
        pin_memory=device == "cuda",
        persistent_workers=True,
    )
    loss_fn, optimizer = CountLoss(), torch.optim.Adam(model.parameters(), lr=3e-4)
    mean, std = (values[:, None, None] for values in (model.normalise.mean, model.normalise.std))
    history = []
    for _ in range(epochs):
        start = time.perf_counter()
        for batch in loader:
            batch = batch.to(device, non_blocking=True)
            features = model.backbone((batch.instances.float() / 255 - mean) / std)
            loss_fn(model.head.classifier(features), batch.bag_ids, batch.labels).backward()
            optimizer.step()
            optimizer.zero_grad()
        if device == "cuda":
            torch.cuda.synchronize()
        history.append({"seconds": time.perf_counter() - start})
    return history


def measure(name: str, train: Callable[[], list[dict]], repeats: int) -> dict:
    train()  # compiled, and kernels chosen
    medians = [statistics.median(record["seconds"] for record in train()[1:]) for _ in range(repeats)]
    row = {"epoch_seconds": statistics.median(medians), "repeats": medians, "spread": max(medians) / min(medians) - 1}
    print(f"{name}: {row['epoch_seconds']:.4f} s per epoch, spread {row['spread']:.1%} (n = {repeats})", flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="parts that are not measured now are kept in it")
    parser.add_argument("--parts", nargs="+", choices=("runs", "times"), default=("runs", "times"))
    parser.add_argument("--cases", default="", metavar="TEXT", help="times whose name has this text")
    parser.add_argument("--repeats", type=int, default=3, help="trainings per case")
    parser.add_argument("--before", type=Path, help="a file to compare with")
    parser.add_argument("--tiny", action="store_true", help="to test the code of the times")
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    options = parser.parse_args()
    hardware = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    about = {"command": "python benchmarks/golden_card.py --out ...", "commit": options.commit or commit()}
    about |= {"hardware": hardware, "cores": os.cpu_count(), "torch": torch.__version__, "n": options.repeats}
    result = {"runs": {}, "times": {}} | (json.loads(options.out.read_text()) if options.out.exists() else {}) | about
    if "runs" in options.parts:
        with tempfile.TemporaryDirectory() as folder:
            result["runs"] = train_all("cifar10", Path(folder))
    for name, train in cases(options.tiny).items() if "times" in options.parts else ():
        if options.cases in name:
            result["times"][name] = measure(name, train, options.repeats)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    before = json.loads(options.before.read_text()) if options.before else {"times": {}, "runs": {}}
    for part, figure in (("times", "epoch_seconds"), ("runs", "instance_accuracy")):
        for name in before[part].keys() & result[part].keys():
            print(f"{name}: {before[part][name][figure]} -> {result[part][name][figure]}")


if __name__ == "__main__":
    main()
