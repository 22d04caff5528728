"""What the lists of stages of census are made of: networks of each loss, their weights, teachers and the student.

A network starts from random weights, or from those of a stage, its source: `head` of its loss, `distilled`, or `start`,
which has chosen one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...nn.model import Model
from ...training.callbacks import Fitted
from ...training.distributed import from_first
from ...training.settings import Settings
from ..losses import label_counts, label_log_likelihood, loss_weights
from ..plan import Plan, TaskInfo
from ..stages import SEED_STEP, Run, Stage
from .class_offsets import describe_offsets, find_offsets
from .trainings import (
    bags_of,
    copy_of,
    distill,
    fresh,
    learned_bags,
    linear_model,
    mean_probabilities,
    train_on_discriminants,
    train_teacher,
)

Sources = Mapping[str, str | None]  # of each teacher; None: random weights
SOURCES: Sources = {"teacher-1": None, "distilled-teacher-1": "distilled"}  # of which `start` chooses


def chained(stages: Sequence[Stage]) -> list[Stage]:
    """Each stage may use all earlier ones, but for trials, which only a choice uses: its inputs."""
    trials = {name for stage in stages for name in stage.inputs}
    used = [stage.name for stage in stages if stage.name not in trials]
    names = [stage.name for stage in stages]
    return [
        replace(stage, inputs=(*(name for name in names[:i] if name in used), *stage.inputs))
        for i, stage in enumerate(stages)
    ]


def of_each_loss(
    task: TaskInfo,
    kind: str,
    settings: Settings,
    start: Callable[..., Model],
    train: Callable[[Run, Model], Fitted],
) -> list[Stage]:
    """A network of each loss that is weighed, or one of the method of the run."""
    return [
        Stage(named(kind, loss), settings, start=partial(start, method=loss), train=train)
        for loss in task.losses or (None,)
    ]


def named(stage: str, loss: str | None) -> str:
    return f"{stage}-{loss}" if loss else stage


def heads_on_discriminants(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A linear classifier of each loss."""
    return of_each_loss(task, "head", plan.own.head, linear_model, train_on_discriminants)


def distilled(task: TaskInfo, plan: Plan, heads: Sequence[Stage]) -> list[Stage]:
    """A network that learns the soft labels of the heads, by their weights if they have several losses."""
    names = [head.name for head in heads]
    weights = [Stage("heads", choose=partial(weigh, names, "heads"))] if task.losses else []
    start = partial(fresh, method=(*task.losses, None)[0])
    return [
        *weights,
        Stage("distilled", plan.training, start=start, train=partial(distill, members=names, group="heads")),
    ]


# ---------------------------------------------------------------------- teachers and student


def numbered(plan: Plan, source: str | None, kind: str = "teacher", first: int = 1) -> Sources:
    """The teachers that the settings ask for."""
    return {f"{kind}-{number}": source for number in range(first, plan.own.teachers + 1)}


def teachers(task: TaskInfo, plan: Plan, sources: Sources) -> list[Stage]:
    """Their losses take turns. They take no more steps than the student, which also learns from bags without a label.

    >>> from .settings import CensusSettings
    >>> own = CensusSettings()
    >>> task, plan = TaskInfo(bags=8, labelled_bags=4), Plan(training=Settings(epochs=3), own=own)
    >>> teachers(task, plan, {"teacher-1": None})[0].epochs
    6
    """
    labelled = task.bags if task.labelled_bags is None else task.labelled_bags
    epochs = min(plan.own.teacher_epochs, round(plan.training.epochs * task.bags / max(labelled, 1)))
    found = []
    for name, source in sources.items():
        number = int(name.rpartition("-")[2])
        settings = replace(plan.training, seed=plan.training.seed + SEED_STEP * number, epochs=epochs)
        start = partial(_start_teacher, source=source, number=number)
        found.append(Stage(name, settings, start=start, train=train_teacher))
    return found


def student(task: TaskInfo, plan: Plan, sources: Sources, others: Sequence[str] = ()) -> list[Stage]:
    """The student of these teachers and of other members.

    If there are several losses, the members are weighed, and the student has the loss with the largest total weight
    and starts like the teacher of that loss with the largest weight. Else it starts like the last teacher.
    """
    names, stages = (*sources, *others), list[Stage]()
    if task.losses:
        stages.append(Stage("teachers", choose=partial(_weigh_losses, names, tuple(sources))))
        if plan.own.class_offsets:
            stages.append(Stage("class-offsets", choose=partial(_find_offsets, names), again=True))
    start, train = partial(_start_student, sources=sources), partial(distill, members=names, group="teachers")
    return [*stages, Stage("student", plan.training, start=start, train=train)]


def _start(run: Run, source: str | None, number: int, method: str | None) -> Model:
    if source == "start":
        source = SOURCES[run.chosen("start")["kept"]]
    if source is None:
        return fresh(run, number, method)
    of_loss = named(source, method)
    return copy_of(run, of_loss if of_loss in run.results else source, method)


def _start_teacher(run: Run, source: str | None, number: int) -> Model:
    """If there are fewer teachers than losses, those whose heads have the largest weights are used, or the first."""
    losses, most = run.task.losses, run.plan.own.teachers
    if "heads" in run.results and most < len(losses):
        weights = run.chosen("heads")["losses"]["heads"]
        by_weight = sorted(losses, key=lambda loss: weights[named("head", loss)]["weight"], reverse=True)
        losses = tuple(loss for loss in losses if loss in by_weight[:most])
    return _start(run, source, number, losses[(number - 1) % len(losses)] if losses else None)


def _start_student(run: Run, sources: Sources) -> Model:
    best, method = [*sources][-1], None
    if run.task.losses:
        about = run.chosen("teachers")["losses"]
        method, weights = about["chosen"], about["teachers"]
        of_method = [name for name in sources if run.network(name).spec.method == method]
        best = max(of_method, key=lambda name: weights[name]["weight"])
    student = _start(run, sources[best], 0, method)
    statistics = dict(run.network(best).head.named_buffers())
    student.head.load_state_dict(statistics, strict=False)
    return student


# ---------------------------------------------------------------------- weights


def weigh(names: Sequence[str], group: str, run: Run) -> dict[str, Any]:
    """The weights of these networks, and the log-likelihood of the validation labels that each stands for."""
    models = {name: run.network(name) for name in names}
    found = {
        name: label_log_likelihood(model, *bags_of(run, name), device=run.device) for name, model in models.items()
    }
    methods = {name: model.spec.method for name, model in models.items()}
    weights = loss_weights(found, methods, run.validation_labels, label_counts(run.train))
    return {"losses": {group: {name: {"weight": weights[name], "log_likelihood": found[name]} for name in names}}}


def _weigh_losses(names: Sequence[str], teachers: Sequence[str], run: Run) -> dict[str, Any]:
    """The weights of the members, and of each loss; the loss of the student is that of a teacher."""
    about = weigh(names, "teachers", run)["losses"]
    methods = {name: run.network(name).spec.method for name in names}
    by_loss = dict.fromkeys(run.task.losses, 0.0)
    for name, member in about["teachers"].items():
        by_loss[methods[name]] += member["weight"]
    chosen = max(dict.fromkeys(methods[name] for name in teachers), key=lambda loss: by_loss[loss])
    about |= {"weights": by_loss, "validation_bags": run.validation_labels, "chosen": chosen}
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in sorted(by_loss.items(), key=lambda item: -item[1]))
    line = (
        f"{shown} (weights by how well {run.validation_labels} validation bags are explained, and how even labels are)"
    )
    return {"losses": about, "lines": {"bag losses": line}}


def _find_offsets(members: Sequence[str], run: Run) -> dict[str, Any]:
    mean = mean_probabilities(run, members, "teachers")  # by all processes together
    found = from_first(lambda: find_offsets(mean, learned_bags(run), run.remaining_wrong).tolist())
    offsets = dict(zip(run.train.classes, found, strict=True))
    line = (
        f"{describe_offsets(offsets)} (added to log-probabilities of the soft labels, which then agree with the bags)"
    )
    return {"losses": {"class_offsets": offsets}, "lines": {"class offsets": line}}
