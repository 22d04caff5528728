"""census of vectors: three kinds of learner predict each other's bags, the labels of the bags say how much to believe
each, and a network learns what they say together.

members  linear models, forests and networks, each trained on some groups of bags and asked about the others; see
         `pooling` for their weights. The networks learn what linear models and forests of other groups say together.
student  one network learns the soft labels of the pool, and no bag label; the forests stay beside it with their weight,
         as a network does not learn all that trees know

If a method is named, or if labels say more than one class each, there are a linear head on discriminants, a network
that first learns its soft labels, teachers that start from that and from random weights, and the student.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...data.bags import Bags
from ...data.segments import Segments
from ...nn.backbones.trees import Trees
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
from .members import (
    GROUPS,
    Predict,
    Table,
    as_trees,
    forest_member,
    linear_member,
    model_of_trees,
    predict_pairs,
    sample,
)
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
from .pooling import add_labels, join, rescale, weights_by

METHOD = "soft-count"  # of the networks, which learn no bag label: its aggregation costs little
STEPS, LEAST_ROWS, MOST_ROWS = 64, 16, 128  # of an epoch of a network, and instances of a step
KINDS = ("linear", "forest", "network")
DISCOUNT = 0.1  # of the evidence for a kind, with its best temperature


def plan(task: TaskInfo) -> Plan:
    return Plan(backbone="mlp", own=HeadSettings(), assumed_wrong=None)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    if not task.every_class_wins:
        return tiny_stages(task, plan)
    if task.losses and task.plain_labels:
        pool = Stage("members", choose=lambda run: _pool(run)[1], again=True)
        return chained([pool, Stage("student", plan.training, start=_start, train=_learn_pool)])
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


class Taught(NamedTuple):
    """What members say about the instances that are learned from."""

    soft_labels: Tensor  # (n, C) given the labels of the bags, too
    alone: Tensor  # (n, C) not given these labels: as sure as one may be of an instance whose bag has none
    trees: Trees | None = None  # of all forests, if they have a weight
    share: float = 1.0  # of the network beside them


def _pool(run: Run) -> tuple[Taught, dict[str, Any]]:
    """What all members say together, and what is said about them."""
    return run.once("pool", lambda: _train_members(run))


def _train_members(run: Run) -> tuple[Taught, dict[str, Any]]:
    """Every process trains its part of the networks; what is fitted to all bags at once is fitted in the first one."""
    table = Table(learned_bags(run), run.judges, _fresh(run, 0).normalise, run.plan.training.seed)
    trees, members, *of_groups = from_first(lambda: _linear_and_forest(run, table))
    networks = [_network(run, table, group, of_groups[group]) for group in GROUPS]
    members.append(table.cross_fit(networks, [set(GROUPS) - {group} for group in GROUPS]))
    taught, found = from_first(lambda: _pool_members(run, table, members))
    weights, bags = dict(zip(KINDS, found, strict=True)), len(table.everything.labels)
    shown = ", ".join(f"{kind} {weight:.2f}" for kind, weight in weights.items())
    line = f"{shown} (weights by how well each predicts the labels of {bags} bags that it was not trained on)"
    if weights["forest"]:
        taught = taught._replace(trees=trees, share=1 - weights["forest"])
    return taught, {"members": {"weights": weights, "bags": bags}, "lines": {"members": line}}


def _linear_and_forest(run: Run, table: Table) -> list[Any]:
    """The forests, what linear models and forests say about all instances, and for each group what those that have not
    seen it say about the instances that are learned from."""
    linear = linear_member(table, run.remaining_wrong)
    forests, correction = forest_member(table, run.plan.training.seed, run.remaining_wrong)
    run.log(f"members: the forest is trained, corrected with strength {correction.strength:g}")

    def members(unseen: int | None = None) -> list[Tensor]:
        return [predict_pairs(table, linear, unseen), correction.correct(table.cross_fit(forests, unseen=unseen))]

    weights = _weigh(run, table, members())
    taught = (_teach(run, table, join(weights, members(group))) for group in GROUPS)
    return [as_trees(forests, correction), members(), *taught]


def _pool_members(run: Run, table: Table, members: list[Tensor]) -> tuple[Taught, list[float]]:
    weights = _weigh(run, table, members)
    return _teach(run, table, join(weights, members)), weights


def _weigh(run: Run, table: Table, members: list[Tensor]) -> list[float]:
    explained = [rescale(member, table.everything, run.remaining_wrong)[1] for member in members]
    return weights_by(explained, DISCOUNT)


def _teach(run: Run, table: Table, probabilities: Tensor) -> Taught:
    alone, found = (
        part[: len(table.bags.index)]
        for part in (probabilities, add_labels(probabilities, table.everything, run.remaining_wrong))
    )
    if table.bags.training_labels is not None:
        known = torch.from_numpy(table.bags.training_labels).long()
        found[known >= 0] = torch.eye(found.shape[1])[known[known >= 0]]
    return Taught(found, alone)


# ---------------------------------------------------------------------- networks


def _network(run: Run, table: Table, group: int, taught: Taught) -> Predict:
    """Of the instances of the other groups."""
    others = np.flatnonzero(table.groups[: len(table.bags)] != group)
    training, model = run.plan.training, _fresh(run, 1 + group)
    settings = replace(training, seed=training.seed + SEED_STEP * (1 + group), epochs=max(1, training.epochs // 2))
    alone = replace(run, folder=None, title=None, callbacks=(), epochs=None)
    singles, rows = _singles(table.bags.subset(others)), table.bags.positions(others)
    _learn(alone, model, singles, None, taught.soft_labels[rows], settings)
    _match_confidence(model, singles, taught.alone[rows])
    model.to("cpu").eval()

    def predict(rows: Tensor) -> Tensor:
        with torch.inference_mode():  # the instances are standardised already
            log_probs = model.aggregate(model.backbone(table.instances[rows]).float(), Segments([1] * len(rows)))
        return log_probs.instance_log_probs.exp().clone()

    return predict


def _start(run: Run) -> Model:
    """A network, beside the forests if they have a weight."""
    taught, model = _pool(run)[0], _fresh(run, 0)  # the pool again, if the run was interrupted after its members
    if taught.trees is None or model.spec.backbone is None:
        return model
    trees = copy.deepcopy(taught.trees)
    trees.add_network(model.spec.backbone, model.backbone, model.n_features)
    trees.share.fill_(taught.share)
    return model_of_trees(trees, model, run.train)


def _learn_pool(run: Run, model: Model) -> Fitted:
    taught, network = _pool(run)[0], model
    if isinstance(model.backbone, Trees):
        network = _fresh(run, 0)
    singles = _singles(sample(learned_bags(run), run.plan.training.seed))
    fitted = _learn(run, network, singles, run.val, taught.soft_labels, run.settings)
    _match_confidence(network, singles, taught.alone)
    if isinstance(model.backbone, Trees):
        learned: Any = network.to("cpu")
        model.backbone.network = nn.Sequential(learned.backbone, learned.head.classifier)
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
def _match_confidence(model: Model, singles: Bags, soft_labels: Tensor) -> None:
    """Mixed instances make the network less sure than it should be, labels of bags surer: scale its logits by what fits
    these soft labels best."""
    batches = all_batches(singles, next(model.parameters()).device)
    log_probs = torch.cat([output.instance_log_probs.cpu() for _, output in outputs(model, batches)])
    scales = torch.logspace(-0.3, 0.7, 41)
    fits = torch.stack([(soft_labels * (scale * log_probs).log_softmax(dim=1)).sum(dim=1).mean() for scale in scales])
    scale = float(scales[fits.argmax()])
    for value in model.head.parameters():
        value.mul_(scale)
