"""What the lists of stages of census are made of: heads, teachers, weights of losses, the student."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
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
from .settings import epochs_of_teachers
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
Models = Callable[[TaskInfo, Plan], list[Stage]]  # small models, one of each loss
Choice = Callable[[Run], dict[str, Any]]
TEACHERS = 3  # where the settings leave it open


def random_weights(run: Run, number: int, method: str | None) -> Model:
    return fresh(run, number, method)


def distilled_network(run: Run, number: int, method: str | None) -> Model:
    return copy_of(run, "distilled", method)


def losses_of(task: TaskInfo) -> tuple[str | None, ...]:
    """The methods whose losses are weighed; None: only that of the run."""
    return task.losses or (None,)


def named(stage: str, loss: str | None) -> str:
    return f"{stage}-{loss}" if loss else stage


def heads_on_discriminants(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A linear classifier of each loss."""
    starts = {loss: partial(linear_model, method=loss) for loss in losses_of(task)}
    return [
        Stage(named("head", loss), plan.own.head, start=start, train=train_on_discriminants)
        for loss, start in starts.items()
    ]


class StageList:
    """A list of stages that grows. Each stage may use all earlier ones, but for trials, which only a choice uses."""

    def __init__(self, task: TaskInfo, plan: Plan):
        self.task, self.plan = task, plan
        self.stages: list[Stage] = []
        self.used: list[str] = []  # the stages that later ones may use

    def add(self, *stages: Stage) -> list[str]:
        """The names of these stages."""
        for stage in stages:
            self.stages.append(replace(stage, inputs=(*self.used, *stage.inputs)))
            self.used.append(stage.name)
        return [stage.name for stage in stages]

    def choose(
        self, name: str, choose: Choice, trials: Iterable[Stage] = (), once: bool = False, again: bool = False
    ) -> None:
        """A choice by trials, or by stages that are used anyway."""
        used = [*self.used]
        tried = self.add(*trials)
        self.used = used
        self.add(Stage(name, inputs=tuple(tried), choose=choose, once=once, again=again))

    def find_share(self, make: Models) -> None:
        """Small models with each share of a background whose share is not known, and the choice of one."""
        if not self.task.finds_share:
            return
        trials: list[Stage] = []
        names: dict[float, list[str]] = {share: [] for share in SHARES}
        for share in SHARES:
            for model, loss in zip(make(self.task, self.plan), losses_of(self.task), strict=True):
                name, start = named(f"share-{share:g}", loss), partial(_with_trial_share, model.start, share)
                trials.append(replace(model, name=name, start=start))
                names[share].append(name)
        self.choose("background", partial(_choose_share, names=names), trials)

    def distil(self, heads: Sequence[str]) -> None:
        """A network that learns the soft labels of the heads, by their weights if they have several losses."""
        if self.task.losses:
            self.choose("heads", partial(weigh, heads, "heads"))
        start = partial(fresh, method=losses_of(self.task)[0])
        train = partial(distill, members=heads, group="heads")
        self.add(Stage("distilled", self.plan.training, start=start, train=train))

    def teacher(self, start: Start, number: int, kind: str = "teacher") -> Stage:
        """The losses of teachers take turns."""
        training, epochs = self.plan.training, epochs_of_teachers(self.task, self.plan)
        settings = replace(training, seed=training.seed + SEED_STEP * number, epochs=epochs)
        first = partial(_start_teacher, start=start, number=number, of=self.number_of_teachers)
        return Stage(f"{kind}-{number}", settings, start=first, train=train_teacher)

    @property
    def number_of_teachers(self) -> int:
        number: int = self.plan.own.teachers or TEACHERS
        return number

    def teachers(self, start: Start, kind: str = "teacher", first: int = 1) -> dict[str, Start]:
        """The teachers of one start from number `first` on: each with its start."""
        numbers = range(first, self.number_of_teachers + 1)
        return dict.fromkeys(self.add(*(self.teacher(start, number, kind) for number in numbers)), start)

    def student(self, teachers: Mapping[str, Start], others: Sequence[str] = ()) -> list[Stage]:
        """The whole list, with the student of these teachers and of other members.

        If there are several losses, the members are weighed, and the student has the loss with the largest total weight
        and starts like the teacher of that loss with the largest weight. Else it starts like the last teacher.
        """
        names = (*teachers, *others)
        if self.task.losses:
            self.choose("teachers", partial(_weigh_losses, names=names, teachers=tuple(teachers)))
            if self.plan.own.class_offsets:
                self.choose("class-offsets", partial(_find_offsets, members=names), again=True)
        start, train = partial(start_student, teachers=teachers), partial(distill, members=names, group="teachers")
        self.add(Stage("student", self.plan.training, start=start, train=train))
        return self.stages


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


def _with_trial_share(start: Callable[[Run], Model], share: float, run: Run) -> Model:
    trial = Result(about={"background": {"share": share}})
    return start(replace(run, results={**run.results, "background": trial}))


def _choose_share(run: Run, names: dict[float, list[str]]) -> dict[str, Any]:
    trials = {share: [run.network(name) for name in of_share] for share, of_share in names.items()}
    found = find_share(trials, feature_bags(run)[1], run.device)
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
    purpose = "added to log-probabilities of the soft labels, so that they agree with the bag labels"
    line = f"{describe_offsets(offsets)} ({purpose})"
    return {"losses": {"class_offsets": offsets}, "lines": {"class offsets": line}}
