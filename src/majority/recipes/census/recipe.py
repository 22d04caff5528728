"""census: teachers learn from the bags, and a student learns their soft labels.

pretrain   the network learns, without any label, to recognise two views of an instance among all others (SimCLR)
head       only the head is trained, on the features of the pretrained network: few weights for few labels
teacher    the whole network learns from the bags with the method's loss; usually several, with different random draws
student    one more network learns the mean soft label of every instance, and no bag label

With `validation_instances`, the instances of validation bags take part as if these were training bags without a label:
pretrain and student learn from them, too. The labels of these bags only choose.

If the user allows training to see the labels of some instances, head and teachers learn them beside the bag labels, and
the student learns them in place of the soft labels of these instances.

Teachers and student start from the weights of pretrain and head. For vectors, the head is trained on discriminants and
the network first learns its soft labels (distilled). One teacher starts from that and another from random weights; the
others start like the better one, by the loss of the validation bags. For images on a CPU, the head is trained in the
same way on features of patches, which are found without labels (patches). There, one teacher starts from the distilled
network, and the student learns from the heads, too. For tiny images there is no pretrain and no head: everything starts
from random weights. Head and teachers keep the epoch with the lowest loss of the validation bags. Pretrain, distilled
and student do not learn bag labels: they keep their last epoch.

If no method is named, there are several losses: heads and teachers of each (one teacher has the loss whose head has the
largest weight), and the soft labels that are learned are means with weights by `losses.loss_weights`; those of the
student also have class offsets (`class_offsets`). Then there is no choice of a start: all teachers are weighted.

If there is a background class whose share is not given, it is estimated first (`background_share.find_share`).
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...data.joining import join
from ...files import write_json
from ...nn.model import Model
from ...parsing import read_record
from ...records import ClassOffsets
from ...training.distributed import from_first
from ...training.state import Fitted
from ..losses import label_counts, label_log_likelihood, loss_weights
from ..stages import STAGES, Run, Trained
from .background_share import find_share, with_share
from .class_offsets import describe_offsets, find_offsets, with_offsets
from .patches import on_patches
from .plan import (
    CensusSettings,
    epochs_of_teachers,
    has_head_on_discriminants,
    searches_views,
    starts_from_patches,
    teachers_of_start,
)
from .stages import (
    Teacher,
    distill,
    head_on_discriminants,
    linear_model,
    mean_probabilities,
    pretrain,
    train_head,
    train_teacher,
)
from .views import additions_for, describe, search_views, with_views

OFFSETS = "class-offsets.json"  # in the folder of the stages
REMOVE_OFFSETS = "remove it and run again, which finds the offsets again"

SoftLabels = Callable[[], Tensor]


def train(run: Run) -> Trained:
    if not searches_views(run.plan.own):
        return _train_stages(run)
    run, stages, about = _choose_views(run)
    trained = _train_stages(run)
    return replace(trained, stages=stages | trained.stages, about={"views": about} | trained.about)


def _with_validation_instances(run: Run) -> Run:
    """The run whose training bags include the validation bags, without their labels."""
    own: CensusSettings = run.plan.own
    if not own.validation_instances or run.chosen is not None or run.val is run.train:  # then none are held out
        return run
    if run.val.store is not run.train.store:
        what = "the validation bags are in another array or file, so only training bags are learned from"
        run.log(f"note: {what}: to learn from both, take them from one source")
        return run
    no_label = run.val.bag_labels.masked(np.zeros(len(run.val), bool))
    whole = join([run.train, run.val._with(bag_labels=no_label, training_labels=None)])
    own = replace(own, teacher_epochs=epochs_of_teachers(run.plan, run.train))  # these bags do not lengthen them
    return replace(run, train=whole, plan=replace(run.plan, own=own))


def _run_of_heads(run: Run) -> Run | None:
    """The run for heads on discriminants: this one if its instances are vectors, else one on features of patches. None
    if there are no such heads."""
    own: CensusSettings = run.plan.own
    has_heads = has_head_on_discriminants(own, run.train) if run.chosen is None else "distilled" in run.chosen.epochs
    if not has_heads:
        return None
    return on_patches(run) if starts_from_patches(own, run.train) else run


def _train_stages(run: Run) -> Trained:
    whole = _with_validation_instances(run)
    trained = _train_with_share(whole)
    if whole is run:
        return trained
    return replace(trained, about={"validation_instances": len(run.val.index)} | trained.about)


def _train_with_share(run: Run) -> Trained:
    """If there is a background class whose share is not given, it is estimated first."""
    heads = _run_of_heads(run)
    train_all = _train_losses if run.losses else _train_method
    if run.train.background is None or _share_is_given(run):
        return train_all(run, heads)
    stages: dict[str, Fitted] = {}
    about = _find_share(run, heads, stages) if run.chosen is None else run.chosen.about["background"]
    known = None if heads is None else _run_with_share(heads, about["share"])
    trained = train_all(_run_with_share(run, about["share"]), known)
    return replace(trained, stages=stages | trained.stages, about={"background": about} | trained.about)


def _run_with_share(run: Run, share: float) -> Run:
    def fresh_model(number: int = 0, method: str | None = None) -> Model:
        return with_share(run.fresh_model(number, method=method), share)

    return replace(run, fresh_model=fresh_model)


def _share_is_given(run: Run) -> bool:
    background = run.fresh_model().spec.background
    return background is not None and background.share is not None


def _find_share(run: Run, heads: Run | None, stages: dict[str, Fitted]) -> dict[str, Any]:
    """Estimate the share of the background with heads or, where there are none, with teachers."""
    own: CensusSettings = run.plan.own
    losses = run.losses or (None,)
    pretrained = run.fresh_model()
    if own.pretrain is not None:
        train_network = partial(pretrain, run, pretrained)
        stages["pretrain"] = run.stage("pretrain", pretrained.backbone, train_network)

    def train(share: float, loss: str | None) -> Model:
        network = with_share((heads or run).fresh_model(method=loss), share)
        name = "-".join(filter(None, [f"share-{share:g}", loss]))
        if own.pretrain is not None and own.head is not None:
            network.backbone = pretrained.backbone
            stages[name] = run.stage(name, network.head, partial(train_head, run, network))
        elif heads is not None:
            network = linear_model(heads, network)
            stages[name] = run.stage(name, network, partial(head_on_discriminants, heads, network))
        else:
            stages[name] = run.stage(name, network, partial(train_teacher, run, network, 0))
        return network

    val = (heads or run).val
    return find_share(lambda share: [train(share, loss) for loss in losses], val, run.device, run.log)


def _choose_views(run: Run) -> tuple[Run, dict[str, Fitted], dict[str, Any]]:
    """The run with the views for which the head on briefly pretrained features has the lowest validation loss."""
    stages: dict[str, Fitted] = {}
    before = run.before if run.chosen is None else run.chosen.about
    if before:
        about = before["views"]
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
    run.log(f"views with the lowest loss of {run.validation_labels} validation bags: {describe(chosen)}")
    about = {"chosen": list(chosen), "tried": tried, "validation_bags": run.validation_labels}
    return replace(run, plan=with_views(run.plan, chosen)), stages, about


def _train_method(run: Run, heads: Run | None) -> Trained:
    """With the loss of one method; `heads` is the run for heads on discriminants."""
    own: CensusSettings = run.plan.own
    stages: dict[str, Fitted] = {}
    network = run.fresh_model()

    def copy_network(number: int) -> Model:
        return deepcopy(network)

    starts: dict[str, Callable[[int], Model]] = {"teacher": run.fresh_model}
    others: list[Teacher] = []  # of the student
    if own.pretrain is not None:
        stages["pretrain"] = run.stage("pretrain", network.backbone, partial(pretrain, run, network))
        if own.head is not None:
            stages["head"] = run.stage("head", network.head, partial(train_head, run, network))
        starts = {"teacher": copy_network}
    elif heads is not None:
        linear = linear_model(heads, heads.fresh_model())
        stages["head"] = run.stage("head", linear, partial(head_on_discriminants, heads, linear))
        head = Teacher(linear, heads.train)
        soft_labels = partial(mean_probabilities, run, [head])
        stages["distilled"] = run.stage("distilled", network, partial(distill, run, network, soft_labels))
        if starts_from_patches(own, run.train):
            starts, others = {"teacher": copy_network}, [head]
        else:
            starts["distilled-teacher"] = copy_network

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
    number_of_teachers = teachers_of_start(own, run.train, heads is not None)
    teachers = [firsts[kind], *(teacher_of(kind, number) for number in range(2, number_of_teachers + 1))]
    student = starts[kind](0)
    student.head.load_state_dict(dict(teachers[-1].head.named_buffers()), strict=False)  # running statistics
    everyone = [*others, *(Teacher(teacher, run.train) for teacher in teachers)]
    soft_labels = partial(mean_probabilities, run, everyone)
    stages["student"] = run.stage("student", student, partial(distill, run, student, soft_labels))
    return Trained(student, stages["student"], stages, about)


Start = Callable[[str, int], Model]  # the network from which a teacher starts, by its loss and number


class Member(NamedTuple):
    """A head or a teacher, the run with the bags that it takes, its loss, and how it started."""

    model: Model
    run: Run
    loss: str
    start: str = ""


def _train_losses(run: Run, heads: Run | None) -> Trained:
    """With several losses, weighted by `losses.loss_weights`."""
    stages: dict[str, Fitted] = {}
    about: dict[str, Any] = {}
    starts, linear = _train_heads(run, heads, stages, about)
    teachers = _train_teachers(run, starts, _losses_of_teachers(run, heads, about), stages)
    student = _train_student(run, starts, teachers, linear, stages, about)
    return Trained(student, stages["student"], stages, {"losses": about})


def _train_heads(
    run: Run, heads: Run | None, stages: dict[str, Fitted], about: dict[str, Any]
) -> tuple[dict[str, Start], dict[str, Member]]:
    """How teachers can start, by kind, and the heads on discriminants, by stage. Everything before the teachers is
    trained: pretrain and a head per loss, or heads on discriminants and the network that learns from them."""
    own: CensusSettings = run.plan.own
    networks = {loss: run.fresh_model(method=loss) for loss in run.losses}
    first = networks[run.losses[0]]
    linear: dict[str, Member] = {}

    def fresh_network(loss: str, number: int) -> Model:
        return run.fresh_model(number, method=loss)

    def copy_network(loss: str, number: int) -> Model:
        return deepcopy(networks[loss])

    if own.pretrain is not None:
        stages["pretrain"] = run.stage("pretrain", first.backbone, partial(pretrain, run, first))
        for loss, network in networks.items():
            network.backbone = deepcopy(first.backbone)
            if own.head is not None:
                name = f"head-{loss}"
                stages[name] = run.stage(name, network.head, partial(train_head, run, network))
        return {"teacher": copy_network}, linear
    if heads is None:
        return {"teacher": fresh_network}, linear
    for loss in run.losses:
        name, model = f"head-{loss}", linear_model(heads, heads.fresh_model(method=loss))
        stages[name] = run.stage(name, model, partial(head_on_discriminants, heads, model))
        linear[name] = Member(model, heads, loss)
    weighted, about["heads"] = _weigh(run, "heads", linear)
    soft_labels = partial(mean_probabilities, run, weighted)
    stages["distilled"] = run.stage("distilled", first, partial(distill, run, first, soft_labels))
    for network in networks.values():
        network.backbone.load_state_dict(first.backbone.state_dict())
        network.head.load_state_dict(dict(first.head.named_parameters()), strict=False)
    if starts_from_patches(own, run.train):
        return {"teacher": copy_network}, linear
    return {"teacher": fresh_network, "distilled-teacher": copy_network}, linear


def _losses_of_teachers(run: Run, heads: Run | None, about: dict[str, Any]) -> list[str]:
    """The loss of each teacher of a start. They take turns; if there are fewer teachers than losses, those whose heads
    on discriminants have the largest weights are used, or the first ones if there are no such heads."""
    number = teachers_of_start(run.plan.own, run.train, heads is not None)
    losses = run.losses
    if number < len(losses) and heads is not None:
        by_weight = sorted(losses, key=lambda loss: about["heads"][f"head-{loss}"]["weight"], reverse=True)
        losses = tuple(loss for loss in losses if loss in by_weight[:number])
    return [losses[i % len(losses)] for i in range(number)]


def _train_teachers(
    run: Run, starts: dict[str, Start], losses: list[str], stages: dict[str, Fitted]
) -> dict[str, Member]:
    """The teachers of each start by stage."""
    teachers: dict[str, Member] = {}
    for kind, start in starts.items():
        for number, loss in enumerate(losses, start=1):
            name, model = f"{kind}-{number}-{loss}", start(loss, number)
            stages[name] = run.stage(name, model, partial(train_teacher, run, model, number))
            teachers[name] = Member(model, run, loss, kind)
    return teachers


def _train_student(
    run: Run,
    starts: dict[str, Start],
    teachers: dict[str, Member],
    linear: dict[str, Member],
    stages: dict[str, Fitted],
    about: dict[str, Any],
) -> Model:
    """The student has the loss with the largest total weight among those of the teachers, and starts like the teacher
    of that loss with the largest weight."""
    everyone = teachers | (linear if starts_from_patches(run.plan.own, run.train) else {})
    weighted, about["teachers"] = _weigh(run, "teachers", everyone)
    weights = {name: member["weight"] for name, member in about["teachers"].items()}
    by_loss = {loss: sum(weights[name] for name in everyone if everyone[name].loss == loss) for loss in run.losses}
    chosen = max(dict.fromkeys(one.loss for one in teachers.values()), key=lambda loss: by_loss[loss])
    best = max((name for name in teachers if teachers[name].loss == chosen), key=lambda name: weights[name])
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in by_loss.items())
    run.log(f"weights of the bag losses, by {run.validation_labels} validation bags: {shown}")
    student = starts[teachers[best].start](chosen, 0)
    student.head.load_state_dict(dict(teachers[best].model.head.named_buffers()), strict=False)  # running statistics
    soft_labels: SoftLabels = partial(mean_probabilities, run, weighted)
    if run.plan.own.class_offsets:
        soft_labels, about["class_offsets"] = _corrected(run, soft_labels)
    stages["student"] = run.stage("student", student, partial(distill, run, student, soft_labels))
    about.update({"weights": by_loss, "validation_bags": run.validation_labels, "chosen": chosen})
    return student


def _corrected(run: Run, soft_labels: SoftLabels) -> tuple[SoftLabels, dict[str, float]]:
    """The soft labels with an offset of each class, and these offsets: see `class_offsets`. Those that were found
    before a run was interrupted stay."""
    computed, path = cache(soft_labels), run.folder / STAGES / OFFSETS
    kept = partial(read_record, ClassOffsets, path, REMOVE_OFFSETS)
    offsets = from_first(lambda: kept()["class_offsets"] if path.exists() else None)
    if offsets is None or [*offsets] != [*run.train.classes]:
        mean = computed()  # by all processes together
        found = from_first(lambda: find_offsets(mean, run.train, run.remaining_wrong).tolist())
        offsets = dict(zip(run.train.classes, found, strict=True))
        from_first(lambda: write_json(path, {"class_offsets": offsets}))
    run.log(f"class offsets of the soft labels: {describe_offsets(offsets)}")

    def corrected() -> Tensor:
        mean = computed()
        computed.cache_clear()  # else it would stay in memory while the student is trained
        return with_offsets(mean, torch.tensor([*offsets.values()], dtype=torch.float64))

    return corrected, offsets


def _weigh(run: Run, group: str, members: dict[str, Member]) -> tuple[list[Teacher], dict[str, Any]]:
    """The members of the group with their weights, and what result.json says of them: the weight, and the
    log-likelihood of the validation labels that it stands for."""
    if run.chosen is not None:
        about = run.chosen.about["losses"][group]
    else:
        found = {
            name: label_log_likelihood(one.model, one.run.train, one.run.val, run.device)
            for name, one in members.items()
        }
        methods, counts = {name: one.loss for name, one in members.items()}, label_counts(run.train)
        weights = loss_weights(found, methods, run.validation_labels, counts)
        about = {name: {"weight": weights[name], "log_likelihood": found[name]} for name in members}
    return [Teacher(one.model, one.run.train, about[name]["weight"]) for name, one in members.items()], about
