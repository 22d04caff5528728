r"""All bags at the end: what a second training on all labelled bags gains, and the mean of the classifiers of folds.

    OMP_NUM_THREADS=1 python benchmarks/refit.py digits crops.csv --bags 60,120,240 --recipes quick \
        --folds 2-4 --out results/labels/refit.jsonl

N bags are "own bags": benchmark bags of 32 instances (scenario various), or a part of a file of bags, without those of
one fold of groups. They are divided 60/20/20 as `majority train` does. Lines: `split`, the classifier of that division;
`refit`, trained once more on all N bags with the epochs and weights that the division has chosen; `folds`, the mean of
the five classifiers of `--folds 5`. All are tested on the same other bags. What has lines in OUT is not trained again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from itertools import product
from pathlib import Path

import numpy as np
from provenance import commit

from majority import Bags
from majority.cli.options import parse_folds
from majority.data.device import choose_device
from majority.data.joining import join
from majority.files import append_line, read_lines
from majority.io import Parts, is_custom_source, load
from majority.io.custom import CustomBags
from majority.nn.methods import AUTO
from majority.predict.classifier import AveragedClassifier, Classifier
from majority.recipes import Plan, TaskInfo, Trained, choose_plan, model_builder, train_by_plan
from majority.recipes.stages import Chosen

BAG_SIZE, SCENARIO, FOLDS = 32, "various", 5


def own_and_test(source: str, bags: int, fold: int) -> tuple[Bags, Bags]:
    """N own bags, and other bags to test on."""
    opened = load(source)
    if is_custom_source(source):
        parts = opened.make_parts(folds=FOLDS, fold=fold)
        others = np.concatenate([np.flatnonzero(np.isin(opened.bags.names, part.names)) for part in parts[:2]])
        chosen = np.random.default_rng(fold).permutation(others)[:bags]
        return opened.bags.subset(np.sort(chosen)), parts.test
    test = opened.make_parts(scenario=SCENARIO, fold=fold, bags=400, bag_size=BAG_SIZE).test
    return opened.make_parts(scenario=SCENARIO, fold=fold, bags=bags, bag_size=BAG_SIZE).train, test


def plan_for(train: Bags, recipe: str, kind: str, device: str) -> Plan:
    return choose_plan(recipe, TaskInfo.of(train, kind, choose_device(device).type == "cuda"))[0]


def train(parts: Parts, plan: Plan, folder: Path, device: str, chosen: Chosen | None = None) -> Trained:
    build = model_builder(plan, AUTO, parts.train, pixels=plan.pixels)
    shutil.rmtree(folder, ignore_errors=True)
    trained = train_by_plan(plan, AUTO, parts.train, parts.val, build, folder, device=device, chosen=chosen)
    shutil.rmtree(folder, ignore_errors=True)
    return trained


def accuracy(classifier: Classifier, test: Bags) -> float:
    guesses = np.concatenate([rows.argmax(axis=1) for _, rows in classifier.stream(test)])
    return round(float(np.mean(guesses == test.instance_labels)), 4)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--bags", type=parse_folds, default="60,120,240,400")
    parser.add_argument("--folds", type=parse_folds, default="2-4")
    parser.add_argument("--recipes", default="quick,census")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=Path("runs/refit"))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for recipe, bags, source, fold in product(options.recipes.split(","), options.bags, options.sources, options.folds):
        key = {"source": Path(source).stem, "bags": bags, "fold": fold, "recipe": recipe}
        if any(key.items() <= row.items() for row in read_lines(options.out)):
            continue
        start = time.process_time()
        own, test = own_and_test(source, bags, fold)
        if len(own) < bags:
            continue
        if own.bag_labels.counts.min() < 3:
            print(f"{key}: left out, because a class has fewer than three bags", flush=True)
            continue
        kind = "" if is_custom_source(source) else source
        divided = CustomBags("own", own)
        parts = divided.make_parts()
        plan = plan_for(parts.train, recipe, kind, options.device)
        split = train(parts, plan, options.work, options.device)
        everything = Parts(join([*parts.present().values()]), parts.val, None)
        again = train(everything, plan, options.work, options.device, split.chosen)
        of_folds = []
        for number in range(FOLDS):
            of_fold = divided.make_parts(folds=FOLDS, fold=number)
            plan = plan_for(of_fold.train, recipe, kind, options.device)
            of_folds.append(train(of_fold, plan, options.work, options.device))
        single = {
            name: Classifier(trained.model, options.device)
            for name, trained in {"split": split, "refit": again}.items()
        }
        members = [Classifier(trained.model, options.device) for trained in of_folds]
        found = {name: accuracy(classifier, test) for name, classifier in single.items()}
        found["folds"] = accuracy(AveragedClassifier(members), test)
        found["fold_mean"] = round(float(np.mean([accuracy(member, test) for member in members])), 4)
        row = key | found | {"cpu_seconds": round(time.process_time() - start, 1), "commit": commit()}
        append_line(options.out, row)
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
