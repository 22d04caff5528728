"""census: teachers learn from the bags, and a student learns their soft labels.

Each kind of instances has a list of stages of its own: `vectors`, `tiny`, `images_on_cpu`, `images_on_gpu`. They are
made of these:

pretrain   the network learns, without any label, to recognise two views of an instance among all others (SimCLR)
head       only a head is trained, on the features of a network that stays as it is: few weights for few labels
distilled  a network learns the soft labels of the heads
teacher    the whole network learns from the bags with the method's loss; usually several, with different random draws
student    one more network learns the mean soft label of every instance, and no bag label

Head and teachers keep the epoch with the lowest loss of the validation bags. Pretrain, distilled and student do not
learn bag labels: they keep their last epoch. With `validation_instances`, the instances of validation bags take part as
if these were training bags without a label; their labels only choose. If training may see the labels of some instances,
head and teachers learn them beside the bag labels, and the student in place of the soft labels of these instances.

If no method is named, there are several losses: heads and teachers of each, whose soft labels are weighed by
`losses.loss_weights`; those of the student also have class offsets (`class_offsets`). If there is a background class
whose share is not given, it is found first (`background_share`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import numpy as np

from ...data.joining import join
from ..plan import Plan, TaskInfo
from ..stages import Run, Stage
from . import images_on_cpu, images_on_gpu, tiny, vectors

LISTS = {  # by the settings of the plan
    vectors.VectorSettings: vectors.stages,
    images_on_cpu.CpuImageSettings: images_on_cpu.stages,
    images_on_gpu.GpuImageSettings: images_on_gpu.stages,
}


def plan(task: TaskInfo) -> Plan:
    if task.vectors:
        return vectors.plan(task)
    if task.tiny:
        return tiny.plan(task)
    return images_on_gpu.plan(task) if task.on_gpu else images_on_cpu.plan(task)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    listed = LISTS.get(type(plan.own), tiny.stages)(task, plan)
    search = images_on_gpu.search_of_views(task, plan)  # with training bags only
    if not plan.own.validation_instances:
        return [*search, *listed]
    noted = Stage("validation-instances", choose=_note_validation_instances, once=True)
    return [*search, *map(_on_all_instances, [noted, *listed])]


def _on_all_instances(stage: Stage) -> Stage:
    """The stage with the instances of validation bags among those of its training bags."""

    def with_all(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def on_all(run: Run, *given: Any) -> Any:
            return function(_with_validation_instances(run), *given)

        return on_all

    choose = None if stage.choose is None else with_all(stage.choose)
    return replace(stage, start=with_all(stage.start), train=with_all(stage.train), choose=choose)


def _with_validation_instances(run: Run) -> Run:
    if (
        run.epochs is not None or run.val is run.train or run.val.store is not run.train.store
    ):  # none held out, or apart
        return run
    no_label = run.val.bag_labels.masked(np.zeros(len(run.val), bool))
    val = run.val._with(bag_labels=no_label, training_labels=None)
    return replace(run, train=run.once("all instances", lambda: join([run.train, val])))


def _note_validation_instances(run: Run) -> dict[str, Any]:
    if run.val is run.train:
        return {}
    if run.val.store is not run.train.store:
        what = "the validation bags are in another array or file, so only training bags are learned from"
        run.log(f"note: {what}: to learn from both, take them from one source")
        return {}
    number = len(run.val.index)
    line = f"their {number:,} instances took part, but not their labels"
    return {"validation_instances": number, "lines": {"validation bags": line}}
