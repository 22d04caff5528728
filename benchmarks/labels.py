"""Labels that say less than the winner: how accurate training is if most bags have no label.

    OMP_NUM_THREADS=1 python benchmarks/labels.py digits --folds 2-4 --out results/labels/unlabelled.jsonl
    python benchmarks/labels.py cifar10 --folds 2-4 --out results/labels/unlabelled.jsonl

Of 400 training bags, 40, 100 or 200 keep their label, and a quarter as many validation bags are used; the other
training bags have no label (line `with`), or are left out (`without`). `all` has 400 labelled bags. Test bags are the
same. Bags of digits have 32 instances. A training that has a line in OUT is not repeated. Trainings on the same
instances share one pretraining, which is in WORK.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
from itertools import product
from pathlib import Path

import numpy as np

from majority import evaluate
from majority.cli.options import parse_folds
from majority.data.device import choose_device
from majority.methods import AUTO
from majority.recipes import TaskInfo, choose, model_builder, train_by_plan
from majority.sources import Parts, load

BAGS, LABELLED = 400, (40, 100, 200)
BAG_SIZES = {"digits": 32}


def choices() -> list[tuple[int, bool]]:
    """Labelled bags, and whether the other bags are used."""
    return [(BAGS, False), *product(LABELLED, (True, False))]


def with_few_labels(parts: Parts, labelled: int, others: bool) -> Parts:
    """The parts with so many labelled training bags; with `others`, the rest stays without labels."""
    if labelled == len(parts.train):
        return parts
    share = labelled / len(parts.train)
    keeps = parts.train.divide([share, 1 - share]) == 0
    few = parts.train._with(bag_labels=parts.train.bag_labels.only(keeps))
    val = parts.val.subset(parts.val.divide([share, 1 - share]) == 0)
    return parts._replace(train=few if others else few.with_labels(), val=val)


def train(parts: Parts, source: str, method: str, folder: Path, shared: Path, device: str, seed: int) -> dict:
    """Train by the default recipe; the pretraining is taken from `shared`, or put there."""
    task = TaskInfo(source, parts.train.store.shape[1:], choose_device(device).type == "cuda")
    plan = choose("default", task)[0].with_seed(seed)
    build = model_builder(plan, method, parts.train, pixels=plan.pixels)
    stage = folder / "stages" / "pretrain"
    shutil.rmtree(folder, ignore_errors=True)
    if (shared / "outcome.json").exists():
        shutil.copytree(shared, stage)
    trained = train_by_plan(plan, method, parts.train, parts.val, build, folder, device=device, log=print)
    if stage.exists() and not shared.exists():
        shared.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(stage, shared)
    shutil.rmtree(folder)
    figures = evaluate(trained.model, parts.test, device).summary()
    seconds = sum(fitted.seconds for fitted in trained.stages.values()) or trained.fitted.seconds
    return {
        "instance_accuracy": round(figures["instance_accuracy"], 4),
        "bag_accuracy_by_count": round(figures["bag_accuracy_by_count"], 4),
        "recipe": plan.recipe,
        "seconds": round(seconds, 1),
    }


def commit() -> str:
    found = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return found.stdout.strip()


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--scenarios", default="small,various")
    parser.add_argument("--folds", type=parse_folds, default="2-4")
    parser.add_argument("--method", default=AUTO)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--bags", type=int, default=BAGS, help="only for tests")
    parser.add_argument("--labelled", type=parse_folds, help="only these numbers of labelled bags")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=Path("runs/labels"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for source, fold, scenario in product(options.sources, options.folds, options.scenarios.split(",")):
        opened = load(source)
        whole = opened.make_parts(scenario=scenario, fold=fold, bags=options.bags, bag_size=BAG_SIZES.get(source))
        for labelled, others in choices():
            if options.labelled and labelled not in options.labelled:
                continue
            line = "all" if labelled == BAGS else "with" if others else "without"
            labelled = labelled * options.bags // BAGS
            key = {"source": opened.name, "scenario": scenario, "fold": fold, "line": line, "labelled": labelled}
            key |= {"method": options.method, "seed": options.seed, "bags": options.bags}
            if any(key.items() <= row.items() for row in read(options.out)):
                continue
            parts = with_few_labels(whole, labelled, others)
            used = len(np.unique(parts.train.index))
            shared = options.work / f"{opened.name}-{scenario}-{fold}-{options.seed}-{used}"
            folder = options.work / "run"
            row = key | train(parts, opened.name, options.method, folder, shared, options.device, options.seed)
            row["commit"] = commit()
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
