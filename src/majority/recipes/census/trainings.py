"""The trainings of census, each of one network: how it starts, what is trained, on what, with which objective."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...data.bags import Bags
from ...data.joining import join
from ...data.loader import Batch
from ...nn.model import Model, ModelSpec, Normalise, standardisation
from ...training.callbacks import Fitted
from ...training.objectives import Averaged, Contrastive, Distill
from ...training.settings import Settings
from ..features import bags_of_features, gather_rows
from ..stages import Run
from .class_offsets import SMALLEST_PROBABILITY, with_offsets
from .discriminants import discriminants
from .views import plan_of

PATCHES = "patches"  # the stage that finds features of images

# ---------------------------------------------------------------------- what is learned from


def learned_bags(run: Run) -> Bags:
    """The training bags and, with `validation_instances`, the validation bags without their labels."""
    same_store = run.val is not run.train and run.val.store is run.train.store
    if not run.plan.own.validation_instances or run.epochs is not None or not same_store:  # of all bags, none is left
        return run.train
    no_label = run.val.bag_labels.masked(np.zeros(len(run.val), bool))
    val = run.val._with(bag_labels=no_label, training_labels=None)
    bags: Bags = run.once("learned bags", lambda: join([run.train, val]))
    return bags


def feature_bags(run: Run) -> tuple[Bags, Bags]:
    """Training and validation bags as heads on discriminants take them: with features of patches in place of images."""
    bags = (learned_bags(run), run.val)
    if PATCHES not in run.results:
        return bags
    model = run.network(PATCHES)
    parts = run.once("features", lambda: [bags_of_features(model, part, run.device) for part in bags])
    return parts[0], parts[1]


def bags_of(run: Run, stage: str) -> tuple[Bags, Bags]:
    """Training and validation bags as the network of this stage takes them."""
    return feature_bags(run) if stage.startswith("head") else (learned_bags(run), run.val)


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


def pretrained(run: Run, method: str | None = None) -> Model:
    """The network of `pretrain`, with a fresh head."""
    model = fresh(run, method=method)
    model.backbone = deepcopy(run.network("pretrain").backbone)
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


def linear_model(run: Run, method: str | None = None) -> Model:
    """A model whose backbone is one linear layer, with one output per class, for vectors or features of patches."""
    whole = fresh(run, method=method)
    spec, normalise = replace(whole.spec, backbone=None), whole.normalise
    if PATCHES in run.results:
        train = feature_bags(run)[0]
        normalise = run.once("normalise", lambda: Normalise(*standardisation(train)))
        spec = replace(spec, instance_shape=train.store.shape[1:], channels=None)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.plan.own.head.seed)
        layer = nn.Linear(spec.instance_shape[0], len(spec.classes), bias=False)
        linear = Model(spec, deepcopy(normalise), layer)
    linear.see_labels(run.train.bag_labels)
    return linear


# ---------------------------------------------------------------------- trainings


def pretrain(run: Run, model: Model) -> Fitted:
    own = plan_of(run).own
    return contrast(run, model, learned_bags(run), own.pretrain, own.mixed_views)


def contrast(run: Run, model: Model, bags: Bags, settings: Settings, mixed_views: float) -> Fitted:
    """Train the network to recognise two views of an instance among all others; no label is used."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.plan.training.seed)
        objective = Contrastive(model.n_features, mixed_views=mixed_views)
    return run.fit(model, (bags.one_per_instance(), None), settings, objective)


def train_head(run: Run, model: Model) -> Fitted:
    """Train the model's head on the features of its network, which stays as it is."""
    train, val = feature_bags(run) if isinstance(model.backbone, nn.Linear) else (run.train, run.val)
    features, val = (bags_of_features(model, bags, run.device) for bags in (train.with_labels(), val))
    alone = head_alone(model, features)
    fitted = run.fit(alone, (features, val))
    model.head.load_state_dict(alone.head.state_dict())
    return fitted


def head_alone(model: Model, features: Bags) -> Model:
    """A model that takes this one's features as instances, with a copy of its head."""
    width = features.store.shape[1]
    spec: ModelSpec = replace(model.spec, backbone="linear", instance_shape=(width,), channels=None)
    alone = Model(spec, Normalise(torch.zeros(width), torch.ones(width)), nn.Identity())
    alone.head = deepcopy(model.head)
    return alone


def train_on_discriminants(run: Run, model: Model) -> Fitted:
    model.backbone.load_state_dict({"weight": discriminants(model, feature_bags(run)[0], run.device)})
    return train_head(run, model)


def train_teacher(run: Run, model: Model) -> Fitted:
    return run.fit(model, settings=_with_views(run), objective=Averaged(model, run.plan.own.momentum))


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
    return run.fit(model, (bags, run.val), _with_views(run), objective, soft_labels=sharpened)


def _with_views(run: Run) -> Settings:
    return replace(run.settings, augment=plan_of(run).training.augment)


# ---------------------------------------------------------------------- soft labels


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

    soft_labels: Tensor = run.once(f"soft labels of {group}", mean)
    return soft_labels


def instance_probabilities(model: Model, bags: Bags, device: str = "auto") -> Tensor:  # (n, C)
    """Probability of each class for each instance, in the order of the bags."""

    def probabilities(batch: Batch, features: Tensor) -> Tensor:
        return model.aggregate(features, batch.segments).instance_log_probs.exp()

    return gather_rows(model, bags, device, probabilities)
