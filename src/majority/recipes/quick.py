"""quick: one network, trained once. For vectors, the best of three kinds of learner, chosen by the labels of bags.

linear   softmax regressions with several losses and ridges as one, weighed by bags that they have not seen
forest   that of the recipe forest
network  trained once
best     the kind that explains the labels of the validation bags best; only this kind is trained on all bags again

It is the network alone if a method or a backbone is named, if labels are not all of one winner each, or if training may
see the labels of some instances.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch

from ..nn.methods import DEFAULT_METHOD
from ..nn.model import Model, build_model
from ..training.callbacks import Fitted
from ..training.distributed import from_first
from .census.members import Table, linear_member
from .census.pooling import rescale
from .features import instance_probabilities
from .forest import METHOD, grow, judge
from .plan import Plan, TaskInfo
from .single import one_training
from .stages import Run, Stage

KINDS = ("linear", "forest", "network")


def losses(task: TaskInfo) -> tuple[str, ...]:
    return (DEFAULT_METHOD,) if task.vectors else ()


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    ordinary = task.plain_labels and task.every_class_wins and not task.instance_labels
    if not (task.losses and ordinary) or task.own_module or plan.backbone != "auto":
        return one_training(task, plan)
    once = replace(plan.training, epochs=1)
    return [
        Stage("linear", once, start=_no_weights, train=_fit_linear),
        Stage("forest", once, start=grow, train=judge),
        Stage("network", plan.training),
        Stage("best", inputs=KINDS, choose=_choose),
    ]


def _no_weights(run: Run) -> Model:
    return build_model(run.train, METHOD, "linear")


def _fit_linear(run: Run, model: Model) -> Fitted:
    """The pool of all linear models, which is one."""
    table = Table(run.train, run.judges, model.normalise, run.plan.training.seed)
    weights = from_first(lambda: torch.stack(linear_member(table, run.remaining_wrong)).mean(dim=0))
    head: Any = model.head
    head.classifier.load_state_dict({"weight": weights[:-1].T, "bias": weights[-1]})
    return judge(run, model)


def _choose(run: Run) -> dict[str, Any]:
    """By how well each kind explains the labels of validation bags; without such bags, the network."""
    if run.val is run.train:
        return {"kept": "network"}
    table = Table(run.val.with_labels(), [], run.fresh_model().normalise, run.plan.training.seed)
    known = table.everything
    found = {}
    for kind in KINDS:
        probabilities = instance_probabilities(run.network(kind), table.bags, run.device).cpu()
        found[kind] = rescale(probabilities, known, run.remaining_wrong)[1] / len(known.labels)
    kept = max(found, key=lambda kind: found[kind])
    shown = ", ".join(f"{kind} {value:.3f}" for kind, value in found.items())
    line = f"{kept} (mean log-likelihood of the labels of {len(known.labels):,} bags: {shown})"
    return {"kinds": found, "kept": kept, "lines": {"kind of learner": line}}
