"""Which recipe is best for vectors? Images as the first principal components of their pixels, quick against census.

    python benchmarks/vectors.py digits pathmnist svhn28.npz --folds 0-2 --out results/recipes/vectors.jsonl

The components are those of the instances in the training bags. Each line of OUT is one training; a training that has a
line with the same plan is not run again. Measured: results/README.md.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from itertools import product
from pathlib import Path

import numpy as np
from provenance import commit

from majority import build_model, evaluate
from majority.cli.options import parse_folds
from majority.files import append_line, read_lines
from majority.io import Parts, load
from majority.nn.methods import DEFAULT_METHOD
from majority.nn.model import Model
from majority.recipes import RECIPES, Plan, Run, TaskInfo
from majority.run.folder import environment
from majority.run.study.results import with_current_names


def as_vectors(parts: Parts, components: int) -> Parts:
    """The same bags, with the pixels of each instance replaced by their first principal components."""
    store = parts.train.store.reshape(len(parts.train.store), -1).astype(np.float32)
    known = store[parts.train.one_per_instance().index]
    lengths, directions = np.linalg.eigh(np.cov(known, rowvar=False))
    directions = directions[:, lengths > 1e-6 * lengths[-1]][:, ::-1][:, :components].astype(np.float32)
    vectors = (store - known.mean(axis=0)) @ directions
    return Parts(*(part and part._with(store=vectors) for part in parts))  # benchmark parts share one store


def trained(parts: Parts, plan: Plan, source: str) -> dict:
    recipe = plan.recipe

    def fresh_model(number: int = 0) -> Model:
        return build_model(parts.train, DEFAULT_METHOD, plan.backbone, seed=run.seed_of(number))

    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder), parts.train, parts.val, plan, fresh_model, f"{source} {recipe}", "cpu")
        result = RECIPES[recipe].train(run)
    return evaluate(result.model, parts.test, "cpu").summary() | result.summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--scenarios", default="small,various,large")
    parser.add_argument("--folds", type=parse_folds, default="0-2")
    parser.add_argument("--recipes", default="quick,census")
    parser.add_argument("--components", type=int, default=64)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"commit": commit(), "environment": environment()}
    for path, scenario, fold in product(options.sources, options.scenarios.split(","), options.folds):
        source, parts = Path(path).stem, None
        for recipe in options.recipes.split(","):
            key = {"source": source, "scenario": scenario, "fold": fold, "components": options.components}
            key |= {"recipe": recipe, "method": DEFAULT_METHOD}
            plan = RECIPES[recipe].plan(TaskInfo(source, (options.components,), on_gpu=False))
            key["plan"] = json.loads(json.dumps(plan.as_dict()))
            if any(key.items() <= with_current_names(row).items() for row in read_lines(options.out)):
                continue
            parts = parts or as_vectors(load(path).make_parts(scenario=scenario, fold=fold), options.components)
            row = key | trained(parts, plan, source) | about
            append_line(options.out, row)
            figures = f"{row['instance_accuracy']:.4f}, {row['seconds']:.0f} s"
            print(f"{source} {scenario} fold {fold} {recipe}: {figures}", flush=True)


if __name__ == "__main__":
    main()
