"""census: a self-supervised start on the bags' own instances, a head on what it found, then self-training.

start          the network learns, without any label, to know two views of an instance among all others
head           the network as it is, its features read by the head alone: little is left to fit few labels with
self-training  the whole network, with the method's bag loss and a teacher's beliefs about every instance, made
               consistent with the bags' labels

Vectors and tiny images have no start: they begin with the last stage. Every stage chooses its epoch by validation
bags (the start keeps its last).
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import torch
from torch import nn

from ..bags import Bags
from ..embedding import embedded, singles
from ..model import Model, ModelSpec, Normalise
from ..objectives import Contrastive, SelfTraining
from ..training import Fitted, fit
from .stages import Run, Trained


def train(run: Run) -> Trained:
    census, model, stages = run.plan.census, run.fresh_model(), {}
    if census.start is not None:
        stages["start"] = run.stage("start", model.backbone, partial(_start, run, model))
        stages["head"] = run.stage("head", model.head, partial(_head, run, model))
    stages["self-training"] = run.stage("self-training", model, partial(_self_training, run, model))
    return Trained(model, stages["self-training"], stages)


def _start(run: Run, model: Model, folder: Path, title: str) -> Fitted:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(run.plan.training.seed)
        objective = Contrastive(model.backbone.out_features, run.plan.census.temperature)
    where = run.where(folder, title)
    return fit(model, singles(run.train), None, run.plan.census.start, objective=objective, **where)


def _head(run: Run, model: Model, folder: Path, title: str) -> Fitted:
    """The model's own head, on the features of the model's network, which stays as it is."""
    features, val = (embedded(model, bags, run.device) for bags in (run.train, run.val))
    alone = head_alone(model, features)
    fitted = fit(alone, features, val, run.plan.census.head, **run.where(folder, title))
    model.head.load_state_dict(alone.head.state_dict())
    return fitted


def _self_training(run: Run, model: Model, folder: Path, title: str) -> Fitted:
    """The reference lines, which know more than a teacher could read, take the same way without one."""
    census = run.plan.census
    lessons = 0 if model.head.sees_instance_labels else census.lessons
    objective = SelfTraining(model, census.momentum, lessons, census.rise, census.confidence)
    return run.fit(model, folder, title, objective=objective)


def head_alone(model: Model, features: Bags) -> Model:
    """A model that reads this one's features as they are, with a head of the same kind and weights."""
    spec, width = model.spec, features.store.shape[1]
    plain = Normalise(torch.zeros(width), torch.ones(width))
    made = ModelSpec(spec.method, "linear", spec.classes, (width,), None, spec.method_options, spec.background)
    alone = Model(made, plain, nn.Identity())
    alone.head.load_state_dict(model.head.state_dict())
    return alone
