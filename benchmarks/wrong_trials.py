"""Where bag labels are wrong: what should the training after the first one learn from?

    OMP_NUM_THREADS=1 python benchmarks/wrong_trials.py crops.csv --folds 0-1 --draws 3 \
        --out results/labels/wrong-trials.jsonl

20 % of the training and validation bags of your own bags, which are divided into five folds, get a wrong label, with
different random draws. The lines:

first             the labels as they are
corrected         labels that the first classifier contradicts are replaced or removed, as the recipe does
corrected-twice   the same, judged by the classifier of `corrected`
corrected-thrice  the same, judged by the classifier of `corrected-twice`
removed           labels that the first classifier contradicts are removed
tolerant          the labels as they are, and the share of wrong labels that was found is assumed
all-removed       exactly the wrong labels are removed: no recipe can know them
right             no label is wrong

All are trainings of the recipe `census` with its default losses. `found` says how many labels were contradicted, and
how many of these are wrong. A training that has a line in OUT is not repeated.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
from labels import FOLDS
from provenance import commit

from majority import evaluate
from majority.cli.options import parse_folds, parse_settings
from majority.data.scenarios import make_labels_wrong
from majority.files import append_line, read_lines
from majority.io import Parts, load
from majority.nn.methods import AUTO
from majority.recipes import RECIPES, Run, TaskInfo, Trained, choose_plan, model_builder
from majority.recipes.wrong_labels import find_wrong_labels, with_corrections

CENSUS = RECIPES["census"]
LINES = ("first", "corrected", "corrected-twice", "corrected-thrice", "removed", "tolerant", "all-removed", "right")


class Trials:
    """The trainings on one draw of wrong labels; a training that others need is done once."""

    def __init__(self, parts: Parts, share: float, seeds: tuple[int, int], settings: dict, folder: Path) -> None:
        rngs = (np.random.default_rng([*seeds, number]) for number in (3, 4))
        train, val = (make_labels_wrong(part, share, rng) for part, rng in zip(parts[:2], rngs, strict=True))
        plan = choose_plan("census", TaskInfo.of(train, "", on_gpu=False))[0].with_settings(settings)
        build = model_builder(plan, AUTO, train, pixels=plan.pixels)

        def fresh_model(number: int = 0, method: str | None = None):
            return build(self.run.seed_of(number), method)

        self.run = Run(folder, train, val, plan, fresh_model, None, "cpu", losses=CENSUS.losses)
        self.true = [train.classes[label] for part in parts[:2] for label in part.labels]
        given = [train.classes[label] for part in (train, val) for label in part.labels]
        self.wrong = [str(bag) for bag in range(len(given)) if given[bag] != self.true[bag]]
        self.trained: dict[str, Trained] = {}

    def train(self, line: str) -> Trained:
        if line not in self.trained:
            self.trained[line] = CENSUS.train(self._run_of(line))
        return self.trained[line]

    def judged(self, line: str) -> dict[str, Any]:
        """What the classifier of this line says about the labels."""
        return find_wrong_labels(self.train(line).model, self.run.train, self.run.val, device="cpu")

    def judging(self, line: str) -> str | None:
        """The line whose classifier judges the labels for this one."""
        judges = {"corrected": "first", "corrected-twice": "corrected", "corrected-thrice": "corrected-twice"}
        return judges.get(line, "first" if line in ("removed", "tolerant") else None)

    def found(self, line: str) -> dict[str, Any]:
        judge = self.judging(line)
        if judge is None:
            return {}
        contradicted = self.judged(judge)["corrections"]
        right = len({*contradicted} & {*self.wrong})
        return {"found": {"wrong": len(self.wrong), "contradicted": len(contradicted), "right": right}}

    def _run_of(self, line: str) -> Run:
        run, judge = self.run, self.judging(line)
        about = {"share": 0.0, "corrections": {}} if judge is None else self.judged(judge)
        if line == "removed":
            about["corrections"] = dict.fromkeys(about["corrections"], "")
        elif line == "all-removed":
            about["corrections"] = dict.fromkeys(self.wrong, "")
        elif line == "right":
            about["corrections"] = {bag: self.true[int(bag)] for bag in self.wrong}
        elif line == "tolerant":
            run = replace(run, remaining_wrong=about["share"])
        run = run if line == "tolerant" else with_corrections(run, about)
        return replace(run, folder=self.run.folder / line)


def cases(options: argparse.Namespace) -> Iterator[tuple[dict, Parts]]:
    for source, fold, draw in product(options.sources, options.folds, range(options.draws)):
        opened = load(source)
        key = {"source": opened.name, "fold": fold, "wrong": options.wrong, "draw": draw}
        yield key, opened.make_parts(fold=fold, folds=FOLDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--folds", type=parse_folds, default="0-1")
    parser.add_argument("--wrong", type=float, default=0.2)
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--lines", default=",".join(LINES))
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="as for `majority train`")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--commit", default=None, help="if this is not a git checkout")
    options = parser.parse_args()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for key, parts in cases(options):
        done = {row["line"] for row in read_lines(options.out) if key.items() <= row.items()}
        folder = Path(mkdtemp())
        settings = parse_settings(options.set, {})
        trials = Trials(parts, options.wrong, (key["draw"], key["fold"]), settings, folder)
        for line in options.lines.split(","):
            if line in done:
                continue
            accuracy = evaluate(trials.train(line).model, parts.test, "cpu").summary()["instance_accuracy"]
            row = key | {"line": line, "instance_accuracy": round(accuracy, 4)} | trials.found(line)
            append_line(options.out, row | {"commit": options.commit or commit()})
            print(json.dumps(row), flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
