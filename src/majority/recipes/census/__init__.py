"""census: teachers learn from the bags, and a student learns their soft labels.

Each kind of instances has a list of stages of its own: `vectors`, `images_on_cpu` (also of tiny images),
`images_on_gpu`. They are made of these:

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

from ..plan import Plan, TaskInfo
from ..stages import Stage
from . import images_on_cpu, images_on_gpu, vectors
from .parts import HeadSettings


def plan(task: TaskInfo) -> Plan:
    if task.vectors:
        return vectors.plan(task)
    if task.tiny:
        return images_on_cpu.tiny_plan(task)
    return images_on_gpu.plan(task) if task.on_gpu else images_on_cpu.plan(task)


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    if isinstance(plan.own, images_on_gpu.GpuImageSettings):
        return images_on_gpu.stages(task, plan)
    if isinstance(plan.own, HeadSettings):
        return vectors.stages(task, plan) if task.vectors else images_on_cpu.stages(task, plan)
    return images_on_cpu.tiny_stages(task, plan)
