"""forest: what one would do with a table without this package, done well.

Trees learn the label of its bag for every instance. Six forests, each grown on half of the bags, predict the other
bags, which shows by how much the scores must be corrected for how often each class is a label.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Literal

import torch

from ..data.bags import Bags
from ..data.device import choose_device
from ..errors import InputError
from ..nn.model import Model, build_model
from ..predict.evaluate import all_batches, evaluate, outputs
from ..training.callbacks import Fitted
from ..training.distributed import from_first
from ..training.settings import Settings
from .census.members import Table, as_trees, forest_member, model_of_trees
from .plan import Plan, TaskInfo
from .stages import Run, Stage

METHOD = "soft-count"  # how its bags are predicted
FEWEST_BAGS = 3


def plan(task: TaskInfo) -> Plan:
    return Plan(training=Settings(epochs=1))


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    if not task.vectors:
        raise InputError("recipe forest needs vectors, these instances are images: use quick, or features of a network")
    return [Stage("training", plan.training, start=grow, train=judge)]


def grow_model(bags: Bags, judges: Sequence[Bags], seed: int = 0, wrong: float = 0.0) -> Model:
    """A forest of these bags as a model, corrected by the labels of bags that its parts have not seen."""
    if (bags.labels >= 0).sum() < FEWEST_BAGS:
        raise InputError(f"a forest needs at least {FEWEST_BAGS} bags whose label names one class: label more bags")
    empty = build_model(bags, METHOD, "linear")
    trees = as_trees(*forest_member(Table(bags, judges, empty.normalise, seed), seed, wrong))
    return model_of_trees(trees, empty, bags)


def baseline(train: Bags, bags: Bags, device: str = "auto") -> dict[str, str | float] | None:
    """What a forest of the training bags is right about: the entry of result.json. None if labels are missing."""
    if (train.labels >= 0).sum() < FEWEST_BAGS or not bags.labelled:
        return None
    figures = evaluate(grow_model(train.without_instance_labels(), []), bags, device).summary()
    return {"name": "forest", "bag_accuracy": figures["bag_accuracy"]}


# ---------------------------------------------------------------------- the stage


def grow(run: Run) -> Model:
    return from_first(lambda: grow_model(run.train, run.judges, run.plan.training.seed, run.remaining_wrong))


def judge(run: Run, model: Model) -> Fitted:
    """The figures of its only epoch: the mean loss of the labels, and the share of bags that are right by count."""
    start, record = time.perf_counter(), {"epoch": 0, "learning_rate": 0.0}
    device = choose_device(run.device)
    model.to(device)
    judged = {"train": run.train} if run.epochs is not None else {"train": run.train, "val": run.val}
    for part, bags in judged.items():
        figures = []
        for batch, output in outputs(model, all_batches(bags.with_labels(), device)):
            losses = model.head.losses(output, batch.segments, batch.target)
            figures.append(torch.stack([losses, model.bags_right(output, batch.segments, batch.target)]))
        record[f"{part}_loss"], record[f"{part}_bag_accuracy"] = torch.cat(figures, dim=1).mean(dim=1).tolist()
    seconds = record["seconds"] = time.perf_counter() - start
    name: Literal["val_loss", "train_loss"] = "val_loss" if "val" in judged else "train_loss"
    return Fitted(0, record[name], name, seconds, history=[record])
