"""Is the share of a background class found from the bags? Three sets on a CPU, recipe census, no method named.

    OMP_NUM_THREADS=1 python benchmarks/background_share.py digits pathmnist CROPS.csv --folds 2-4 --out FILE

Two cases. `rare`: the bags that the rarest winner wins are left out, and this class is named as the background.
`frequent`: a class that does not vote at all. Labelled sets give 200 training bags of 12, 24, 48 and 96 instances;
winners hold at least a quarter of their votes, and the most frequent one wins four times as many bags as the rarest
one. In the case `frequent`, 0 to 60 % of a bag are background. Digits are vectors of 64 pixels; images are principal
components of patch features, as in losses.py. Crops are fields, in five group folds; `frequent`: the bags that `winter`
wins are left out.

Conditions: `estimated` (no share is given) and `true` (--background-share is that of the training bags). A combination
that has a line in OUT is not trained again.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path

import numpy as np
from losses import _join, as_vectors

import majority
from majority import Bags
from majority.cli.options import parse_folds
from majority.io import LabelledSet, Parts, load

CASES, CONDITIONS = ("rare", "frequent"), ("estimated", "true")
SIZES, BAGS, MAJORITY, WINNER_RATIO = (12, 24, 48, 96), 50, (0.25, 1.0), 4
FREQUENT = {"digits": "0", "pathmnist": "normal colon mucosa", "crops": "winter"}
FIGURES = ("instance_accuracy", "voter_accuracy", "background_precision", "background_recall", "background_share")


def make_parts(source: LabelledSet | None, path: str, case: str, fold: int) -> Parts:
    name = FREQUENT[Path(path).stem]
    if source is None:
        parts = load(path).make_parts(folds=5, fold=fold)
    else:
        more = {"ties": "resample"} if case == "rare" else {"background": name}
        by_size = [
            source.make_parts(
                bags=BAGS,
                bag_size=size,
                with_replacement=True,
                scenario=MAJORITY,
                winner_ratio=WINNER_RATIO,
                fold=fold,
                **more,
            )
            for size in SIZES
        ]
        parts = Parts(*map(_join, zip(*by_size, strict=True)))
    if case == "rare":
        wins = np.bincount(parts.train.labels, minlength=len(parts.train.classes))
        name = parts.train.classes[int(wins.argmin())]
    return Parts(*(without_wins(bags, name) for bags in parts))


def without_wins(bags: Bags, name: str) -> Bags:
    lost = bags.labels != bags.classes.index(name)
    return bags.subset(np.flatnonzero(lost)).with_background(name)


def train(parts: Parts, condition: str) -> dict:
    background = parts.train.background
    true = float(np.mean(parts.train.instance_labels == background))
    share = round(true, 3) if condition == "true" else None
    started = time.process_time()
    run = majority.train(tuple(parts), recipe="census", background_share=share, device="cpu", verbose=False)
    row = {"background": parts.train.classes[background], "true_share": round(true, 4)}
    row |= {name: run.metrics.get(name) for name in FIGURES}
    row = {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
    found = run.result.get("background", {})
    row |= {"share": found.get("share", share), "warned": "warning" in found, "prior": found.get("prior")}
    row |= {"tried": [[one["share"], round(one["bag_accuracy"], 3)] for one in found.get("tried", ())]}
    return row | {"cpu_seconds": round(time.process_time() - started, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--folds", type=parse_folds, default="2-4")
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--conditions", default=",".join(CONDITIONS))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    done = [json.loads(line) for line in options.out.read_text().splitlines()] if options.out.exists() else []
    for path in options.sources:
        opened = load(path)
        labelled = as_vectors(opened) if isinstance(opened, LabelledSet) else None
        for fold, case, condition in product(options.folds, options.cases.split(","), options.conditions.split(",")):
            key = {"set": Path(path).stem, "case": case, "fold": fold, "condition": condition}
            if any(key.items() <= row.items() for row in done):
                continue
            row = key | train(make_parts(labelled, path, case, fold), condition)
            with options.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(*(f"{name} {value}" for name, value in row.items() if name != "tried"), flush=True)


if __name__ == "__main__":
    main()
