"""census of vectors: three kinds of learner predict each other's bags, the labels of the bags say how much to believe
each, and a network learns what they say together.

members  linear models, a forest and networks, each trained on two thirds of the bags and asked about the rest; see
         `pooling` for their weights. The networks learn what linear models and the forest say together.
student  one network learns the soft labels of the pool, and no bag label

If a method is named, or if labels say more than one class each, there are a linear head on discriminants, a network
that first learns its soft labels, teachers that start from that and from random weights, and the student.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...data.bags import Bags
from ...data.segments import Segments
from ...nn.model import Model
from ...predict.evaluate import all_batches, outputs
from ...training.distributed import from_first
from ...training.loop import fit
from ...training.objectives import Distill
from ...training.settings import Settings
from ...training.state import Fitted
from ..plan import Plan, TaskInfo
from ..stages import SEED_STEP, Run, Stage
from . import tiny
from .discriminants import MAX_FEATURES
from .members import FOLDS, Predict, find_correction, grow_forest, label_probabilities, linear_members
from .parts import StageList, Start, distilled_network, heads_on_discriminants, random_weights
from .patches import learned_bags
from .pooling import LabelledRows, Pool, add_labels, find_pool
from .settings import HEAD_ON_VECTORS, CensusSettings
from .table import Table, make_table, sample

METHOD = "soft-count"  # of the networks, which learn no bag label: its aggregation costs little
STEPS, LEAST_ROWS, MOST_ROWS = 64, 16, 128  # of an epoch of a network, and instances of a step
STARTS: dict[str, Start] = {"teacher": random_weights, "distilled-teacher": distilled_network}
KINDS = ("linear", "forest", "network")


@dataclass(frozen=True)
class VectorSettings(CensusSettings):
    head: Settings | None = HEAD_ON_VECTORS  # None: everything starts from random weights


def plan(task: TaskInfo) -> Plan:
    return Plan(backbone="mlp", own=VectorSettings(), assumed_wrong=None)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    if plan.own.head is None or not task.every_class_wins:
        return tiny.stages(task, plan)
    listed = StageList(task, plan)
    if task.losses and task.plain_labels:
        listed.choose("members", _pool_members, again=True)
        listed.add(Stage("student", plan.training, start=partial(_fresh, number=0), train=_learn_pool))
        return listed.stages
    if task.shape[0] > MAX_FEATURES:
        return tiny.stages(task, plan)
    listed.find_share(heads_on_discriminants)
    listed.distil(listed.add(*heads_on_discriminants(task, plan)))
    if task.losses:  # teachers of both starts, all weighed
        teachers: dict[str, Start] = {}
        for kind, start in STARTS.items():
            teachers |= listed.teachers(start, kind)
        return listed.student(teachers)
    # one teacher of each start; the others and the student start like the better one
    listed.choose("start", _choose_start, [listed.teacher(start, 1, kind) for kind, start in STARTS.items()])
    return listed.student({"start": _chosen_start} | listed.teachers(_chosen_start, first=2))


def _choose_start(run: Run) -> dict[str, Any]:
    kind = min(STARTS, key=lambda kind: run.loss(f"{kind}-1"))
    run.log(f"{kind}-1 has the lower validation loss: the other teachers start like it")
    return {"start": kind, "kept": f"{kind}-1"}


def _chosen_start(run: Run, number: int, method: str | None) -> Model:
    return STARTS[run.chosen("start")["start"]](run, number, method)


def _fresh(run: Run, number: int) -> Model:
    return run.fresh_model(number, METHOD)


# ---------------------------------------------------------------------- members


def _table(run: Run) -> Table:
    judges = [] if run.epochs is not None or run.val is run.train else [run.val.with_labels()]
    normalise = run.fresh_model(0, METHOD).normalise
    return make_table(learned_bags(run), judges, normalise, run.plan.training.seed)


def _pool_members(run: Run) -> dict[str, Any]:
    """Every process trains its part of the networks; what is fitted to all bags at once is fitted in the first one."""
    table, classes, wrong = _table(run), len(run.train.classes), run.remaining_wrong
    members, soft_labels = from_first(lambda: _linear_and_forest(run, table))
    members += table.cross_fit([[_network(run, table, fold, soft_labels)] for fold in range(FOLDS)], classes)

    def pool_them() -> tuple[Tensor, dict[str, Any]]:
        pool = find_pool(members, table.everything, wrong)
        soft_labels = _with_labels(run, table, pool.join(members), table.everything)
        return soft_labels, _about(run, pool, len(table.everything.labels))

    run.shared["soft labels"], about = from_first(pool_them)
    return about


def _linear_and_forest(run: Run, table: Table) -> tuple[list[Tensor], Tensor]:
    """What linear models and a forest say about all instances, and the soft labels (n, C) that both give together."""
    seed, everything, classes = run.plan.training.seed, table.everything, len(run.train.classes)
    wrong, known = run.remaining_wrong, table.training(classes)
    linear = table.cross_fit([linear_members(part) for part in known], classes)
    members = [find_pool(linear, everything, wrong).join(linear)]
    run.log("members: linear models are trained")
    forests = [grow_forest(part, seed + fold) for fold, part in enumerate(known)]
    (scores,) = table.cross_fit([[partial(label_probabilities, forest, classes)] for forest in forests], classes)
    shares = known[0].label_shares
    correction = find_correction(scores, everything, shares, wrong)
    members.append(correction.apply(scores, shares))
    run.log(f"members: the forest is trained, corrected with strength {correction.strength:g}")
    return members, _with_labels(run, table, find_pool(members, everything, wrong).join(members), everything)


def _with_labels(run: Run, table: Table, pooled: Tensor, everything: LabelledRows) -> Tensor:
    soft_labels = add_labels(pooled, everything, run.remaining_wrong)[: len(table.bags.index)]
    if table.bags.training_labels is not None:
        known = torch.from_numpy(table.bags.training_labels).long()
        soft_labels[known >= 0] = torch.eye(soft_labels.shape[1])[known[known >= 0]]
    return soft_labels


def _about(run: Run, pool: Pool, bags: int) -> dict[str, Any]:
    weights = dict(zip(KINDS, pool.weights, strict=True))
    offsets = dict(zip(run.train.classes, pool.offsets, strict=True))
    shown = ", ".join(f"{kind} {weight:.2f}" for kind, weight in weights.items())
    line = f"{shown} (weights by how well each predicts the labels of {bags} bags that it was not trained on)"
    return {"members": {"weights": weights, "class_offsets": offsets, "bags": bags}, "lines": {"members": line}}


# ---------------------------------------------------------------------- networks


def _network(run: Run, table: Table, fold: int, soft_labels: Tensor) -> Predict:
    """Of the instances of the other folds."""
    others = np.flatnonzero(table.folds[: len(table.bags)] != fold)
    bags, rows = table.bags.subset(others), table.bags.positions(others)
    model = run.fresh_model(1 + fold, METHOD)
    own, training = run.plan.own, run.plan.training
    settings = replace(training, seed=training.seed + SEED_STEP * (1 + fold), epochs=max(1, training.epochs // 2))
    singles = _singles(bags)
    fit(
        model,
        singles,
        None,
        _by_rows(settings, len(singles)),
        device=run.device,
        title=None,
        eager=run.eager,
        objective=Distill(model, own.momentum, own.mixup),
        soft_labels=soft_labels[rows].numpy(),
    )
    model.to("cpu").eval()

    def predict(instances: Tensor) -> Tensor:  # standardised already
        with torch.inference_mode():
            log_probs = model.aggregate(model.backbone(instances).float(), Segments([1] * len(instances)))
        return log_probs.instance_log_probs.exp().clone()

    return predict


def _learn_pool(run: Run, model: Model) -> Fitted:
    if "soft labels" not in run.shared:  # the run was interrupted after its members
        _pool_members(run)
    soft_labels = run.shared["soft labels"]
    bags = sample(learned_bags(run), run.plan.training.seed)
    singles = _singles(bags)
    objective = Distill(model, run.plan.own.momentum, run.plan.own.mixup)
    settings = _by_rows(run.settings, len(singles))
    fitted = run.fit(model, (singles, run.val), settings, objective, soft_labels=soft_labels.numpy())
    _match_confidence(model, singles, soft_labels, run)
    return fitted


def _singles(bags: Bags) -> Bags:
    """Every instance in a bag of its own; the labels have no meaning."""
    n = len(bags.index)
    return Bags(bags.store, bags.index, np.arange(n + 1), np.zeros(n, np.int64), bags.classes)


def _by_rows(settings: Settings, instances: int) -> Settings:
    """Steps of single instances: as many as in `STEPS` steps per epoch, within limits."""
    return replace(settings, batch_bags=int(np.clip(instances // STEPS, LEAST_ROWS, MOST_ROWS)))


@torch.no_grad()
def _match_confidence(model: Model, singles: Bags, soft_labels: Tensor, run: Run) -> None:
    """Mixed instances make the network less sure than its soft labels are: scale its logits by what fits these best."""
    device = next(model.parameters()).device
    batches = all_batches(singles, device)
    log_probs = torch.cat([output.instance_log_probs.cpu() for _, output in outputs(model, batches)])
    scales = torch.logspace(-0.3, 0.7, 41)
    fits = torch.stack([(soft_labels * (scale * log_probs).log_softmax(dim=1)).sum(dim=1).mean() for scale in scales])
    scale = float(scales[fits.argmax()])
    run.log(f"the logits of the student are multiplied by {scale:.2f}, to be as sure as its soft labels")
    for value in model.head.parameters():
        value.mul_(scale)
