"""Checks of what `fit` is given, and the removal of instance labels that training must not see."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from ..data.bags import Bags
from ..data.instance_labels import UNKNOWN
from ..data.labels import RUNNER_UP, SEVERAL
from ..data.segments import HostSizesUnknown, Segments
from ..data.targets import Target
from ..errors import InputError
from ..losses import BagOutput
from ..nn.methods import METHODS, wrap_option_errors
from ..nn.model import Model
from . import distributed
from .augment import Augment, AugmentStep
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
        check_keep(keep, train)
    if objective.uses_bag_labels and not train.bag_labels.known.all():
        keep = None if keep is None else keep[train.positions(np.flatnonzero(train.bag_labels.known))]
        train = train.with_labels()
    train = hide_instance_labels(model, train, objective)
    return train, None if val is None else hide_instance_labels(model, val.with_labels(), objective), keep


def check_training(model: Model, train: Bags, val: Bags | None, settings: Settings, objective: Objective) -> None:
    """Refuse a model, bags or settings that do not fit together."""
    check_objective(model, train, settings, objective)
    if objective.uses_head:
        check_head(model, train)
        for bags in (train, val) if objective.uses_bag_labels else (val,):
            check_label_kinds(model, bags)
            check_weights(model, bags)


def hide_instance_labels(model: Model, bags: Bags, objective: Objective) -> Bags:
    """The bags without instance labels, unless the method is a reference method that sees them."""
    if bags.classes != model.spec.classes:
        cure = "build it from the training bags, and make all bags with its classes (classes=...)"
        raise InputError(f"the bags have classes {bags.classes} and the model has {model.spec.classes}: {cure}")
    model.spec.check(bags.store)
    background = model.spec.background
    if bags.background != (background and background.index):
        raise InputError("the model and the bags have different background classes: build the model from these bags")
    if not (objective.uses_head and model.head.sees_instance_labels):
        return bags.without_instance_labels()
    check_can_use_instance_labels(model.spec.method, bags)
    check_all_known(model.spec.method, bags)
    return bags


def check_can_use_instance_labels(method: str, bags: Bags) -> None:
    """A reference method sees all instance labels anyway; it would not find those that are training labels."""
    if bags.training_labels is not None:
        raise InputError(
            f"method {method} is a reference method, which sees the labels of all instances: do not ask to use some"
        )


def check_all_known(method: str, bags: Bags) -> None:
    """A method that sees instance labels needs one for every instance, and only classes that it can predict."""
    if bags.instance_labels is None:
        raise InputError(f"method {method} is a reference method: it needs bags with instance labels")
    unknown = int((bags.instance_labels == UNKNOWN).sum())
    further = int((bags.instance_labels >= len(bags.classes)).sum())
    if unknown or further:
        raise InputError(
            f"method {method} is a reference method: it needs the class of every instance; of {len(bags.index):,} "
            f"instances {unknown:,} have no label and {further:,} have a class that is no bag's label: label all "
            "instances, or use another method"
        )


def check_label_kinds(model: Model, bags: Bags | None) -> None:
    """The loss of the method must know what the labels of the bags say."""
    what = {
        SEVERAL: ("a label of several classes", "give every bag one label"),
        RUNNER_UP: ("a runner-up", "leave out the second labels"),
    }
    unknown = set() if bags is None else bags.bag_labels.kinds - {*model.head.label_kinds}
    if bags is None or not unknown:
        return
    kind = min(unknown)
    found = [method for method in METHODS.values() if not method.kind.sees_instance_labels]
    able = ", ".join(method.name for method in found if kind in method.kind.label_kinds)
    raise InputError(
        f"{bags.describe(bags.bag_labels.first_of(kind))} has {what[kind][0]}, which method {model.spec.method} "
        f"cannot learn from: use one of {able}, or {what[kind][1]}"
    )


def check_weights(model: Model, bags: Bags | None) -> None:
    """The bag prediction of the method must follow the weights of the instances."""
    if bags is None or bags.weights is None or model.head.uses_weights:
        return
    able = ", ".join(method.name for method in METHODS.values() if method.kind.uses_weights)
    raise InputError(
        f"the instances have weights, which method {model.spec.method} cannot follow: use one of {able}, or leave out "
        "the weights"
    )


def check_objective(model: Model, bags: Bags, settings: Settings, objective: Objective) -> None:
    if objective.needs_single_instances and bags.sizes.max() > 1:
        name = type(objective).__name__
        cure = "give bags of one instance, bags.one_per_instance()"
        raise InputError(f"{name} learns single instances: {cure}")
    if settings.augment and not model.spec.images:
        cure = "leave it out (--set training.augment=[])"
        raise InputError(f"augment {list(settings.augment)} is for images, and these instances are vectors: {cure}")
    if not takes_views(model, settings.augment):
        name, (*_, height, width) = model.spec.backbone or "of your own", model.spec.backbone_shape
        raise InputError(
            f"augment {list(settings.augment)} changes the size of images, and the backbone {name} only takes images "
            f"of {height}x{width}: leave `side` out, or use a backbone for any size, such as cnn or resnet18"
        )


def check_head(model: Model, bags: Bags) -> None:
    """Try the method on two bags of random features. Without this check, a custom method with a wrong output could
    train without an error, and its figures would mean nothing."""
    with torch.no_grad(), wrap_option_errors(model.spec.method, model.spec.method_options):
        _try_head(model, bags)


def _try_head(model: Model, bags: Bags) -> None:
    head, method = copy.deepcopy(model.head).eval(), model.spec.method
    sizes = np.minimum([bags.sizes.min(), bags.sizes.max()], TRIAL_INSTANCES)
    device = next(model.parameters()).device
    target = _first_classes(len(sizes), len(model.spec.classes), device)
    features = torch.rand(sizes.sum(), model.n_features, generator=torch.Generator().manual_seed(0))  # as after a ReLU
    instances = torch.zeros(sizes.sum(), dtype=torch.int64, device=device) if head.sees_instance_labels else None
    segments = Segments(sizes, torch.from_numpy(sizes).to(device))
    output = head(features.to(device), segments)
    if not isinstance(output, BagOutput):
        raise InputError(f"method {method}: the prediction is a {type(output).__name__}: return a BagOutput")
    for name, n in {"instance_log_probs": len(features), "bag_log_probs": len(sizes)}.items():
        values, shape = getattr(output, name), (n, len(model.spec.classes))
        if tuple(values.shape) != shape:
            raise InputError(
                f"method {method}: {name} has shape {tuple(values.shape)}: give {shape}, with one column per class"
            )
        if not torch.allclose(values.logsumexp(dim=1), torch.zeros(1, device=device), atol=1e-3):
            raise InputError(f"method {method}: {name} are not log-probabilities: use log_softmax(scores, dim=1)")
    losses = head.losses(output, segments, target._replace(instance_labels=instances))
    if not isinstance(losses, torch.Tensor) or losses.shape != (len(sizes),):
        found = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
        raise InputError(f"method {method}: losses of {len(sizes)} bags are {found}: return one per bag, no mean")


def _first_classes(bags: int, classes: int, device: torch.device) -> Target:
    return Target.of(torch.zeros(bags, dtype=torch.int64, device=device), classes)


@torch.no_grad()
def ignores_filling(model: Model) -> bool:
    """Whether instances that are not kept leave the method's predictions and losses as they are, and sizes of bags
    are only read on the device: then steps may be filled up with other instances."""
    head, device = copy.deepcopy(model.head).eval(), next(model.parameters()).device
    kept, filled = torch.tensor([2, 3]), torch.tensor([2, 7])
    generator = torch.Generator().manual_seed(0)
    features = torch.rand(int(filled.sum()), model.n_features, generator=generator).to(device)
    keep = torch.arange(len(features), device=device) < kept.sum()
    results = []
    for n, segments in (
        (int(kept.sum()), Segments(kept.numpy(), kept.to(device))),
        (len(features), Segments.on_device(filled.to(device), len(features), keep)),
    ):
        instance_labels = torch.zeros(n, dtype=torch.int64, device=device) if head.sees_instance_labels else None
        target = _first_classes(len(kept), len(model.spec.classes), device)._replace(instance_labels=instance_labels)
        try:
            output = head(features[:n], segments)
            results.append((output.bag_log_probs, head.losses(output, segments, target)))
        except HostSizesUnknown:
            return False
    return all(torch.allclose(one, other, atol=1e-4) for one, other in zip(*results, strict=True))


def check_soft_labels(soft_labels: np.ndarray | None, bags: Bags, objective: Objective) -> np.ndarray | None:
    name = type(objective).__name__
    if objective.learns_soft_labels != (soft_labels is not None):
        cure = "give fit(..., soft_labels=...)" if objective.learns_soft_labels else "leave soft_labels out"
        raise InputError(f"{name} learns {'' if objective.learns_soft_labels else 'no '}soft_labels: {cure}")
    if soft_labels is None:
        return None
    shape = (len(bags.index), len(bags.classes))
    if soft_labels.shape != shape or not np.allclose(soft_labels.sum(axis=1), 1, atol=1e-3):  # also refuses NaN
        raise InputError(f"soft_labels have shape {soft_labels.shape}: give {shape}, probabilities of the classes")
    return soft_labels.astype(np.float32, copy=False)


@torch.no_grad()
def takes_views(model: Model, augment: Sequence[AugmentStep]) -> bool:
    """Whether the network takes images of the size that the augmentations return; some take one size only."""
    if not model.spec.images:
        return True
    images = torch.zeros(1, *model.spec.backbone_shape)
    views = Augment(augment)(images, torch.Generator())
    if views.shape == images.shape:
        return True
    backbone = copy.deepcopy(model.backbone).eval()
    try:
        backbone(views.to(next(model.parameters()).device))
    except (RuntimeError, ValueError, AssertionError):
        return False
    return True


def check_processes(model: Model, train: Bags, val: Bags | None, settings: Settings, objective: Objective) -> None:
    """Several processes must train the same, and each must have bags in a step."""
    if distributed.size() == 1:
        return
    facts: dict[str, Any] = {f"the setting {name}": value for name, value in asdict(settings).items()}
    facts |= {"the model": str(model.spec), "the objective": type(objective).__name__}
    for name, bags in {"training": train, "validation": val}.items():
        if bags is not None:
            content = bags.offsets.tobytes() + bags.labels.tobytes()
            facts[f"a hash of sizes and labels of {name} bags"] = hashlib.sha256(content).hexdigest()
    distributed.check_same(facts)
    check_bags_per_process(train, settings)


def check_bags_per_process(train: Bags, settings: Settings) -> None:
    processes, most = distributed.size(), min(len(train), settings.batch_bags)
    if processes > most:
        cure = "use fewer processes, or more bags per step (--batch-bags)"
        raise InputError(f"{processes} processes, but a step has at most {most} of {len(train)} training bags: {cure}")


def check_keep(keep: np.ndarray, bags: Bags) -> None:
    if keep.shape != bags.index.shape or keep.dtype != bool:
        raise InputError(
            f"keep has shape {keep.shape} and dtype {keep.dtype}: give {len(bags.index)} booleans, one per instance"
        )
    empty = np.flatnonzero(~np.logical_or.reduceat(keep, bags.offsets[:-1]))
    if len(empty):
        raise InputError(
            f"keep leaves no instance of {bags.describe(int(empty[0]))}: keep an instance, or leave the bag out"
        )


def check_callbacks(callbacks: Iterable[Callback]) -> list[Callback]:
    """The callbacks as a list, each checked."""
    checked = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    for callback in checked:
        if not isinstance(callback, Callback):
            raise InputError(f"callbacks holds {callback!r}: give a list of objects of subclasses of majority.Callback")
    return checked
