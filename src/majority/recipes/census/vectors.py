"""census of vectors: three kinds of learner predict each other's bags, the labels of the bags say how much to believe
each, and a network learns what they say together.

members  linear models, a forest and networks, each trained on two thirds of the bags and asked about the rest; see
         `pooling` for their weights. The networks learn what linear models and the forest say together.
student  one network learns the soft labels of the pool, and no bag label

If a method is named, or if labels say more than one class each, there are a linear head on discriminants, a network
that first learns its soft labels, teachers that start from that and from random weights, and the student.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.bags import Bags
from ...data.segments import Segments
from ...nn.model import Model
from ...predict.evaluate import all_batches, outputs
from ...training.callbacks import Fitted
from ...training.distributed import from_first
from ...training.objectives import Distill
from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..stages import SEED_STEP, Run, Stage
from .background_share import share_search
from .discriminants import MAX_FEATURES
from .images_on_cpu import tiny_stages
from .members import FOLDS, Predict, Table, forest_member, linear_member, sample
from .parts import (
    SOURCES,
    HeadSettings,
    chained,
    distilled,
    heads_on_discriminants,
    learned_bags,
    numbered,
    student,
    teachers,
)
from .pooling import Pool, add_labels, find_pool

METHOD = "soft-count"  # of the networks, which learn no bag label: its aggregation costs little
STEPS, LEAST_ROWS, MOST_ROWS = 64, 16, 128  # of an epoch of a network, and instances of a step
KINDS = ("linear", "forest", "network")


def plan(task: TaskInfo) -> Plan:
    return Plan(backbone="mlp", own=HeadSettings(), assumed_wrong=None)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    if not task.every_class_wins:
        return tiny_stages(task, plan)
    if task.losses and task.plain_labels:
        pool = Stage("members", choose=lambda run: _pool(run)[1], again=True)
        return chained([pool, Stage("student", plan.training, start=partial(_fresh, number=0), train=_learn_pool)])
    if task.shape[0] > MAX_FEATURES:
        return tiny_stages(task, plan)
    heads = heads_on_discriminants(task, plan)
    first = [*share_search(task, heads), *heads, *distilled(task, plan, heads)]
    if task.losses:  # teachers of both starts, all weighed
        sources = {**numbered(plan, None), **numbered(plan, "distilled", "distilled-teacher")}
        return chained([*first, *teachers(task, plan, sources), *student(task, plan, sources)])
    # one teacher of each start; the others and the student start like the better one
    choice = Stage("start", inputs=tuple(SOURCES), choose=_choose_start)
    more = numbered(plan, "start", first=2)
    both, others = teachers(task, plan, SOURCES), teachers(task, plan, more)
    return chained([*first, *both, choice, *others, *student(task, plan, {"start": "start", **more})])


def _choose_start(run: Run) -> dict[str, Any]:
    kept = min(SOURCES, key=run.loss)
    return {"start": kept.removesuffix("-1"), "kept": kept}


def _fresh(run: Run, number: int) -> Model:
    return run.fresh_model(number, METHOD)


# ---------------------------------------------------------------------- members


def _pool(run: Run) -> tuple[Tensor, dict[str, Any]]:
    """The soft labels (n, C) of the instances that are learned from, and what is said about them."""
    return run.once("pool", lambda: _train_members(run))


def _train_members(run: Run) -> tuple[Tensor, dict[str, Any]]:
    """Every process trains its part of the networks; what is fitted to all bags at once is fitted in the first one."""
    table = Table(learned_bags(run), run.judges, _fresh(run, 0).normalise, run.plan.training.seed)
    members = from_first(lambda: _linear_and_forest(run, table))
    soft_labels = from_first(lambda: _soft_labels(run, table, members))[0]
    members.append(table.cross_fit([_network(run, table, fold, soft_labels) for fold in range(FOLDS)]))
    soft_labels, pool = from_first(lambda: _soft_labels(run, table, members))
    weights, bags = dict(zip(KINDS, pool.weights, strict=True)), len(table.everything.labels)
    shown = ", ".join(f"{kind} {weight:.2f}" for kind, weight in weights.items())
    line = f"{shown} (weights by how well each predicts the labels of {bags} bags that it was not trained on)"
    offsets = dict(zip(run.train.classes, pool.offsets, strict=True))
    about = {"weights": weights, "class_offsets": offsets, "bags": bags}
    return soft_labels, {"members": about, "lines": {"members": line}}


def _linear_and_forest(run: Run, table: Table) -> list[Tensor]:
    """What linear models and a forest say about all instances."""
    _, linear = linear_member(table, run.remaining_wrong)
    _, correction, corrected = forest_member(table, run.plan.training.seed, run.remaining_wrong)
    run.log(f"members: the forest is trained, corrected with strength {correction.strength:g}")
    return [linear, corrected]


def _soft_labels(run: Run, table: Table, members: list[Tensor]) -> tuple[Tensor, Pool]:
    """What these members say together, given the labels of the bags, of the instances that are learned from."""
    pool = find_pool(members, table.everything, run.remaining_wrong)
    found = add_labels(pool.join(members), table.everything, run.remaining_wrong)[: len(table.bags.index)]
    if table.bags.training_labels is not None:
        known = torch.from_numpy(table.bags.training_labels).long()
        found[known >= 0] = torch.eye(found.shape[1])[known[known >= 0]]
    return found, pool


# ---------------------------------------------------------------------- networks


def _network(run: Run, table: Table, fold: int, soft_labels: Tensor) -> Predict:
    """Of the instances of the other folds."""
    others = np.flatnonzero(table.folds[: len(table.bags)] != fold)
    training, model = run.plan.training, _fresh(run, 1 + fold)
    settings = replace(training, seed=training.seed + SEED_STEP * (1 + fold), epochs=max(1, training.epochs // 2))
    alone = replace(run, folder=None, title=None, callbacks=(), epochs=None)
    rows = soft_labels[table.bags.positions(others)]
    _learn(alone, model, _singles(table.bags.subset(others)), None, rows, settings)
    model.to("cpu").eval()

    def predict(instances: Tensor) -> Tensor:  # standardised already
        with torch.inference_mode():
            log_probs = model.aggregate(model.backbone(instances).float(), Segments([1] * len(instances)))
        return log_probs.instance_log_probs.exp().clone()

    return predict


def _learn_pool(run: Run, model: Model) -> Fitted:
    soft_labels = _pool(run)[0]  # again, if the run was interrupted after its members
    singles = _singles(sample(learned_bags(run), run.plan.training.seed))
    fitted = _learn(run, model, singles, run.val, soft_labels, run.settings)
    _match_confidence(model, singles, soft_labels, run)
    return fitted


def _learn(run: Run, model: Model, singles: Bags, val: Bags | None, soft_labels: Tensor, settings: Settings) -> Fitted:
    """Steps of single instances: as many as in `STEPS` steps per epoch, within limits."""
    settings = replace(settings, batch_bags=int(np.clip(len(singles) // STEPS, LEAST_ROWS, MOST_ROWS)))
    objective = Distill(model, run.plan.own.momentum, run.plan.own.mixup)
    return run.fit(model, (singles, val), settings, objective, soft_labels=soft_labels.numpy())


def _singles(bags: Bags) -> Bags:
    """Every instance in a bag of its own; the labels have no meaning."""
    n = len(bags.index)
    return Bags(bags.store, bags.index, np.arange(n + 1), np.zeros(n, np.int64), bags.classes)


@torch.no_grad()
def _match_confidence(model: Model, singles: Bags, soft_labels: Tensor, run: Run) -> None:
    """Mixed instances make the network less sure than its soft labels are: scale its logits by what fits these best."""
    batches = all_batches(singles, next(model.parameters()).device)
    log_probs = torch.cat([output.instance_log_probs.cpu() for _, output in outputs(model, batches)])
    scales = torch.logspace(-0.3, 0.7, 41)
    fits = torch.stack([(soft_labels * (scale * log_probs).log_softmax(dim=1)).sum(dim=1).mean() for scale in scales])
    scale = float(scales[fits.argmax()])
    for value in model.head.parameters():
        value.mul_(scale)
