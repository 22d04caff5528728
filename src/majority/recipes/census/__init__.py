"""census: several teachers learn from the bags, and a student learns their soft labels.

pretrain   the network learns, without any label, to recognise two views of an instance among all others (SimCLR)
head       only the head is trained, on the features of the pretrained network: few weights for few labels
teacher    the whole network learns from the bags with the method's loss; several, with different random draws
student    one more network learns the mean soft label of every instance, and no bag label

If the user allows training to see the labels of some instances, head and teachers learn them beside the bag labels, and
the student learns them in place of the soft labels of these instances.

Teachers and student start from the weights of pretrain and head. For vectors, the head is trained on discriminants and
the network first learns its soft labels (distilled). One teacher starts from that and another from random weights; the
others start like the better one, by the loss of the validation bags. For tiny images there is no pretrain and no head:
everything starts from random weights. Other images on a CPU are turned into vectors first, which takes no labels
(patches), and have the stages of vectors. Head and teachers keep the epoch with the
lowest loss of the validation bags. Pretrain, distilled and student do not learn bag labels: they keep their last epoch.

If no method is named, there are several losses: heads and teachers of each, and the soft labels that are learned are
means with weights by `losses.weigh`. Then there is no choice of a start: teachers of both starts are weighted.

If there is a background class whose share is not given, it is estimated first (`background.find_share`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial
from typing import Any

from ...model import Model
from ...training.state import Fitted
from ..background import find_share, with_share
from ..losses import explained, weigh
from ..patches import PATCHES, on_patches
from ..stages import Run, Trained
from ..views import additions_for, describe, search_views, with_views
from .plan import CensusSettings, has_head_on_discriminants, plan, planned_epochs, searches_views, width_of
from .stages import (
    distill,
    head_alone,
    head_on_discriminants,
    instance_probabilities,
    linear_model,
    pretrain,
    train_head,
    train_teacher,
)

__all__ = ["CensusSettings", "head_alone", "instance_probabilities", "plan", "planned_epochs", "train"]


def _starts_from_discriminants(run: Run) -> bool:
    if run.chosen is not None:
        return "distilled" in run.chosen.epochs
    return has_head_on_discriminants(run.plan.own, run.train, width_of(run.train))


def train(run: Run) -> Trained:
    if run.plan.backbone == PATCHES:
        plan = replace(run.plan, own=replace(run.plan.own, pretrain=None))
        on_features, as_one_network = on_patches(replace(run, plan=plan))
        trained = _train_stages(on_features)
        return replace(trained, model=as_one_network(trained.model))
    if not searches_views(run.plan.own):
        return _train_stages(run)
    run, stages, about = _choose_views(run)
    trained = _train_stages(run)
    return replace(trained, stages=stages | trained.stages, about={"views": about} | trained.about)


def _train_stages(run: Run) -> Trained:
    if run.train.background is None or _share_is_given(run):
        return _train_losses(run) if run.losses else _train_method(run)
    stages: dict[str, Fitted] = {}
    about = _find_share(run, stages) if run.chosen is None else run.chosen.about["background"]

    def fresh_model(number: int = 0, method: str | None = None) -> Model:
        return with_share(run.fresh_model(number, method=method), about["share"])

    known = replace(run, fresh_model=fresh_model)
    trained = _train_losses(known) if run.losses else _train_method(known)
    return replace(trained, stages=stages | trained.stages, about={"background": about} | trained.about)


def _share_is_given(run: Run) -> bool:
    background = run.fresh_model().spec.background
    return background is not None and background.share is not None


def _find_share(run: Run, stages: dict[str, Fitted]) -> dict[str, Any]:
    """Estimate the share of the background with heads or, where there are none, with teachers."""
    own: CensusSettings = run.plan.own
    losses = run.losses or (None,)
    pretrained = run.fresh_model()
    if own.pretrain is not None:
        train_network = partial(pretrain, run, pretrained)
        stages["pretrain"] = run.stage("pretrain", pretrained.backbone, train_network)

    def train(share: float, loss: str | None) -> Model:
        network = with_share(run.fresh_model(method=loss), share)
        name = "-".join(filter(None, [f"share-{share:g}", loss]))
        if own.pretrain is not None and own.head is not None:
            network.backbone = pretrained.backbone
            stages[name] = run.stage(name, network.head, partial(train_head, run, network))
        elif _starts_from_discriminants(run):
            network = linear_model(run, network)
            stages[name] = run.stage(name, network, partial(head_on_discriminants, run, network))
        else:
            stages[name] = run.stage(name, network, partial(train_teacher, run, network, 0))
        return network

    return find_share(lambda share: [train(share, loss) for loss in losses], run.val, run.device, run.log)


def _choose_views(run: Run) -> tuple[Run, dict[str, Fitted], dict[str, Any]]:
    """The run with the views for which the head on briefly pretrained features has the lowest validation loss."""
    stages: dict[str, Fitted] = {}
    if run.chosen is not None:
        about = run.chosen.about["views"]
        return replace(run, plan=with_views(run.plan, about["chosen"])), stages, about

    def loss_of(additions: tuple[str, ...]) -> float:
        plan = with_views(run.plan, additions)
        brief = replace(plan.own.pretrain, epochs=plan.own.search_epochs)
        plan = replace(plan, own=replace(plan.own, pretrain=brief))
        trial, name = replace(run, plan=plan), "-".join(["views", *(additions or ("crops",))])
        network = run.fresh_model()
        for part, trained, train_part in (
            (name, network.backbone, partial(pretrain, trial, network)),
            (f"{name}-head", network.head, partial(train_head, trial, network)),
        ):
            stages[part] = run.stage(part, trained, train_part)
        return stages[f"{name}-head"].best_loss

    chosen, tried = search_views(additions_for(run.plan, run.train.store.shape[-1]), loss_of, run.log)
    run.log(f"views with the lowest loss of {len(run.val)} validation bags: {describe(chosen)}")
    about = {"chosen": list(chosen), "tried": tried, "validation_bags": len(run.val)}
    return replace(run, plan=with_views(run.plan, chosen)), stages, about


def _train_method(run: Run) -> Trained:
    """With the loss of one method."""
    own: CensusSettings = run.plan.own
    stages: dict[str, Fitted] = {}
    network = run.fresh_model()
    starts: dict[str, Callable[[int], Model]] = {"teacher": run.fresh_model}
    if own.pretrain is not None:
        stages["pretrain"] = run.stage("pretrain", network.backbone, partial(pretrain, run, network))
        if own.head is not None:
            stages["head"] = run.stage("head", network.head, partial(train_head, run, network))
        starts = {"teacher": lambda number: deepcopy(network)}
    elif _starts_from_discriminants(run):
        linear = linear_model(run, network)
        stages["head"] = run.stage("head", linear, partial(head_on_discriminants, run, linear))
        stages["distilled"] = run.stage("distilled", network, partial(distill, run, network, [linear], [1]))
        starts["distilled-teacher"] = lambda number: deepcopy(network)

    def teacher_of(kind: str, number: int) -> Model:
        teacher, name = starts[kind](number), f"{kind}-{number}"
        stages[name] = run.stage(name, teacher, partial(train_teacher, run, teacher, number))
        return teacher

    about: dict[str, Any] = {}
    if run.chosen is not None and len(starts) > 1:
        about = {"start": run.chosen.about["start"]}
        starts = {about["start"]: starts[about["start"]]}
    firsts = {kind: teacher_of(kind, 1) for kind in starts}
    kind = min(firsts, key=lambda kind: stages[f"{kind}-1"].best_loss)
    if len(firsts) > 1:
        about = {"start": kind}
        run.log(f"{kind}-1 has the lower validation loss: the other teachers start like it")
    teachers = [firsts[kind], *(teacher_of(kind, number) for number in range(2, own.teachers + 1))]
    student = starts[kind](0)
    student.head.load_state_dict(dict(teachers[-1].head.named_buffers()), strict=False)  # running statistics
    stages["student"] = run.stage("student", student, partial(distill, run, student, teachers, [1] * len(teachers)))
    return Trained(student, stages["student"], stages, about)


def _train_losses(run: Run) -> Trained:
    """With several losses, weighted by how well the instance predictions explain the labels of the validation bags."""
    own: CensusSettings = run.plan.own
    stages: dict[str, Fitted] = {}
    about_heads: dict[str, Any] = {}
    networks = {loss: run.fresh_model(method=loss) for loss in run.losses}
    first = networks[run.losses[0]]
    starts: dict[str, Callable[[str, int], Model]] = {
        "teacher": lambda loss, number: run.fresh_model(number, method=loss)
    }
    if own.pretrain is not None:
        stages["pretrain"] = run.stage("pretrain", first.backbone, partial(pretrain, run, first))
        for loss, network in networks.items():
            network.backbone = deepcopy(first.backbone)
            if own.head is not None:
                name = f"head-{loss}"
                stages[name] = run.stage(name, network.head, partial(train_head, run, network))
        starts = {"teacher": lambda loss, number: deepcopy(networks[loss])}
    elif _starts_from_discriminants(run):
        heads = {f"head-{loss}": linear_model(run, network) for loss, network in networks.items()}
        for name, head in heads.items():
            stages[name] = run.stage(name, head, partial(head_on_discriminants, run, head))
        weights, explained_by_heads = _weigh(run, heads)
        about_heads = _members(weights, explained_by_heads)
        learn = partial(distill, run, first, [*heads.values()], [*weights.values()])
        stages["distilled"] = run.stage("distilled", first, learn)
        for network in networks.values():
            network.backbone = deepcopy(first.backbone)
            network.head.load_state_dict(dict(first.head.named_parameters()), strict=False)
        starts["distilled-teacher"] = lambda loss, number: deepcopy(networks[loss])

    teachers: dict[str, Model] = {}
    places: dict[str, tuple[str, str]] = {}  # start and loss of each teacher
    for kind, start in starts.items():
        for number in range(1, own.teachers + 1):
            loss = run.losses[(number - 1) % len(run.losses)]
            name = f"{kind}-{number}-{loss}"
            teachers[name], places[name] = start(loss, number), (kind, loss)
            stages[name] = run.stage(name, teachers[name], partial(train_teacher, run, teachers[name], number))

    weights, log_likelihoods = _weigh(run, teachers)
    by_loss = {loss: sum(weights[name] for name in teachers if places[name][1] == loss) for loss in run.losses}
    chosen = max(by_loss, key=lambda loss: by_loss[loss])
    best = max((name for name in teachers if places[name][1] == chosen), key=lambda name: weights[name])
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in by_loss.items())
    run.log(f"weights of the bag losses, by {len(run.val)} validation bags: {shown}")
    student = starts[places[best][0]](chosen, 0)
    student.head.load_state_dict(dict(teachers[best].head.named_buffers()), strict=False)  # running statistics
    learn = partial(distill, run, student, [*teachers.values()], [*weights.values()])
    stages["student"] = run.stage("student", student, learn)
    about = {"weights": by_loss, "teachers": _members(weights, log_likelihoods), "validation_bags": len(run.val)}
    about |= {"chosen": chosen, **({"heads": about_heads} if about_heads else {})}
    return Trained(student, stages["student"], stages, {"losses": about})


def _weigh(run: Run, models: dict[str, Model]) -> tuple[dict[str, float], dict[str, float]]:
    """The weight of each model, and the log-likelihood of the validation labels that it stands for."""
    if run.chosen is not None:
        about = run.chosen.about["losses"]
        members = {name: (about["teachers"] | about.get("heads", {}))[name] for name in models}
        weights = {name: member["weight"] for name, member in members.items()}
        return weights, {name: member["log_likelihood"] for name, member in members.items()}
    found = {name: explained(model, run.train, run.val, run.device) for name, model in models.items()}
    methods = {name: model.spec.method for name, model in models.items()}
    return weigh(found, methods, len(run.val)), found


def _members(weights: dict[str, float], log_likelihoods: dict[str, float]) -> dict[str, Any]:
    return {name: {"weight": weight, "log_likelihood": log_likelihoods[name]} for name, weight in weights.items()}
