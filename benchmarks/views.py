"""Which views the bags would choose, and which are best: a short pretraining and a head for each choice of views.

    python benchmarks/views.py cifar10 pathmnist svhn28.npz --scenarios small --folds 0 --out results/census/views.jsonl

The recipe `census` chooses views for images of an unknown kind by the loss of the validation bags (`val_loss`). Each
line of OUT has this loss, the mean loss of training bags when a fifth of them is held out at a time (`held_out_loss`),
and the test accuracy of the head, which nothing is chosen by. A choice that has a line is not run again.

A choice is a list of names joined by "+": the additions of recipes/census/views.py, and any further augmentation.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import mean

import numpy as np
from majority.recipes.census.plan import SEARCH_EPOCHS
from majority.recipes.census.stages import pretrain
from provenance import commit

from majority import build_model, evaluate, fit
from majority.cli.options import parse_folds
from majority.files import append_line, read_lines
from majority.io import Parts, load
from majority.nn.methods import DEFAULT_METHOD
from majority.recipes import RECIPES, Plan, Run, TaskInfo, census
from majority.recipes.census.views import ADDITIONS, with_views
from majority.recipes.features import bags_of_features
from majority.run.folder import environment

CHOICES = (
    "crops,colour,colour+grey,colour+grey+flip,colour+flip,colour+turn,colour+grey+turn,colour+grey+mix,"
    "colour+grey+flip+mix,colour+turn+mix"
)
HELD_OUT_PARTS = 5


def plan_of(choice: str, shape: tuple[int, ...], epochs: int) -> Plan:
    names = [] if choice == "crops" else choice.split("+")
    plan = with_views(RECIPES["census"].plan(TaskInfo("", shape)), [name for name in names if name in ADDITIONS])
    settings = plan.own.pretrain
    augment = (*settings.augment, *(name for name in names if name not in ADDITIONS))
    return replace(plan, own=replace(plan.own, pretrain=replace(settings, augment=augment, epochs=epochs)))


def measure(parts: Parts, plan: Plan, title: str, device: str) -> dict:
    started = time.perf_counter()
    model = build_model(parts.train, DEFAULT_METHOD, plan.backbone)
    run = Run(Path(), parts.train, parts.val, plan, lambda: model, title, device)
    with tempfile.TemporaryDirectory() as folder:
        pretrain(run, model, Path(folder), title)
    pretrained = time.perf_counter()
    train, val, test = (bags_of_features(model, part, device) for part in (parts.train, parts.val, parts.test))

    def head(learned, held_out):
        alone = census.head_alone(model, train)
        return alone, fit(alone, learned, held_out, plan.own.head, device=device, title=None)

    alone, fitted = head(train, val)
    found = {
        "val_loss": fitted.best_loss,
        "instance_accuracy": evaluate(alone, test, device).summary()["instance_accuracy"],
    }
    finished = time.perf_counter()
    part = np.random.default_rng(0).permutation(len(train)) % HELD_OUT_PARTS
    losses = [head(train.subset(part != k), train.subset(part == k))[1].best_loss for k in range(HELD_OUT_PARTS)]
    seconds = {"pretrain_seconds": round(pretrained - started, 1), "head_seconds": round(finished - pretrained, 1)}
    return found | {"held_out_loss": mean(losses)} | seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--scenarios", default="small")
    parser.add_argument("--folds", type=parse_folds, default="0")
    parser.add_argument("--choices", default=CHOICES)
    parser.add_argument("--epochs", type=int, default=SEARCH_EPOCHS, help="of pretraining")
    parser.add_argument("--bags", type=int, default=400, help="of training; a quarter as many for validation and test")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    options = parser.parse_args()
    about = {"commit": options.commit or commit(), "environment": environment()}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for source, scenario, fold in product(options.sources, options.scenarios.split(","), options.folds):
        parts = load(source).make_parts(
            scenario=scenario, fold=fold, **({"bags": options.bags} if options.bags else {})
        )
        for choice in options.choices.split(","):
            key = {"source": Path(source).stem, "scenario": scenario, "fold": fold, "views": choice}
            key |= {"epochs": options.epochs}
            if any(key.items() <= row.items() for row in read_lines(options.out)):
                continue
            plan = plan_of(choice, parts.train.store.shape[1:], options.epochs)
            row = key | measure(parts, plan, f"{key['source']} {scenario} fold {fold} {choice}", options.device) | about
            append_line(options.out, row)
            shown = " ".join(f"{name} {row[name]:.4f}" for name in ("val_loss", "held_out_loss", "instance_accuracy"))
            print(f"{key['source']} {scenario} fold {fold} {choice}: {shown}", flush=True)


if __name__ == "__main__":
    main()
