"""What the lists of stages of census are made of: how a network starts, what it learns from, the weights of losses.

A network starts from random weights, or from those of a stage, its source: `head` of its loss, `distilled`, or `start`,
which has chosen one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Ge, Gt, Le, Lt
from torch import Tensor, nn

from ...data.bags import Bags
from ...data.joining import join
from ...fields import check_fields
from ...nn.model import Model, Normalise, standardisation
from ...training.callbacks import Fitted
from ...training.distributed import from_first
from ...training.objectives import Averaged, Distill
from ...training.settings import Epochs, Settings
from ..features import bags_of_features, instance_probabilities
from ..losses import label_counts, label_log_likelihood, loss_weights
from ..plan import Plan, TaskInfo
from ..stages import SEED_STEP, Run, Stage
from .class_offsets import SMALLEST_PROBABILITY, describe_offsets, find_offsets, with_offsets
from .discriminants import discriminants

Share = Annotated[float, Ge(0), Le(1)]
Sources = Mapping[str, str | None]  # of each teacher; None: random weights
SOURCES: Sources = {"teacher-1": None, "distilled-teacher-1": "distilled"}  # of which `start` chooses
PATCHES = "patches"  # the stage that finds features of images
HEAD_EPOCHS = 100


@dataclass(frozen=True)
class CensusSettings:
    teachers: Annotated[int, Ge(1), Le(1_000)] = 3  # of each start
    teacher_epochs: Epochs = 40  # at most: see `teachers`
    sharpness: Annotated[float, Gt(0)] = 2.0  # the power to which the teachers' mean probabilities are raised
    momentum: Annotated[float, Ge(0), Lt(1)] = 0.99  # of the running mean of weights that teachers and student keep
    mixup: Share = 0.5  # largest share of another instance that is mixed in where soft labels are learned
    class_offsets: bool = True  # with several losses: the soft labels of the student are corrected by the bag labels
    validation_instances: bool = False  # the instances of validation bags are learned from too, without their labels

    def __post_init__(self) -> None:
        check_fields(self)


@dataclass(frozen=True)
class HeadSettings(CensusSettings):
    head: Settings = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5, learning_rate=2e-2)  # noqa: RUF009


def chained(stages: Sequence[Stage]) -> list[Stage]:
    """Each stage may use all earlier ones, but for trials, which only a choice uses: its inputs."""
    trials = {name for stage in stages for name in stage.inputs}
    found: list[Stage] = []
    for stage in stages:
        earlier = [other.name for other in found if other.name not in trials]
        found.append(replace(stage, inputs=(*earlier, *stage.inputs)))
    return found


# ---------------------------------------------------------------------- what is learned from


def learned_bags(run: Run) -> Bags:
    """The training bags and, with `validation_instances`, the validation bags without their labels."""
    same_store = run.val is not run.train and run.val.store is run.train.store
    if not run.plan.own.validation_instances or run.epochs is not None or not same_store:  # of all bags, none is left
        return run.train
    no_label = run.val.bag_labels.masked(np.zeros(len(run.val), bool))
    val = run.val._with(bag_labels=no_label, training_labels=None)
    return run.once("learned bags", lambda: join([run.train, val]))


def bags_of(run: Run, stage: str) -> tuple[Bags, Bags]:
    """Training and validation bags as the network of this stage takes them: heads may take features of patches."""
    bags = (learned_bags(run), run.val)
    if not stage.startswith("head") or PATCHES not in run.results:
        return bags
    model = run.network(PATCHES)
    train, val = run.once("features", lambda: [bags_of_features(model, part, run.device) for part in bags])
    return train, val


# ---------------------------------------------------------------------- how a network starts


def fresh(run: Run, number: int = 0, method: str | None = None) -> Model:
    """Random weights, with the share of the background if that was chosen."""
    model = run.fresh_model(number, method)
    if "background" in run.results:
        known: Any = model  # its head has a loss that votes
        background = replace(known.spec.background, share=run.chosen("background")["background"]["share"])
        known.spec = replace(known.spec, background=background)
        known.head.loss.background = background
    return model


def copy_of(run: Run, stage: str, method: str | None = None) -> Model:
    """The network of an earlier stage; for another method, with that method's statistics of the labels."""
    found = run.network(stage)
    if method in (None, found.spec.method):
        return deepcopy(found)
    model = fresh(run, method=method)
    model.backbone.load_state_dict(found.backbone.state_dict())
    model.head.load_state_dict(dict(found.head.named_parameters()), strict=False)
    return model


def started(run: Run, source: str | None, number: int, method: str | None) -> Model:
    """The network of a teacher with this number, or of the student, which is number 0."""
    if source == "start":
        source = SOURCES[run.chosen("start")["kept"]]
    if source is None:
        return fresh(run, number, method)
    of_loss = named(source, method)
    return copy_of(run, of_loss if of_loss in run.results else source, method)


def linear_model(run: Run, method: str | None = None) -> Model:
    """A model whose backbone is one linear layer, with one output per class, for vectors or features of patches."""
    whole = fresh(run, method=method)
    spec, normalise = replace(whole.spec, backbone=None), whole.normalise
    if PATCHES in run.results:
        train = bags_of(run, "head")[0]
        normalise = run.once("normalise", lambda: Normalise(*standardisation(train)))
        spec = replace(spec, instance_shape=train.store.shape[1:], channels=None)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.plan.own.head.seed)
        layer = nn.Linear(spec.instance_shape[0], len(spec.classes), bias=False)
        linear = Model(spec, deepcopy(normalise), layer)
    linear.see_labels(run.train.bag_labels)
    return linear


# ---------------------------------------------------------------------- heads, and a network that learns from them


def of_each_loss(
    task: TaskInfo, kind: str, settings: Settings, start: Callable[..., Model], train: Callable[[Run, Model], Fitted]
) -> list[Stage]:
    """A network of each loss that is weighed, or one of the method of the run."""
    starts = {named(kind, loss): partial(start, method=loss) for loss in task.losses or (None,)}
    return [Stage(name, settings, start=own, train=train) for name, own in starts.items()]


def named(stage: str, loss: str | None) -> str:
    return f"{stage}-{loss}" if loss else stage


def heads_on_discriminants(task: TaskInfo, plan: Plan) -> list[Stage]:
    """A linear classifier of each loss."""
    return of_each_loss(task, "head", plan.own.head, linear_model, train_on_discriminants)


def train_on_discriminants(run: Run, model: Model) -> Fitted:
    bags = bags_of(run, "head")
    model.backbone.load_state_dict({"weight": discriminants(model, bags[0], run.device)})
    return train_head(run, model, bags)


def train_head(run: Run, model: Model, bags: tuple[Bags, Bags] | None = None) -> Fitted:
    """Train the model's head on the features of its network, which stays as it is."""
    train, val = bags or (run.train, run.val)
    features, val = (bags_of_features(model, part, run.device) for part in (train.with_labels(), val))
    width = features.store.shape[1]
    spec = replace(model.spec, backbone="linear", instance_shape=(width,), channels=None)
    alone = Model(spec, Normalise(torch.zeros(width), torch.ones(width)), nn.Identity())
    alone.head = deepcopy(model.head)
    fitted = run.fit(alone, (features, val))
    model.head.load_state_dict(alone.head.state_dict())
    return fitted


def distilled(task: TaskInfo, plan: Plan, heads: Sequence[Stage]) -> list[Stage]:
    """A network that learns the soft labels of the heads, by their weights if they have several losses."""
    names = [head.name for head in heads]
    weights = [Stage("heads", choose=partial(weigh, names, "heads"))] if task.losses else []
    start, train = partial(fresh, method=(*task.losses, None)[0]), partial(distill, members=names, group="heads")
    return [*weights, Stage("distilled", plan.training, start=start, train=train)]


def distill(run: Run, model: Model, members: Sequence[str], group: str) -> Fitted:
    """Train the model on the mean probabilities of the networks of these stages: see `mean_probabilities`. Those of
    teachers have the offsets of the classes, if these were found."""
    own, soft_labels = run.plan.own, mean_probabilities(run, members, group)
    if "class-offsets" in run.results:
        offsets = run.chosen("class-offsets")["losses"]["class_offsets"]
        soft_labels = with_offsets(soft_labels, torch.tensor([*offsets.values()], dtype=torch.float64))
    log_probs = soft_labels.clamp(min=SMALLEST_PROBABILITY).log()
    sharpened = (own.sharpness * log_probs).softmax(dim=1).cpu().numpy()
    bags = learned_bags(run)
    if bags.training_labels is not None:
        known = bags.training_labels >= 0
        sharpened[known] = np.eye(sharpened.shape[1], dtype=sharpened.dtype)[bags.training_labels[known]]
    objective = Distill(model, own.momentum, own.mixup)
    return run.fit(model, (bags, run.val), objective=objective, soft_labels=sharpened)


def mean_probabilities(run: Run, members: Sequence[str], group: str) -> Tensor:  # (n, C)
    """The mean probabilities, for each instance that is learned from, of the networks of these stages, by the weights
    that the stage `group` has found. Without such a stage, all have the same weight."""
    found = run.chosen(group)["losses"][group] if group in run.results else {}
    weights = {name: found[name]["weight"] if found else 1.0 for name in members}
    total = sum(weights.values())

    def mean() -> Any:
        return sum(
            instance_probabilities(run.network(name), bags_of(run, name)[0], run.device) / (total / weight)
            for name, weight in weights.items()
            if weight > 0
        )

    return run.once(f"soft labels of {group}", mean)


# ---------------------------------------------------------------------- teachers and student


def numbered(plan: Plan, source: str | None, kind: str = "teacher", first: int = 1) -> Sources:
    """The teachers that the settings ask for."""
    return {f"{kind}-{number}": source for number in range(first, plan.own.teachers + 1)}


def teachers(task: TaskInfo, plan: Plan, sources: Sources) -> list[Stage]:
    """Their losses take turns. They take no more steps than the student, which also learns from bags without a label.

    >>> task, plan = TaskInfo(bags=8, labelled_bags=4), Plan(training=Settings(epochs=3), own=CensusSettings())
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


def _start_teacher(run: Run, source: str | None, number: int) -> Model:
    """If there are fewer teachers than losses, those whose heads have the largest weights are used, or the first."""
    losses, most = run.task.losses, run.plan.own.teachers
    if "heads" in run.results and most < len(losses):
        weights = run.chosen("heads")["losses"]["heads"]
        by_weight = sorted(losses, key=lambda loss: weights[named("head", loss)]["weight"], reverse=True)
        losses = tuple(loss for loss in losses if loss in by_weight[:most])
    return started(run, source, number, losses[(number - 1) % len(losses)] if losses else None)


def train_teacher(run: Run, model: Model) -> Fitted:
    return run.fit(model, objective=Averaged(model, run.plan.own.momentum))


def student(task: TaskInfo, plan: Plan, sources: Sources, others: Sequence[str] = ()) -> list[Stage]:
    """The student of these teachers and of other members.

    If there are several losses, the members are weighed, and the student has the loss with the largest total weight
    and starts like the teacher of that loss with the largest weight. Else it starts like the last teacher.
    """
    names = (*sources, *others)
    stages: list[Stage] = []
    if task.losses:
        stages.append(Stage("teachers", choose=partial(_weigh_losses, names, tuple(sources))))
        if plan.own.class_offsets:
            stages.append(Stage("class-offsets", choose=partial(_find_offsets, names), again=True))
    start, train = partial(_start_student, sources=sources), partial(distill, members=names, group="teachers")
    return [*stages, Stage("student", plan.training, start=start, train=train)]


def _start_student(run: Run, sources: Sources) -> Model:
    best, method = [*sources][-1], None
    if run.task.losses:
        about = run.chosen("teachers")["losses"]
        method, weights = about["chosen"], about["teachers"]
        of_method = [name for name in sources if run.network(name).spec.method == method]
        best = max(of_method, key=lambda name: weights[name]["weight"])
    student = started(run, sources[best], 0, method)
    statistics = dict(run.network(best).head.named_buffers())
    student.head.load_state_dict(statistics, strict=False)
    return student


# ---------------------------------------------------------------------- weights


def weigh(names: Sequence[str], group: str, run: Run) -> dict[str, Any]:
    """The weights of these networks, and the log-likelihood of the validation labels that each stands for."""
    found: dict[str, float] = {}
    methods: dict[str, str] = {}
    for name in names:
        model = run.network(name)
        found[name] = label_log_likelihood(model, *bags_of(run, name), device=run.device)
        methods[name] = model.spec.method
    weights = loss_weights(found, methods, run.validation_labels, label_counts(run.train))
    return {"losses": {group: {name: {"weight": weights[name], "log_likelihood": found[name]} for name in names}}}


def _weigh_losses(names: Sequence[str], teachers: Sequence[str], run: Run) -> dict[str, Any]:
    """The weights of the members, and of each loss; the loss of the student is that of a teacher."""
    about, bags = weigh(names, "teachers", run)["losses"], run.validation_labels
    methods, by_loss = {name: run.network(name).spec.method for name in names}, dict.fromkeys(run.task.losses, 0.0)
    for name, member in about["teachers"].items():
        by_loss[methods[name]] += member["weight"]
    chosen = max(dict.fromkeys(methods[name] for name in teachers), key=lambda loss: by_loss[loss])
    about |= {"weights": by_loss, "validation_bags": bags, "chosen": chosen}
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in sorted(by_loss.items(), key=lambda item: -item[1]))
    line = f"{shown} (weights by how well {bags} validation bags are explained, and by how even labels are)"
    return {"losses": about, "lines": {"bag losses": line}}


def _find_offsets(members: Sequence[str], run: Run) -> dict[str, Any]:
    mean = mean_probabilities(run, members, "teachers")  # by all processes together
    found = from_first(lambda: find_offsets(mean, learned_bags(run), run.remaining_wrong).tolist())
    offsets = dict(zip(run.train.classes, found, strict=True))
    line = (
        f"{describe_offsets(offsets)} (added to log-probabilities of the soft labels, which then agree with the bags)"
    )
    return {"losses": {"class_offsets": offsets}, "lines": {"class offsets": line}}
