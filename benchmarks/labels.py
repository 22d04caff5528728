"""Labels that say less or more than the winner: what a recipe learns from them.

    OMP_NUM_THREADS=1 python benchmarks/labels.py unlabelled digits --folds 2-4 --out results/labels/unlabelled.jsonl
    OMP_NUM_THREADS=1 python benchmarks/labels.py top2 digits --folds 2-4 --out results/labels/top2.jsonl
    OMP_NUM_THREADS=1 python benchmarks/labels.py instances digits --scenarios small --folds 2-4 \
        --out results/labels/instances.jsonl
    OMP_NUM_THREADS=1 python benchmarks/labels.py weights crops.csv --folds 2-4 --out results/labels/weights.jsonl
    python benchmarks/labels.py unlabelled cifar10 --folds 2-4 --out results/labels/unlabelled.jsonl
    python benchmarks/labels.py top2 cifar10 --folds 2-4 --scenarios small --out results/labels/top2.jsonl

    OMP_NUM_THREADS=1 python benchmarks/labels.py wrong digits crops.csv --scenarios various --folds 2-4 \\
        --out results/labels/wrong.jsonl
    python benchmarks/labels.py wrong cifar10 --scenarios various --folds 2-4 --out results/labels/wrong.jsonl

unlabelled: of 400 training bags, 40, 100 or 200 keep their label, and a quarter as many validation bags are used; the
other training bags have no label (line `with`), or are left out (`without`). `all` has 400 labelled bags.
top2: the same bags with their winners, with winners and runners-up, and with their class proportions.
instances: the same bags, beside them the classes of 0, 1, 5 or 20 training instances per class.
weights: your own bags with true classes. Each instance gets a random weight, and the label of a bag is the class with
the largest sum. The weights are given (line `weighted`), or left out (`ignored`); `plain` has the labels of the file.
wrong: 0, 10, 20 and 40 % of the training and validation bags have a wrong label. `found` has the training and
validation bags whose label is probably wrong by `majority review`, and the share of wrong labels among the first of
them, half as many as there are wrong labels. Bags of your own are divided into five folds.

With --features, instances are rows of that file (see benchmarks/embed.py) instead of images.

Test bags are the same on all lines. Bags of digits have 32 instances; for top2 and instances there are 200. A training
that has a line in OUT is not repeated. Trainings on the same instances share one pretraining, which is in WORK.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
from provenance import commit

from majority import evaluate
from majority.cli.options import parse_folds
from majority.data.device import choose_device
from majority.data.labels import BagLabels
from majority.data.scenarios import make_labels_wrong
from majority.data.training_labels import use_instance_labels
from majority.files import append_line, read_lines
from majority.io import CustomBags, LabelledSet, Parts, Source, load
from majority.nn.methods import AUTO
from majority.nn.model import Model
from majority.predict.classifier import Classifier
from majority.recipes import Plan, TaskInfo, choose_plan, model_builder, train_by_plan
from majority.run.classified_bags import classify_bags
from majority.run.suspicious import review_labels

BAGS, LABELLED = 400, (40, 100, 200)
WRONG = (0.0, 0.1, 0.2, 0.4)
PER_CLASS = (1, 5, 20)  # labelled instances of each class
SPREAD, FOLDS = 1.5, 5  # standard deviation of the logarithm of weights; folds of your own bags
BAG_SIZES = {"digits": 32}


def make_lines(what: str, source: Source, bags: int | None, **choices: object) -> Iterator[tuple[dict, Parts, str]]:
    """What tells a line apart, its bags, and the method (auto unless it is given more than bag labels)."""
    if what == "weights":
        yield from make_weighted_lines(source, choices["fold"])
        return
    if isinstance(source, CustomBags):
        parts = source.make_parts(fold=choices["fold"], folds=FOLDS)
        for share in WRONG:
            rngs = (np.random.default_rng([0, choices["fold"], number]) for number in (3, 4))
            train, val = (make_labels_wrong(part, share, rng) for part, rng in zip(parts[:2], rngs, strict=True))
            yield {"line": "wrong", "wrong": share}, Parts(train, val, parts.test), AUTO
        return
    assert bags is not None
    if what == "wrong":
        for share in WRONG:
            yield {"line": "wrong", "wrong": share}, source.make_parts(bags=bags, wrong_labels=share, **choices), AUTO
        return
    choices |= {"bags": bags, "bag_size": BAG_SIZES.get(source.name.removesuffix("-features"))}
    if what == "top2":
        parts = source.make_parts(**choices)
        yield {"line": "winner"}, parts, AUTO
        yield {"line": "top2"}, source.make_parts(labels="top2", **choices), AUTO
        yield {"line": "proportion"}, parts, "proportion"
        return
    whole = source.make_parts(**choices)
    if what == "instances":
        yield {"line": "bags only", "per_class": 0}, whole, AUTO
        for per_class in PER_CLASS:
            few = whole._replace(train=use_instance_labels(whole.train, per_class))
            yield {"line": "with instance labels", "per_class": per_class}, few, AUTO
        return
    yield {"line": "all", "labelled": bags}, whole, AUTO
    for of_400, others in product(LABELLED, (True, False)):
        labelled = of_400 * bags // BAGS
        line = {"line": "with" if others else "without", "labelled": labelled}
        yield line, with_few_labels(whole, labelled, others), AUTO


def with_features(source: Source, file: Path) -> LabelledSet:
    """The same set with rows of the file in place of its images."""
    features = np.load(file)
    if not isinstance(source, LabelledSet) or len(features) != len(source.labels):
        raise SystemExit(f"--features {file}: give one row for each image of a labelled set")
    return replace(source, name=f"{source.name}-features", store=features)


def make_weighted_lines(source: CustomBags, fold: int) -> Iterator[tuple[dict, Parts, str]]:
    """The same division of groups on all lines; classes that are never the label of a bag are left out."""
    bags = source.bags.subset(source.bags.fully_known)
    drawn = np.exp(SPREAD * np.random.default_rng(0).normal(size=len(bags.index)))
    weighted = bags._with(weights=drawn)
    winners = weighted.class_counts(weighted=True)[:, : len(bags.classes)].argmax(axis=1)
    weighted = weighted._with(bag_labels=BagLabels(winners))
    parts = CustomBags(source.name, weighted).make_parts(folds=FOLDS, fold=fold)
    changed = round(float(np.mean(winners != bags.labels)), 4)
    yield {"line": "weighted", "changed_labels": changed}, parts, AUTO
    yield {"line": "ignored", "changed_labels": changed}, Parts(*(part._with(weights=None) for part in parts)), AUTO
    plain = CustomBags(source.name, bags).make_parts(folds=FOLDS, fold=fold)
    yield {"line": "plain", "changed_labels": 0.0}, plain, AUTO


def with_few_labels(parts: Parts, labelled: int, others: bool) -> Parts:
    """The parts with so many labelled training bags; with `others`, the rest stays without labels."""
    share = labelled / len(parts.train)
    keeps = parts.train.divide([share, 1 - share]) == 0
    few = parts.train._with(bag_labels=parts.train.bag_labels.masked(keeps))
    val = parts.val.subset(parts.val.divide([share, 1 - share]) == 0)
    return parts._replace(train=few if others else few.with_labels(), val=val)


def train(
    parts: Parts,
    plan: Plan,
    method: str,
    folder: Path,
    shared: Path,
    device: str,
    truth: Parts | None = None,
) -> dict:
    """Train by the plan; the pretraining is taken from `shared`, or put there."""
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
    found = {} if truth is None else {"found": review(trained.model, parts, truth, device)}
    seconds = sum(fitted.seconds for fitted in trained.stages.values()) or trained.fitted.seconds
    return {
        "instance_accuracy": round(figures["instance_accuracy"], 4),
        "bag_accuracy": round(figures["bag_accuracy"], 4),
        "seconds": round(seconds, 1),
        **found,
    }


def review(model: Model, parts: Parts, truth: Parts, device: str) -> dict:
    """How many labels are wrong, how many bags are listed, and the precision of the first half."""
    bags, true = {"train": parts.train, "val": parts.val}, {"train": truth.train, "val": truth.val}
    classifier = Classifier(model, device)
    found = review_labels({part: classify_bags(classifier, of_part) for part, of_part in bags.items()})
    listed = [one for one in found.suspicions if one.is_probable]
    wrong = sum(int((of_part.labels != true[part].labels).sum()) for part, of_part in bags.items())
    right = [bags[one.part].labels[one.bag] != true[one.part].labels[one.bag] for one in listed]
    half = right[: (wrong + 1) // 2]
    precision = round(sum(half) / len(half), 4) if half else None
    return {
        "wrong": wrong,
        "listed": len(listed),
        "right": int(sum(right)),
        "of_half": len(half),
        "precision": precision,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("unlabelled", "top2", "instances", "weights", "wrong"))
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--scenarios", default="small,various")
    parser.add_argument("--folds", type=parse_folds, default="2-4")
    parser.add_argument("--recipe", default="default")
    parser.add_argument("--method", default=AUTO, help="of the lines that are given bag labels only")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--bags", type=int, help="training bags (default: 400 for unlabelled, else those of the source)"
    )
    parser.add_argument("--lines", help="only these, such as all,with,without or winner,top2")
    parser.add_argument("--labelled", type=parse_folds, help="only these numbers of labelled bags")
    parser.add_argument("--wrong", type=float, nargs="*", help="only these shares of wrong labels")
    parser.add_argument("--features", type=Path, help="an .npy file with features of all images of the only source")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--work", type=Path, default=Path("runs/labels"))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    if options.features and len(options.sources) > 1:
        parser.error("--features: give one source")
    for source, fold, scenario in product(options.sources, options.folds, options.scenarios.split(",")):
        opened = load(source)
        if options.features:
            opened = with_features(opened, options.features)
        custom = isinstance(opened, CustomBags)
        scenario = None if custom else scenario
        bags = None if custom else options.bags or (BAGS if options.what == "unlabelled" else opened.bags)
        truth = None
        for line, parts, method in make_lines(options.what, opened, bags, scenario=scenario, fold=fold):
            truth = parts if line.get("wrong") == 0 else truth
            key = {"source": opened.name, "scenario": scenario, "fold": fold, **line}
            method = options.method if method == AUTO else method
            task = TaskInfo.of(parts.train, opened.kind, choose_device(options.device).type == "cuda")
            plan = choose_plan(options.recipe, task)[0].with_seed(options.seed)
            key |= {"method": method, "seed": options.seed, "bags": bags, "recipe": plan.recipe}
            wanted = not options.lines or line["line"] in options.lines.split(",")
            wanted = wanted and (not options.labelled or line.get("labelled") in options.labelled)
            wanted = wanted and (not options.wrong or line.get("wrong") in options.wrong)
            if not wanted or any(key.items() <= row.items() for row in read_lines(options.out)):
                continue
            used = len(np.unique(parts.train.index))
            shared = options.work / f"{opened.name}-{scenario}-{fold}-{options.seed}-{used}"
            row = key | train(parts, plan, method, options.work / "run", shared, options.device, truth)
            row["commit"] = (options.commit or commit())[:7]
            append_line(options.out, row)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
