"""census of vectors: a linear head on discriminants, a network that first learns its soft labels, teachers that start
from that and from random weights, and the student."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...nn.model import Model
from ...training.settings import Settings
from ..plan import Plan, TaskInfo
from ..stages import Run, Stage
from . import tiny
from .discriminants import MAX_FEATURES
from .parts import (
    Start,
    distilled,
    distilled_network,
    find_share_by,
    heads_on_discriminants,
    names_of,
    random_weights,
    student_of,
    teachers_of,
)
from .settings import HEAD_ON_VECTORS, CensusSettings

STARTS: dict[str, Start] = {"teacher": random_weights, "distilled-teacher": distilled_network}


@dataclass(frozen=True)
class VectorSettings(CensusSettings):
    head: Settings | None = HEAD_ON_VECTORS  # None: everything starts from random weights


def plan(task: TaskInfo) -> Plan:
    return Plan(backbone="mlp", own=VectorSettings(), assumed_wrong=None)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    if plan.own.head is None or not task.every_class_wins or task.shape[0] > MAX_FEATURES:
        return tiny.stages(task, plan)
    heads = heads_on_discriminants(task, plan)
    start = [*find_share_by(task, plan, heads_on_discriminants), *heads, *distilled(task, plan, heads)]
    return [*start, *(_teach_losses(task, plan) if task.losses else _teach_method(task, plan))]


def _inputs(task: TaskInfo) -> tuple[str, ...]:
    return ("distilled", "heads") if task.losses else ("distilled",)


def _teach_losses(task: TaskInfo, plan: Plan) -> list[Stage]:
    """Teachers of both starts, all weighed."""
    teachers = {kind: teachers_of(task, plan, start, _inputs(task), kind) for kind, start in STARTS.items()}
    starts = {stage.name: STARTS[kind] for kind in teachers for stage in teachers[kind]}
    return [*(stage for kind in teachers for stage in teachers[kind]), *student_of(task, plan, starts, _inputs(task))]


def _teach_method(task: TaskInfo, plan: Plan) -> list[Stage]:
    """One teacher of each start; the others and the student start like the better one."""
    firsts = [teachers_of(task, plan, start, _inputs(task), kind)[0] for kind, start in STARTS.items()]
    choice = Stage("start", inputs=names_of(firsts), choose=_choose_start)
    inputs = ("start", *_inputs(task))
    others = teachers_of(task, plan, _chosen_start, inputs, first=2)
    starts = dict.fromkeys(("start", *names_of(others)), _chosen_start)
    return [*firsts, choice, *others, *student_of(task, plan, starts, inputs)]


def _choose_start(run: Run) -> dict[str, Any]:
    kind = min(STARTS, key=lambda kind: run.loss(f"{kind}-1"))
    run.log(f"{kind}-1 has the lower validation loss: the other teachers start like it")
    return {"start": kind, "kept": f"{kind}-1"}


def _chosen_start(run: Run, number: int, method: str | None) -> Model:
    return STARTS[run.chosen("start")["start"]](run, number, method)
