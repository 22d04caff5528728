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

from typing import Any

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
    noted = Stage("validation-instances", choose=_note_validation_instances, once=True)
    return [noted, *listed] if plan.own.validation_instances else listed


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
