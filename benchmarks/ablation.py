"""What each stage of census is worth: the recipe without one of them, all from the same pretrained network.

    python benchmarks/ablation.py cifar10 --folds 3 --out results/census/ablation.jsonl

census        the whole recipe, with its several losses
head          pretraining and a linear head on its features, nothing after it; `each` has the head of every loss
teacher       no student: the first teacher
teachers      no student: the weighted mean of the teachers' probabilities; `each` has every teacher
one-teacher   a student of one teacher
count         one loss, that of the paper's method `count`
from-scratch  no pretraining, no teachers: one network with the views, the optimizer and the epochs of the student
              learns from the bags, with the first loss of census

Each line of OUT is one variant; a variant that has a line is not run again. Stages are kept in WORK, so that an
interrupted run continues.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from census import Cell, make_cells, make_parser
from provenance import commit
from safetensors.torch import load_file

from majority import evaluate
from majority.files import append_line, read_lines
from majority.nn.methods import AUTO
from majority.nn.model import Model
from majority.recipes import RECIPES, census
from majority.recipes.stages import STAGES, WEIGHTS
from majority.run.folder import environment

LOSSES = RECIPES["census"].losses
FROM_STAGES = ("head", "teacher", "teachers")  # of the whole recipe
LINES = ("census", "head", "teacher", "teachers", "one-teacher", "count", "from-scratch")


def run_line(cell: Cell, line: str, whole: dict) -> dict:
    """The figures of one variant; `whole` is the line of the whole recipe."""
    if line == "census":
        return cell.train_from_pretrained(AUTO)
    if line == "one-teacher":
        plan = replace(cell.plan, own=replace(cell.plan.own, teachers=1))
        return cell.train_from_pretrained(AUTO, plan, line)
    if line == "count":
        return cell.train_from_pretrained("count")
    if line == "from-scratch":
        plan = replace(cell.augmented, backbone=cell.plan.backbone, training=cell.plan.training)
        return cell.trained(LOSSES[0], plan, cell.work / line)
    if line == "head":
        models = {f"head-{loss}": _head(cell, loss) for loss in LOSSES}
    else:
        models = {name: _teacher(cell, name) for name in whole["losses"]["teachers"]}
    if line == "teachers":
        return _of_mean(cell, models, whole["losses"]["teachers"])
    first = next(iter(models.values()))
    return evaluate(first, cell.parts.test, cell.device).summary() | {"each": _accuracies(cell, models)}


def _head(cell: Cell, loss: str) -> Model:
    model = cell.model(cell.plan, loss)
    model.backbone.load_state_dict(load_file(cell.work / AUTO / STAGES / "pretrain" / WEIGHTS))
    model.head.load_state_dict(load_file(cell.work / AUTO / STAGES / f"head-{loss}" / WEIGHTS))
    return model


def _teacher(cell: Cell, name: str) -> Model:
    model = cell.model(cell.plan, next(loss for loss in LOSSES if name.endswith(f"-{loss}")))
    model.load_state_dict(load_file(cell.work / AUTO / STAGES / name / WEIGHTS))
    return model


def _of_mean(cell: Cell, models: dict[str, Model], weights: dict) -> dict:
    test = cell.parts.test
    mean = sum(
        weights[name]["weight"] * census.instance_probabilities(model, test, cell.device)
        for name, model in models.items()
    )
    predicted = mean.argmax(dim=1).cpu().numpy()
    counts = test.count_classes(predicted, len(test.classes), weighted=False)
    return {
        "instance_accuracy": float(np.mean(predicted == test.instance_labels)),
        "bag_accuracy": float(np.mean(counts.argmax(axis=1) == test.labels)),
        "each": _accuracies(cell, models),
    }


def _accuracies(cell: Cell, models: dict[str, Model]) -> dict[str, float]:
    return {
        name: evaluate(model, cell.parts.test, cell.device).summary()["instance_accuracy"]
        for name, model in models.items()
    }


def main() -> None:
    parser = make_parser(__doc__, "3", "runs/ablation")
    parser.add_argument("--lines", default=",".join(LINES), help="census must be first, or have its line in OUT")
    options = parser.parse_args()
    lines = options.lines.split(",")
    if not set(lines) <= set(LINES):
        parser.error(f"--lines {options.lines}: choose from {','.join(LINES)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    about = {"commit": options.commit or commit(), "environment": environment()}
    for cell in make_cells(options):
        for line in lines:
            there = {row["line"]: row for row in read_lines(options.out) if cell.key.items() <= row.items()}
            if line in there:
                continue
            if line in FROM_STAGES and "census" not in there:
                parser.error(f"--lines {line}: it needs the stages of census: run --lines census for {cell} first")
            cell.check_work_folder()
            row = cell.key | {"line": line, "seed": 0} | run_line(cell, line, there.get("census", {})) | about
            append_line(options.out, row)
            print(f"{cell} {line}: {row['instance_accuracy']:.4f}", flush=True)


if __name__ == "__main__":
    main()
