"""Checks of what `fit` is given, and the removal of instance labels that training must not see."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable
from dataclasses import asdict

import numpy as np
import torch

from ..data.bags import Bags
from ..data.labels import RUNNER_UP, SEVERAL
from ..data.segments import HostSizesUnknown, Segments
from ..data.targets import Target
from ..data.training_labels import usable_labels
from ..errors import InputError
from ..nn.heads import Head
from ..nn.methods import METHODS, wrap_option_errors
from ..nn.model import Model
from . import distributed
from .callbacks import Callback
from .objectives import Objective
from .settings import Settings

TRIAL_INSTANCES = 1_024  # per bag, at most, in the trial of a head


def select_bags(
    model: Model, train: Bags, val: Bags | None, objective: Objective, keep: np.ndarray | None
) -> tuple[Bags, Bags | None, np.ndarray | None]:
    """The bags that take part, without the instance labels that training must not see, and `keep` for them.

    Bags without a label do not train an objective that learns bag labels, and never validate.
    """
    if keep is not None:
        keep = np.asarray(keep)
        fits = keep.shape == train.index.shape and keep.dtype == bool
        if not (fits and np.logical_or.reduceat(keep, train.offsets[:-1]).all()):
            raise InputError(f"keep: give {len(train.index)} booleans, one per instance, with a True in every bag")
    if objective.uses_bag_labels and not train.bag_labels.known.all():
        keep = None if keep is None else keep[train.positions(np.flatnonzero(train.bag_labels.known))]
        train = train.with_labels()
    train = hide_instance_labels(model, train, objective)
    return train, None if val is None else hide_instance_labels(model, val.with_labels(), objective), keep


def hide_instance_labels(model: Model, bags: Bags, objective: Objective) -> Bags:
    """The bags without instance labels, unless the method is a reference method that sees them."""
    model.spec.check_bags(bags)
    background = model.spec.background
    if bags.background != (background and background.index):
        raise InputError("the model and the bags have different background classes: build the model from these bags")
    if not (objective.uses_head and model.head.sees_instance_labels):
        return bags.without_instance_labels()
    check_all_known(model.spec.method, bags)
    return bags


def check_training(
    model: Model,
    train: Bags,
    val: Bags | None,
    settings: Settings,
    objective: Objective,
    soft_labels: np.ndarray | None,
) -> None:
    """Refuse a model, bags or settings that do not fit together."""
    check_soft_labels(soft_labels, train, objective)
    if objective.needs_single_instances and train.sizes.max() > 1:
        raise InputError(f"{type(objective).__name__} learns single instances: give it bags.one_per_instance()")
    if settings.augment and not model.spec.images:
        cure = "leave it out (--set training.augment=[])"
        raise InputError(f"augment {list(settings.augment)} is for images, and these instances are vectors: {cure}")
    if objective.uses_head:
        check_head(model, train)
        for bags in (train, val) if objective.uses_bag_labels else (val,):
            if bags is not None:
                check_labels(model, bags)


def check_soft_labels(soft_labels: np.ndarray | None, train: Bags, objective: Objective) -> None:
    name, shape = type(objective).__name__, (len(train.index), len(train.classes))
    if not objective.learns_soft_labels:
        if soft_labels is not None:
            raise InputError(f"{name} learns no soft_labels: leave them out")
        return
    found = np.zeros(0) if soft_labels is None else soft_labels
    if found.shape != shape or not np.allclose(found.sum(axis=1), 1, atol=1e-3):  # also refuses NaN
        raise InputError(f"{name} needs soft_labels of shape {shape}: probabilities, whose sum is 1 in every row")


def check_all_known(method: str, bags: Bags) -> None:
    """A method that sees instance labels needs one for every instance, and only classes that it can predict."""
    if bags.training_labels is not None:  # it sees all labels anyway
        raise InputError(f"method {method} is a reference method, which sees all labels: do not ask to use some")
    lacking = int((~usable_labels(bags)).sum())
    if lacking:
        raise InputError(
            f"method {method} is a reference method, which needs instance labels; of {len(bags.index):,} instances "
            f"{lacking:,} have none, or a class that is no bag's label: label all instances, or use another method"
        )


def check_labels(model: Model, bags: Bags) -> None:
    """The method must know what the labels of the bags say, and follow the weights of their instances."""
    what = {SEVERAL: "a label of several classes", RUNNER_UP: "a runner-up"}
    usable = [method for method in METHODS.values() if not method.kind.sees_instance_labels]
    for kind in sorted(bags.bag_labels.kinds - {*model.head.label_kinds}):
        able = ", ".join(method.name for method in usable if kind in method.kind.label_kinds)
        raise InputError(
            f"{bags.describe(bags.bag_labels.first_of(kind))} has {what[kind]}, which method {model.spec.method} "
            f"cannot learn from: leave it out, or use one of {able}"
        )
    if bags.weights is not None and not model.head.uses_weights:
        able = ", ".join(method.name for method in METHODS.values() if method.kind.uses_weights)
        raise InputError(
            f"the instances have weights, which method {model.spec.method} cannot follow: leave them out, or use one "
            f"of {able}"
        )


# ---------------------------------------------------------------------- trials of a model


@torch.no_grad()
def check_head(model: Model, bags: Bags) -> None:
    """Try the method on two bags of random features. Without this check, a custom method with a wrong output could
    train without an error, and its figures would mean nothing."""
    sizes = np.minimum([bags.sizes.min(), bags.sizes.max()], TRIAL_INSTANCES)
    segments, method = Segments(sizes, torch.from_numpy(sizes).to(_device_of(model))), f"method {model.spec.method}"
    with wrap_option_errors(model.spec.method, model.spec.method_options):
        head, features, target = _trial(model, segments)
        output = head(features, segments)
        for name, rows in {"instance_log_probs": segments.n, "bag_log_probs": 2}.items():
            values, shape = getattr(output, name), (rows, len(model.spec.classes))
            if values.shape != shape or not torch.allclose(values.exp().sum(dim=1), values.new_ones(1), atol=1e-3):
                raise InputError(
                    f"{method}: {name}, of shape {tuple(values.shape)}, are not log-probabilities of shape {shape}: "
                    "use log_softmax(scores, dim=1), with one column per class"
                )
        losses = head.losses(output, segments, target)
        if not isinstance(losses, torch.Tensor) or losses.shape != (2,):
            raise InputError(f"{method}: losses of 2 bags are {losses}: return one per bag, no mean")


@torch.no_grad()
def ignores_filling(model: Model) -> bool:
    """Whether instances that are not kept leave the method's predictions and losses as they are, and sizes of bags
    are only read on the device: then steps may be filled up with other instances."""
    device, results = _device_of(model), []
    kept, filled = torch.tensor([2, 3]), torch.tensor([2, 7])
    keep = torch.arange(9, device=device) < 5
    for segments in Segments(kept.numpy(), kept.to(device)), Segments.on_device(filled.to(device), 9, keep):
        head, features, target = _trial(model, segments)
        try:
            output = head(features, segments)
            results.append((output.bag_log_probs, head.losses(output, segments, target)))
        except HostSizesUnknown:
            return False
    return all(torch.allclose(one, other, atol=1e-4) for one, other in zip(*results, strict=True))


def _trial(model: Model, segments: Segments) -> tuple[Head, torch.Tensor, Target]:
    """A copy of the head, random features, as after a ReLU, and a target in which all is of the first class."""
    head, device = copy.deepcopy(model.head).eval(), _device_of(model)
    features = torch.rand(segments.n, model.n_features, generator=torch.Generator().manual_seed(0)).to(device)
    target = Target.of(torch.zeros(len(segments), dtype=torch.int64, device=device), len(model.spec.classes))
    if head.sees_instance_labels:
        target = target._replace(instance_labels=torch.zeros(segments.n, dtype=torch.int64, device=device))
    return head, features, target


def _device_of(model: Model) -> torch.device:
    return next(model.parameters()).device


# ---------------------------------------------------------------------- processes and callbacks


def check_processes(train: Bags, val: Bags | None, settings: Settings) -> None:
    """Several processes are given the same settings and all bags, and each must have bags in a step."""
    if distributed.size() == 1:
        return
    facts = {f"the setting {name}": value for name, value in asdict(settings).items()}
    for name, bags in {"training": train, "validation": val}.items():
        content = b"" if bags is None else bags.offsets.tobytes() + bags.labels.tobytes()
        facts[f"a hash of sizes and labels of {name} bags"] = hashlib.sha256(content).hexdigest()
    distributed.check_same(facts)
    check_bags_per_process(train, settings)


def check_bags_per_process(train: Bags, settings: Settings) -> None:
    processes, most = distributed.size(), min(len(train), settings.batch_bags)
    if processes > most:
        cure = "use fewer processes, or more bags per step (--batch-bags)"
        raise InputError(f"{processes} processes, but a step has at most {most} of {len(train)} training bags: {cure}")


def check_callbacks(callbacks: Iterable[Callback]) -> list[Callback]:
    """The callbacks as a list, each checked."""
    checked = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for callback in checked:
        if not isinstance(callback, Callback):
            raise InputError(f"callbacks holds {callback!r}: give a list of objects of subclasses of majority.Callback")
    return checked
