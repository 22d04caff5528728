"""census: several readings of the bags are put together, and what they agree on is learned anew.

start   the network learns, without any label, to know two views of an instance among all others
head    the network as it is, its features read by the head alone: little is left to fit few labels with
reader  the whole network learns the bags by the method's loss; several, with other random draws
last    one more learns what the readers believe of every instance, on average, and no bag's label

Readers and last begin with what start and head left. Of vectors, a head reads discriminants, and the network learns
what it believes (taught); a first reader begins with that and another with random weights, and the others begin as the
better one did, by the validation bags' loss. Tiny images and, on a CPU, all images have neither: there all begin with
random weights. Head and readers choose their epoch by the validation bags' loss; start, taught and last, which learn no
bag's label, keep their last.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..data.bags import Bags
from ..data.device import choose_device
from ..inference.evaluate import all_batches, outputs
from ..model import Model, ModelSpec, Normalise
from ..training.augment import Augment
from ..training.loop import Fitted, fit
from ..training.objectives import Averaged, Contrastive, Distill
from ..training.validation import takes_views
from .discriminants import discriminants, is_applicable
from .embedding import as_single_bags, embed_bags
from .stages import Run, Trained

SMALLEST = 1e-8  # probability


def train(run: Run) -> Trained:
    census, stages = run.plan.census, {}
    begun = run.fresh_model()
    beginnings = {"reader": run.fresh_model}
    if census.start is not None:
        stages["start"] = run.stage("start", begun.backbone, partial(_start, run, begun))
        if census.head is not None:
            stages["head"] = run.stage("head", begun.head, partial(_head, run, begun))
        beginnings = {"reader": lambda number: deepcopy(begun)}
    elif census.head is not None and is_applicable(run.train):
        linear = linear_reader(run, begun)
        stages["head"] = run.stage("head", linear, partial(head_on_discriminants, run, linear))
        stages["taught"] = run.stage("taught", begun, partial(_taught, run, begun, [linear]))
        beginnings["taught-reader"] = lambda number: deepcopy(begun)

    def read(kind: str, number: int) -> Model:
        reader, name = beginnings[kind](number), f"{kind}-{number}"
        stages[name] = run.stage(name, reader, partial(_reader, run, reader, number))
        return reader

    firsts = {kind: read(kind, 1) for kind in beginnings}
    kind = min(firsts, key=lambda kind: stages[f"{kind}-1"].best_loss)
    if len(firsts) > 1:
        run.log(f"stage {kind}-1 has the lower validation loss: the others begin as it did")
    readers = [firsts[kind], *(read(kind, number) for number in range(2, census.readers + 1))]
    last = beginnings[kind](0)
    last.head.load_state_dict(dict(readers[-1].head.named_buffers()), strict=False)  # what heads count
    stages["last"] = run.stage("last", last, partial(_taught, run, last, readers))
    return Trained(last, stages["last"], stages)


def _start(run: Run, model: Model, folder: Path, title: str) -> Fitted:
    census = run.plan.census
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.plan.training.seed)
        objective = Contrastive(model.n_features, census.temperature, census.mixed_views)
    settings = census.start
    if not takes_views(model, settings.augment):
        run.log(f"note: backbone {model.spec.backbone} takes images of one size only: so are the views of the start")
        steps = Augment(settings.augment).plan
        views = [(name, {key: more[key] for key in more if key != "side"}) for name, more in steps]
        settings = replace(settings, augment=tuple(views))
    return fit(model, as_single_bags(run.train), None, settings, objective=objective, **run.where(folder, title))


def _head(run: Run, model: Model, folder: Path, title: str) -> Fitted:
    """The model's own head, on the features of the model's network, which stays as it is."""
    features, val = (embed_bags(model, bags, run.device) for bags in (run.train, run.val))
    alone = head_alone(model, features)
    fitted = fit(alone, features, val, run.plan.census.head, **run.where(folder, title))
    model.head.load_state_dict(alone.head.state_dict())
    return fitted


def linear_reader(run: Run, model: Model) -> Model:
    """A model of the same method that reads as many products of the features as there are classes."""
    spec = replace(model.spec, backbone=None)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(run.plan.census.head.seed)
        linear = Model(spec, deepcopy(model.normalise), nn.Linear(*spec.instance_shape, len(spec.classes), bias=False))
    linear.head.see_labels(torch.from_numpy(np.bincount(run.train.labels, minlength=len(spec.classes))))
    return linear


def head_on_discriminants(run: Run, model: Model, folder: Path, title: str) -> Fitted:
    model.backbone.load_state_dict({"weight": discriminants(model, run.train, run.device)})
    return _head(run, model, folder, title)


def _reader(run: Run, model: Model, number: int, folder: Path, title: str) -> Fitted:
    planned, census = run.plan.training, run.plan.census
    epochs = min(planned.epochs, census.reader_epochs)
    settings = replace(planned, seed=run.seed_of(number), epochs=epochs)
    objective = Averaged(model, census.momentum)
    return fit(model, run.train, run.val, settings, objective=objective, **run.where(folder, title))


def _taught(run: Run, model: Model, readers: list[Model], folder: Path, title: str) -> Fitted:
    census = run.plan.census
    read = sum(instance_probabilities(reader, run.train, run.device) / len(readers) for reader in readers)
    soft_labels = (census.sharpness * read.clamp(min=SMALLEST).log()).softmax(dim=1).cpu().numpy()
    objective = Distill(model, census.momentum, census.mixed)
    return run.fit(model, folder, title, soft_labels=soft_labels, objective=objective)


def head_alone(model: Model, features: Bags) -> Model:
    """A model that reads this one's features as they are, with a head of the same kind and weights."""
    spec, width = model.spec, features.store.shape[1]
    plain = Normalise(torch.zeros(width), torch.ones(width))
    made = ModelSpec(spec.method, "linear", spec.classes, (width,), None, spec.method_options, spec.background)
    alone = Model(made, plain, nn.Identity())
    alone.head.load_state_dict(model.head.state_dict())
    return alone


def instance_probabilities(
    model: Model, bags: Bags, device: str = "auto"
) -> Tensor:  # (n, C), in the order of the bags
    device = choose_device(device)
    batches = all_batches(bags.without_instance_labels(), device)
    return torch.cat([output.instance_log_probs.exp() for _, output in outputs(model.to(device), batches)])
