"""The trainings of census, each of one network: what is trained, on what, with which objective."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...data.bags import Bags
from ...data.device import choose_device
from ...nn.model import Model, ModelSpec, Normalise
from ...predict.evaluate import all_batches, outputs
from ...training.augment import Augment
from ...training.distributed import gather_pass
from ...training.objectives import Averaged, Contrastive, Distill
from ...training.state import Fitted
from ...training.validation import takes_views
from ..features import bags_of_features
from ..stages import Run
from .class_offsets import SMALLEST_PROBABILITY
from .discriminants import discriminants
from .plan import CensusSettings, epochs_of_teachers


def pretrain(run: Run, model: Model, folder: Path, title: str | None) -> Fitted:
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
    return run.fit(model, folder, title, (run.train.one_per_instance(), None), settings, objective=objective)


def train_head(run: Run, model: Model, folder: Path | None, title: str | None) -> Fitted:
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
    linear.see_labels(run.train.bag_labels)
    return linear


def head_on_discriminants(run: Run, model: Model, folder: Path | None, title: str | None) -> Fitted:
    model.backbone.load_state_dict({"weight": discriminants(model, run.train, run.device)})
    return train_head(run, model, folder, title)


def train_teacher(run: Run, model: Model, number: int, folder: Path, title: str | None) -> Fitted:
    epochs = epochs_of_teachers(run.plan, run.train)
    settings = replace(run.plan.training, seed=run.seed_of(number), epochs=epochs)
    objective = Averaged(model, run.plan.own.momentum)
    return run.fit(model, folder, title, settings=settings, objective=objective)


class Teacher(NamedTuple):
    """A model whose probabilities are learned, and the training bags as it takes them: images or features of them."""

    model: Model
    bags: Bags
    weight: float = 1.0


def mean_probabilities(run: Run, teachers: Sequence[Teacher]) -> Tensor:  # (n, C)
    """The weighted mean of the teachers' probabilities for each instance of the training bags."""
    total = sum(teacher.weight for teacher in teachers)
    mean: Any = sum(
        instance_probabilities(teacher.model, teacher.bags, run.device) / (total / teacher.weight)
        for teacher in teachers
        if teacher.weight > 0
    )
    return mean


def distill(run: Run, model: Model, soft_labels: Callable[[], Tensor], folder: Path, title: str | None) -> Fitted:
    """Train the model on probabilities (n, C) of the instances of the training bags."""
    own: CensusSettings = run.plan.own
    log_probs = soft_labels().clamp(min=SMALLEST_PROBABILITY).log()
    sharpened = (own.sharpness * log_probs).softmax(dim=1).cpu().numpy()
    if run.train.training_labels is not None:
        known = run.train.training_labels >= 0
        sharpened[known] = np.eye(sharpened.shape[1], dtype=sharpened.dtype)[run.train.training_labels[known]]
    objective = Distill(model, own.momentum, own.mixup)
    return run.fit(model, folder, title, soft_labels=sharpened, objective=objective)


def head_alone(model: Model, features: Bags) -> Model:
    """A model that takes this one's features as instances, with a copy of its head."""
    spec, width = model.spec, features.store.shape[1]
    identity = Normalise(torch.zeros(width), torch.ones(width))
    options = (spec.method_options, spec.background)
    alone = Model(ModelSpec(spec.method, "linear", spec.classes, (width,), None, *options), identity, nn.Identity())
    alone.head = deepcopy(model.head)
    return alone


def instance_probabilities(model: Model, bags: Bags, device: str = "auto") -> Tensor:  # (n, C)
    """Probability of each class for each instance, in the order of the bags."""
    chosen = choose_device(device)

    def probabilities_of(part: Bags) -> Tensor:
        batches = all_batches(part, chosen)
        return torch.cat([output.instance_log_probs.exp() for _, output in outputs(model.to(chosen), batches)])

    return gather_pass(bags, probabilities_of)
