"""Does the fast loop cost accuracy? The same runs, fast and plain, over three seeds.

    python benchmarks/same_accuracy.py cifar10 --out results/speed/same-accuracy.jsonl
    python benchmarks/same_accuracy.py svhn28.npz --ragged --out results/speed/same-accuracy-ragged.jsonl
    python benchmarks/same_accuracy.py svhn28.npz --bags 20000 --bag-size 1 --loops fast,fuller,fuller-faster \
        --methods count --epochs 50 --out results/speed/same-accuracy-small-bags.jsonl

fast   `majority.fit` as shipped for long runs on a GPU: bf16, captured and compiled steps
plain  every kernel launched from Python, float32, nothing compiled
fuller as `fast`, but with 512 bags per step instead of 64; `fuller-faster` also has a larger learning rate

Each line of the output is one run of the paper recipe on Large bags, fold 0; a run that has a line is not run again.
With --ragged, each training and validation bag is a random part of a bag, of any size, in which its label still wins.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from majority import Bags, build_model, evaluate, fit
from majority.files import append_line, read_lines
from majority.io import load
from majority.recipes import RECIPES, TaskInfo
from majority.run.folder import environment

LOOPS = {
    "fast": {"compile": True},
    "plain": {"precision": "float32", "compile": False},
    "fuller": {"compile": True, "batch_bags": 512},
    "fuller-faster": {"compile": True, "batch_bags": 512, "learning_rate": 8.5e-4},  # sqrt(512 / 64) times the recipe's
}


def ragged(bags: Bags, rng: np.random.Generator) -> Bags:
    """Random parts of the bags, of 1 to all instances, with the same labels."""
    assert bags.instance_labels is not None
    parts = []
    for start, end, label in zip(bags.offsets, bags.offsets[1:], bags.labels, strict=False):
        while True:
            part = np.sort(rng.permutation(np.arange(start, end))[: rng.integers(1, end - start + 1)])
            counts = np.bincount(bags.instance_labels[part], minlength=len(bags.classes))
            if counts[label] > np.delete(counts, label).max():
                break
        parts.append(part)
    rows, offsets = np.concatenate(parts), np.cumsum([0, *map(len, parts)])
    classes, labels = bags.classes, bags.instance_labels[rows]
    return Bags(bags.store, bags.index[rows], offsets, bags.labels, classes, instance_labels=labels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--methods", default="count,log-mean,attention")
    parser.add_argument("--loops", default="fast,plain")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--ragged", action="store_true")
    parser.add_argument("--bags", type=int, default=None)
    parser.add_argument("--bag-size", type=int, default=None)
    parser.add_argument("--backbone", default=None, help="to test the code")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["method"], row["loop"], row["seed"]): row["instance_accuracy"] for row in read_lines(options.out)}
    parts = load(options.source).make_parts(scenario="large", fold=0, bags=options.bags, bag_size=options.bag_size)
    if options.ragged:
        rng = np.random.default_rng(0)
        parts = parts._replace(train=ragged(parts.train, rng), val=ragged(parts.val, rng))
    for method in options.methods.split(","):
        for loop in options.loops.split(","):
            for seed in range(options.seeds):
                if (method, loop, seed) in done:
                    continue
                plan = RECIPES["paper"].plan(TaskInfo(options.source))
                changes = {f"training.{name}": value for name, value in LOOPS[loop].items()}
                changes |= {"training.epochs": options.epochs}
                changes |= {"backbone": options.backbone} if options.backbone else {}
                plan = plan.with_seed(seed).with_settings(changes)
                model = build_model(parts.train, method, plan.backbone, pixels=plan.pixels, seed=seed)
                fitted = fit(model, parts.train, parts.val, plan.training, eager=loop == "plain")
                row = {"source": options.source, "ragged": options.ragged}
                row |= {"method": method, "loop": loop, "seed": seed}
                row |= evaluate(model, parts.test).summary()
                row |= {"best_epoch": fitted.best_epoch, "val_loss": fitted.best_loss, "seconds": fitted.seconds}
                row |= {"plan": plan.as_dict(), "environment": environment()}
                append_line(options.out, row)
                done[method, loop, seed] = row["instance_accuracy"]
            of_loop = [accuracy for key, accuracy in done.items() if key[:2] == (method, loop)]
            spread = f" ± {stdev(of_loop):.4f}" if len(of_loop) > 1 else ""
            print(f"{method}, {loop}: {mean(of_loop):.4f}{spread} (n = {len(of_loop)})", flush=True)


if __name__ == "__main__":
    main()
