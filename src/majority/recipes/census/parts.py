"""What the lists of stages of census are made of: heads, teachers, weights of losses, the student."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ...nn.model import Model
from ...training.distributed import from_first
from ..losses import label_counts, label_log_likelihood, loss_weights
from ..plan import Plan, TaskInfo
from ..stages import SEED_STEP, Result, Run, Stage
from .background_share import SHARES, describe_share, find_share
from .class_offsets import describe_offsets, find_offsets
from .patches import feature_bags, learned_bags
from .settings import choices, epochs_of_teachers, losses_of, named
from .trainings import (
    bags_of,
    copy_of,
    distill,
    fresh,
    linear_model,
    mean_probabilities,
    train_on_discriminants,
    train_teacher,
)

Start = Callable[[Run, int, str | None], Model]  # the network of a teacher, by its number and method
TEACHERS = 3  # where the settings leave it open

# ---------------------------------------------------------------------- starts


def random_weights(run: Run, number: int, method: str | None) -> Model:
    return fresh(run, number, method)


def distilled_network(run: Run, number: int, method: str | None) -> Model:
    return copy_of(run, "distilled", method)


# ---------------------------------------------------------------------- stages


def names_of(stages: Sequence[Stage]) -> tuple[str, ...]:
    return tuple(stage.name for stage in stages)


def heads_on_discriminants(task: TaskInfo, plan: Plan, bags: tuple[str, ...] = ()) -> list[Stage]:
    """A linear classifier of each loss; `bags` names the stage with the features that it takes."""
    inputs = (*bags, *choices(task, plan))
    return [
        Stage(named("head", loss), plan.own.head, inputs, partial(linear_model, method=loss), train_on_discriminants)
        for loss in losses_of(task)
    ]


def distilled(task: TaskInfo, plan: Plan, heads: Sequence[Stage], bags: tuple[str, ...] = ()) -> list[Stage]:
    """A network that learns the soft labels of the heads, by their weights if they have several losses."""
    names = names_of(heads)
    weights = [Stage("heads", inputs=(*names, *bags), choose=partial(weigh, names, "heads"))] if task.losses else []
    inputs = (*names, *bags, *names_of(weights), *choices(task, plan))
    train = partial(distill, members=names, group="heads")
    return [*weights, Stage("distilled", plan.training, inputs, partial(fresh, method=losses_of(task)[0]), train)]


def teachers_of(
    task: TaskInfo, plan: Plan, start: Start, inputs: tuple[str, ...] = (), kind: str = "teacher", first: int = 1
) -> list[Stage]:
    """The teachers of one start from number `first` on. Their losses take turns."""
    number = plan.own.teachers or TEACHERS
    return [
        Stage(
            f"{kind}-{i}",
            replace(plan.training, seed=plan.training.seed + SEED_STEP * i, epochs=epochs_of_teachers(task, plan)),
            (*inputs, *choices(task, plan)),
            partial(_start_teacher, start=start, number=i, of=number),
            train_teacher,
        )
        for i in range(first, number + 1)
    ]


def _start_teacher(run: Run, start: Start, number: int, of: int) -> Model:
    """If there are fewer teachers than losses, those whose heads have the largest weights are used, or the first."""
    losses = run.task.losses
    if not losses:
        return start(run, number, None)
    if of < len(losses) and "heads" in run.results:
        weights = run.chosen("heads")["losses"]["heads"]
        by_weight = sorted(losses, key=lambda loss: weights[named("head", loss)]["weight"], reverse=True)
        losses = tuple(loss for loss in losses if loss in by_weight[:of])
    return start(run, number, losses[(number - 1) % len(losses)])


def student_of(
    task: TaskInfo,
    plan: Plan,
    teachers: Mapping[str, Start],
    inputs: tuple[str, ...] = (),
    others: tuple[str, ...] = (),
) -> list[Stage]:
    """The student of these teachers, each with its start, and of other members; `inputs`: what they and it start from.

    If there are several losses, the members are weighed, and the student has the loss with the largest total weight and
    starts like the teacher of that loss with the largest weight. Else it starts like the last teacher.
    """
    names, inputs = (*teachers, *others), (*inputs, *choices(task, plan))
    chosen: list[Stage] = []
    if task.losses:
        found = partial(_weigh_losses, names=names, teachers=tuple(teachers))
        chosen.append(Stage("teachers", inputs=(*names, *inputs), choose=found))
    if task.losses and plan.own.class_offsets:
        offsets = partial(_find_offsets, members=names)
        chosen.append(Stage("class-offsets", inputs=(*names, "teachers", *inputs), choose=offsets, again=True))
    needed = (*names, *names_of(chosen), *inputs)
    start = partial(start_student, teachers=teachers)
    return [*chosen, Stage("student", plan.training, needed, start, partial(distill, members=names, group="teachers"))]


def start_student(run: Run, teachers: Mapping[str, Start]) -> Model:
    best, method = [*teachers][-1], None
    if run.task.losses:
        about = run.chosen("teachers")["losses"]
        method, weights = about["chosen"], about["teachers"]
        of_method = [name for name in teachers if run.network(name).spec.method == method]
        best = max(of_method, key=lambda name: weights[name]["weight"])
    student = teachers[best](run, 0, method)
    statistics = dict(run.network(best).head.named_buffers())
    student.head.load_state_dict(statistics, strict=False)
    return student


def find_share_by(
    task: TaskInfo, plan: Plan, make: Callable[[TaskInfo, Plan], list[Stage]], inputs: tuple[str, ...] = ()
) -> list[Stage]:
    """Small models with each share of a background whose share is not known, and the choice of one; `make` returns a
    model of each loss."""
    if not task.finds_share:
        return []
    models = make(task._replace(finds_share=False), plan)
    trials = {
        share: [
            replace(model, name=named(f"share-{share:g}", loss), start=partial(_with_trial_share, model.start, share))
            for model, loss in zip(models, losses_of(task), strict=True)
        ]
        for share in SHARES
    }
    flat = [stage for of_share in trials.values() for stage in of_share]
    names = {share: names_of(of_share) for share, of_share in trials.items()}
    choose = partial(_choose_share, names=names)
    return [*flat, Stage("background", inputs=(*names_of(flat), *inputs), choose=choose)]


def _with_trial_share(start: Callable[[Run], Model], share: float, run: Run) -> Model:
    trial = Result(about={"background": {"share": share}})
    return start(replace(run, results={**run.results, "background": trial}))


def _choose_share(run: Run, names: dict[float, tuple[str, ...]]) -> dict[str, Any]:
    trials = {share: [run.network(name) for name in of_share] for share, of_share in names.items()}
    found = find_share(trials, feature_bags(run)[1], run.device, run.log)
    lines = {"background share": describe_share(found)}
    return {"background": found, "lines": lines, "warnings": [found["warning"]] if "warning" in found else []}


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


def _weigh_losses(run: Run, names: tuple[str, ...], teachers: tuple[str, ...]) -> dict[str, Any]:
    """The weights of the members, and of each loss; the loss of the student is that of a teacher."""
    about = weigh(names, "teachers", run)["losses"]
    methods = {name: run.network(name).spec.method for name in names}
    weights = {name: member["weight"] for name, member in about["teachers"].items()}
    by_loss = {loss: sum(weights[name] for name in names if methods[name] == loss) for loss in run.task.losses}
    chosen = max(dict.fromkeys(methods[name] for name in teachers), key=lambda loss: by_loss[loss])
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in by_loss.items())
    run.log(f"weights of the bag losses, by {run.validation_labels} validation bags: {shown}")
    about |= {"weights": by_loss, "validation_bags": run.validation_labels, "chosen": chosen}
    return {"losses": about, "lines": {"bag losses": describe_weights(by_loss, run.validation_labels)}}


def describe_weights(by_loss: dict[str, float], bags: int) -> str:
    """
    >>> describe_weights({"vote": 0.3, "soft-count": 0.7}, 50)
    'soft-count 0.70, vote 0.30 (weights by how well instance predictions explain the labels of 50 validation bags, and
    by how evenly labels are distributed)'
    """
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in sorted(by_loss.items(), key=lambda item: -item[1]))
    explained = f"how well instance predictions explain the labels of {bags} validation bags"
    return f"{shown} (weights by {explained}, and by how evenly labels are distributed)"


def _find_offsets(run: Run, members: Sequence[str]) -> dict[str, Any]:
    mean = run.shared["soft labels"] = mean_probabilities(run, members, "teachers")  # by all processes together
    found = from_first(lambda: find_offsets(mean, learned_bags(run), run.remaining_wrong).tolist())
    offsets = dict(zip(run.train.classes, found, strict=True))
    shown = describe_offsets(offsets)
    run.log(f"class offsets of the soft labels: {shown}")
    line = f"{shown} (added to log-probabilities of the soft labels, so that they agree with the bag labels)"
    return {"losses": {"class_offsets": offsets}, "lines": {"class offsets": line}}
