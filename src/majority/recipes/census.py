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

import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..backbones.patches import COMPONENTS
from ..data.bags import Bags
from ..data.device import choose_device
from ..errors import InputError
from ..inference.evaluate import all_batches, outputs
from ..model import Model, ModelSpec, Normalise
from ..training.augment import Augment
from ..training.distributed import gather_pass
from ..training.objectives import Averaged, Contrastive, Distill
from ..training.settings import Settings
from ..training.state import Fitted
from ..training.validation import takes_views
from .background import SHARES, find_share, with_share
from .discriminants import discriminants, is_applicable
from .features import bags_of_features, one_bag_per_instance
from .label_preserving import known_source, label_preserving
from .losses import explained, weigh
from .patches import PATCHES, on_patches
from .plan import Plan, TaskInfo
from .single import resnet_for
from .stages import Run, Trained
from .views import MIXED_EPOCHS, additions_for, describe, search_views, views_of, with_views

SMALLEST_PROBABILITY = 1e-8
HEAD_EPOCHS = 100
SEARCH_EPOCHS = 60  # of pretraining, for each choice of views


@dataclass(frozen=True)
class CensusSettings:
    pretrain: Settings | None = None  # contrastive pretraining on the bags' own instances; None: no such stage
    head: Settings | None = None  # training of the head alone; None: no such stage
    search_epochs: int = 0  # of pretraining for each choice of views; 0: the views are not chosen by the bags
    temperature: float = 0.2  # of the contrastive loss
    momentum: float = 0.99  # of the running mean of weights that teachers and student keep
    teachers: int = 3
    teacher_epochs: int = 40  # the smaller of this and training.epochs is used
    sharpness: float = 2.0  # the power to which the teachers' mean probabilities are raised
    mixup: float = 0.5  # largest share of another instance that is mixed in where soft labels are learned
    mixed_views: float = 0.0  # the same for the first views of pretraining

    def __post_init__(self) -> None:
        allowed = {
            "teachers": (1 <= self.teachers <= 1_000, "1 or more, up to 1,000"),
            "teacher_epochs": (1 <= self.teacher_epochs <= 10**6, "1 or more, up to 1,000,000"),
            "search_epochs": (0 <= self.search_epochs <= 10**6, "0 or more, up to 1,000,000"),
            "momentum": (0 <= self.momentum < 1, "0 or more and below 1"),
            "mixup": (0 <= self.mixup <= 1, "between 0 and 1"),
            "mixed_views": (0 <= self.mixed_views <= 1, "between 0 and 1"),
            "temperature": (0 < self.temperature < math.inf, "a number above 0"),
            "sharpness": (0 < self.sharpness < math.inf, "a number above 0"),
        }
        for name, (valid, rule) in allowed.items():
            if not valid:
                raise InputError(f"census.{name} is {getattr(self, name)}: it must be {rule}")


def plan(task: TaskInfo) -> Plan:
    if task.vectors or not (task.tiny or task.on_gpu):
        head = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5, learning_rate=2e-2)
        return Plan("census", "mlp" if task.vectors else PATCHES, own=CensusSettings(head=head), assumed_wrong=None)
    if task.tiny:
        views = (*_allowed(task, "flip", "rotate90"), *(_allowed(task, "affine") or ("crop",)), "noise")
        training = Settings(epochs=30, learning_rate=4e-3, warmup_epochs=3, augment=views)
        return Plan("census", "tiny", training=training, own=CensusSettings(), assumed_wrong=None)
    height, width = map(_three_quarters, task.shape[:2])
    pretrain = Settings(
        epochs=200,
        batch_bags=512,
        drop_last=True,
        optimizer="muon",
        learning_rate=6e-3,
        weight_decay=1e-3,
        warmup_epochs=10,
        augment=(("resized-crop", {"side": height if height == width else (height, width)}),),
        precision="bf16",
        compile=True,
    )
    head = Settings(epochs=HEAD_EPOCHS, batch_bags=64, warmup_epochs=5)
    training = Settings(
        epochs=80,
        batch_bags=16,
        optimizer="muon",
        learning_rate=3e-3,
        weight_decay=5e-2,
        augment=("crop", "cutout"),
        precision="bf16",
    )
    own = CensusSettings(pretrain, head, teacher_epochs=20)
    plan = Plan("census", resnet_for(task), training=training, own=own, assumed_wrong=None)
    known = known_source(task.source)
    if known is not None:
        return with_views(plan, views_of(known))
    return replace(plan, own=replace(plan.own, search_epochs=SEARCH_EPOCHS))


def _allowed(task: TaskInfo, *augmentations: str) -> tuple[str, ...]:
    """Those of the augmentations that keep the classes of the task's images."""
    return tuple(name for name in augmentations if name in label_preserving(task.source))


def _three_quarters(length: int) -> int:
    """About three quarters, as a multiple of 8 (of 4 below 24 pixels), because networks halve it several times.

    >>> [_three_quarters(length) for length in (13, 16, 24, 28, 32, 224)]
    [8, 12, 16, 24, 24, 168]
    """
    unit = 8 if length >= 24 else 4
    return unit * round(3 / 4 * length / unit)


def planned_epochs(plan: Plan, train: Bags, losses: int = 0) -> int:
    """In all stages; `losses` is their number if no method is named."""
    own: CensusSettings = plan.own
    width = COMPONENTS if plan.backbone == PATCHES else _width(train)
    distills = int(_head_on_discriminants(own, train, width))  # the network learns the soft labels of heads
    epochs = own.pretrain.epochs if own.pretrain is not None else 0
    if _searches_views(own) and own.head is not None:
        choices = 1 + len(additions_for(plan, train.store.shape[-1]))
        epochs = MIXED_EPOCHS * epochs + choices * (own.search_epochs + own.head.epochs)  # at most
    if own.head is not None and (own.pretrain is not None or distills):
        epochs += max(losses, 1) * own.head.epochs
    teachers = own.teachers * (1 + distills) if losses else own.teachers + distills
    teacher_epochs = min(plan.training.epochs, own.teacher_epochs)
    if train.background is not None:  # unless its share is given
        on_heads = own.head is not None and (own.pretrain is not None or distills)
        trial_epochs = own.head.epochs if own.head and on_heads else teacher_epochs
        epochs += len(SHARES) * max(losses, 1) * trial_epochs
    return epochs + teachers * teacher_epochs + (1 + distills) * plan.training.epochs


def _width(bags: Bags) -> int | None:
    """Of vectors; None for images."""
    return bags.store.shape[1] if bags.store.ndim == 2 else None


def _head_on_discriminants(own: CensusSettings, train: Bags, width: int | None) -> bool:
    return own.pretrain is None and own.head is not None and is_applicable(train, width)


def _starts_from_discriminants(run: Run) -> bool:
    if run.chosen is not None:
        return "distilled" in run.chosen.epochs
    return _head_on_discriminants(run.plan.own, run.train, _width(run.train))


def _searches_views(own: CensusSettings) -> bool:
    return own.search_epochs > 0 and own.pretrain is not None and own.head is not None


def train(run: Run) -> Trained:
    if run.plan.backbone == PATCHES:
        plan = replace(run.plan, own=replace(run.plan.own, pretrain=None))
        on_features, as_one_network = on_patches(replace(run, plan=plan))
        trained = _train_stages(on_features)
        return replace(trained, model=as_one_network(trained.model))
    if not _searches_views(run.plan.own):
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
        train_network = partial(_pretrain, run, pretrained)
        stages["pretrain"] = run.stage("pretrain", pretrained.backbone, train_network)

    def train(share: float, loss: str | None) -> Model:
        network = with_share(run.fresh_model(method=loss), share)
        name = "-".join(filter(None, [f"share-{share:g}", loss]))
        if own.pretrain is not None and own.head is not None:
            network.backbone = pretrained.backbone
            stages[name] = run.stage(name, network.head, partial(_train_head, run, network))
        elif _starts_from_discriminants(run):
            network = linear_model(run, network)
            stages[name] = run.stage(name, network, partial(head_on_discriminants, run, network))
        else:
            stages[name] = run.stage(name, network, partial(_train_teacher, run, network, 0))
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
        pretrain = replace(plan.own.pretrain, epochs=plan.own.search_epochs)
        plan = replace(plan, own=replace(plan.own, pretrain=pretrain))
        trial, name = replace(run, plan=plan), "-".join(["views", *(additions or ("crops",))])
        network = run.fresh_model()
        for part, trained, train_part in (
            (name, network.backbone, partial(_pretrain, trial, network)),
            (f"{name}-head", network.head, partial(_train_head, trial, network)),
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
        stages["pretrain"] = run.stage("pretrain", network.backbone, partial(_pretrain, run, network))
        if own.head is not None:
            stages["head"] = run.stage("head", network.head, partial(_train_head, run, network))
        starts = {"teacher": lambda number: deepcopy(network)}
    elif _starts_from_discriminants(run):
        linear = linear_model(run, network)
        stages["head"] = run.stage("head", linear, partial(head_on_discriminants, run, linear))
        stages["distilled"] = run.stage("distilled", network, partial(_distill, run, network, [linear], [1]))
        starts["distilled-teacher"] = lambda number: deepcopy(network)

    def train_teacher(kind: str, number: int) -> Model:
        teacher, name = starts[kind](number), f"{kind}-{number}"
        stages[name] = run.stage(name, teacher, partial(_train_teacher, run, teacher, number))
        return teacher

    about: dict[str, Any] = {}
    if run.chosen is not None and len(starts) > 1:
        about = {"start": run.chosen.about["start"]}
        starts = {about["start"]: starts[about["start"]]}
    firsts = {kind: train_teacher(kind, 1) for kind in starts}
    kind = min(firsts, key=lambda kind: stages[f"{kind}-1"].best_loss)
    if len(firsts) > 1:
        about = {"start": kind}
        run.log(f"{kind}-1 has the lower validation loss: the other teachers start like it")
    teachers = [firsts[kind], *(train_teacher(kind, number) for number in range(2, own.teachers + 1))]
    student = starts[kind](0)
    student.head.load_state_dict(dict(teachers[-1].head.named_buffers()), strict=False)  # running statistics
    stages["student"] = run.stage("student", student, partial(_distill, run, student, teachers, [1] * len(teachers)))
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
        stages["pretrain"] = run.stage("pretrain", first.backbone, partial(_pretrain, run, first))
        for loss, network in networks.items():
            network.backbone = deepcopy(first.backbone)
            if own.head is not None:
                name = f"head-{loss}"
                stages[name] = run.stage(name, network.head, partial(_train_head, run, network))
        starts = {"teacher": lambda loss, number: deepcopy(networks[loss])}
    elif _starts_from_discriminants(run):
        heads = {f"head-{loss}": linear_model(run, network) for loss, network in networks.items()}
        for name, head in heads.items():
            stages[name] = run.stage(name, head, partial(head_on_discriminants, run, head))
        weights, explained_by_heads = _weigh(run, heads)
        about_heads = _members(weights, explained_by_heads)
        learn = partial(_distill, run, first, [*heads.values()], [*weights.values()])
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
            stages[name] = run.stage(name, teachers[name], partial(_train_teacher, run, teachers[name], number))

    weights, log_likelihoods = _weigh(run, teachers)
    by_loss = {loss: sum(weights[name] for name in teachers if places[name][1] == loss) for loss in run.losses}
    chosen = max(by_loss, key=lambda loss: by_loss[loss])
    best = max((name for name in teachers if places[name][1] == chosen), key=lambda name: weights[name])
    shown = ", ".join(f"{name} {weight:.2f}" for name, weight in by_loss.items())
    run.log(f"weights of the bag losses, by {len(run.val)} validation bags: {shown}")
    student = starts[places[best][0]](chosen, 0)
    student.head.load_state_dict(dict(teachers[best].head.named_buffers()), strict=False)  # running statistics
    learn = partial(_distill, run, student, [*teachers.values()], [*weights.values()])
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


def _pretrain(run: Run, model: Model, folder: Path, title: str | None) -> Fitted:
    own: CensusSettings = run.plan.own
    settings = own.pretrain
    assert settings is not None
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.plan.training.seed)
        objective = Contrastive(model.n_features, own.temperature, own.mixed_views)
    if not takes_views(model, settings.augment):
        run.log(f"note: backbone {model.spec.backbone} takes images of one size only: views keep that size")
        steps = Augment(settings.augment).plan
        views = [(name, {key: more[key] for key in more if key != "side"}) for name, more in steps]
        settings = replace(settings, augment=tuple(views))
    return run.fit(model, folder, title, (one_bag_per_instance(run.train), None), settings, objective=objective)


def _train_head(run: Run, model: Model, folder: Path | None, title: str | None) -> Fitted:
    """Train the model's head on the features of its network, which stays as it is."""
    features, val = (bags_of_features(model, bags, run.device) for bags in (run.train.with_labels(), run.val))
    alone = head_alone(model, features)
    fitted = run.fit(alone, folder, title, (features, val), run.plan.own.head)
    model.head.load_state_dict(alone.head.state_dict())
    return fitted


def linear_model(run: Run, model: Model) -> Model:
    """A model of the same method whose backbone is one linear layer, with one output per class."""
    spec = replace(model.spec, backbone=None)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.plan.own.head.seed)
        layer = nn.Linear(spec.instance_shape[0], len(spec.classes), bias=False)
        linear = Model(spec, deepcopy(model.normalise), layer)
    linear.head.see_labels(torch.from_numpy(run.train.bag_labels.counts(len(spec.classes))))
    return linear


def head_on_discriminants(run: Run, model: Model, folder: Path | None, title: str | None) -> Fitted:
    model.backbone.load_state_dict({"weight": discriminants(model, run.train, run.device)})
    return _train_head(run, model, folder, title)


def _train_teacher(run: Run, model: Model, number: int, folder: Path, title: str | None) -> Fitted:
    planned, own = run.plan.training, run.plan.own
    epochs = min(planned.epochs, own.teacher_epochs)
    settings = replace(planned, seed=run.seed_of(number), epochs=epochs)
    objective = Averaged(model, own.momentum)
    return run.fit(model, folder, title, settings=settings, objective=objective)


def _distill(
    run: Run, model: Model, teachers: Sequence[Model], weights: Sequence[float], folder: Path, title: str
) -> Fitted:
    """Train the model on the weighted mean of the teachers' probabilities."""
    own: CensusSettings = run.plan.own
    mean: Any = sum(
        instance_probabilities(teacher, run.train, run.device) / (sum(weights) / weight)
        for teacher, weight in zip(teachers, weights, strict=True)
        if weight > 0
    )
    sharpened = (own.sharpness * mean.clamp(min=SMALLEST_PROBABILITY).log()).softmax(dim=1).cpu().numpy()
    if run.train.training_labels is not None:
        known = run.train.training_labels >= 0
        sharpened[known] = np.eye(sharpened.shape[1], dtype=sharpened.dtype)[run.train.training_labels[known]]
    objective = Distill(model, own.momentum, own.mixup)
    return run.fit(model, folder, title, soft_labels=sharpened, objective=objective)


def head_alone(model: Model, features: Bags) -> Model:
    """A model that takes this one's features as instances, with a head of the same kind and weights."""
    spec, width = model.spec, features.store.shape[1]
    identity = Normalise(torch.zeros(width), torch.ones(width))
    options = (spec.method_options, spec.background)
    alone = Model(ModelSpec(spec.method, "linear", spec.classes, (width,), None, *options), identity, nn.Identity())
    alone.head.load_state_dict(model.head.state_dict())
    return alone


def instance_probabilities(model: Model, bags: Bags, device: str = "auto") -> Tensor:  # (n, C)
    """Probability of each class for each instance, in the order of the bags."""
    chosen = choose_device(device)

    def probabilities_of(part: Bags) -> Tensor:
        batches = all_batches(part.without_instance_labels(), chosen)
        return torch.cat([output.instance_log_probs.exp() for _, output in outputs(model.to(chosen), batches)])

    return gather_pass(bags, probabilities_of)
