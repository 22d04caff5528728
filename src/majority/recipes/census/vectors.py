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
from .parts import StageList, Start, distilled_network, heads_on_discriminants, random_weights
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
    listed = StageList(task, plan)
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
