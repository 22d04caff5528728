"""What training may see of bags, and the checks of what it is given beside them."""

from __future__ import annotations

import copy

import numpy as np
import torch

from ..data.bags import Bags
from ..data.batches import Target
from ..data.instance_labels import UNKNOWN
from ..data.segments import Segments
from ..errors import InputError
from ..methods import BagOutput, wrap_option_errors
from ..model import Model
from .augment import Augment
from .objectives import Objective
from .settings import Settings

TRIED_INSTANCES = 1_024  # of a bag, up to which a method is tried before it is trained


def hide_instance_labels(model: Model, bags: Bags, objective: Objective) -> Bags:
    """Instance labels reach the loop only for a method that says that it sees them."""
    if bags.classes != model.spec.classes:
        cure = "build it from the training bags, and make all bags with its classes (classes=...)"
        raise InputError(f"bags of classes {bags.classes}, a model of {model.spec.classes}: {cure}")
    model.spec.check(bags.store)
    background = model.spec.background
    if bags.background != (background and background.index):
        raise InputError("the model and the bags differ in the class that does not vote: build it from these bags")
    if not (objective.uses_head and model.head.sees_instance_labels):
        return bags.without_instance_labels()
    check_all_known(model.spec.method, bags)
    return bags


def check_all_known(method: str, bags: Bags) -> None:
    """A method that is told instance labels needs one for every instance, of a class that it can answer."""
    if bags.instance_labels is None:
        raise InputError(f"method {method} is a reference line: it needs bags with instance labels")
    unknown = int((bags.instance_labels == UNKNOWN).sum())
    further = int((bags.instance_labels >= len(bags.classes)).sum())
    if unknown or further:
        raise InputError(
            f"method {method} is a reference line: it needs the class of every instance; of {len(bags.index):,} "
            f"instances {unknown:,} have none and {further:,} one that is no bag's label: label all, or take another "
            "method"
        )


def check_objective(model: Model, bags: Bags, settings: Settings, objective: Objective) -> None:
    if objective.of_instances and bags.sizes.max() > 1:
        raise InputError(
            f"{type(objective).__name__} learns instances: give bags of one each, embedding.as_single_bags(bags)"
        )
    if settings.augment and not model.spec.images:
        cure = "leave it out (--set training.augment=[])"
        raise InputError(f"augment {list(settings.augment)} changes images, and these instances are vectors: {cure}")
    if not takes_views(model, settings.augment):
        name, (*_, height, width) = model.spec.backbone or "of your own", model.spec.backbone_shape
        raise InputError(
            f"augment {list(settings.augment)} changes the size of images, and the backbone {name} takes those of "
            f"{height}x{width} alone: leave `side` out, or take a backbone for any size, such as cnn or resnet18"
        )


def check_head(model: Model, bags: Bags) -> None:
    """Try the method on two bags of random features: one of one's own that answers otherwise would train all the same,
    to figures that mean nothing."""
    with torch.no_grad(), wrap_option_errors(model.spec.method, model.spec.method_options):
        _try_head(model, bags)


def _try_head(model: Model, bags: Bags) -> None:
    head, method = copy.deepcopy(model.head).eval(), model.spec.method
    sizes = np.minimum([bags.sizes.min(), bags.sizes.max()], TRIED_INSTANCES)
    where = next(model.parameters()).device
    labels = torch.zeros(len(sizes), dtype=torch.int64, device=where)
    features = torch.rand(sizes.sum(), model.n_features, generator=torch.Generator().manual_seed(0))  # as after a ReLU
    instances = torch.zeros(sizes.sum(), dtype=torch.int64, device=where) if head.sees_instance_labels else None
    segments = Segments(sizes, torch.from_numpy(sizes).to(where))
    output = head(features.to(where), segments)
    if not isinstance(output, BagOutput):
        raise InputError(f"method {method}: forward returns a {type(output).__name__}: return a BagOutput")
    for name, n in {"instance_log_probs": len(features), "bag_log_probs": len(sizes)}.items():
        values, need = getattr(output, name), (n, len(model.spec.classes))
        if tuple(values.shape) != need:
            raise InputError(f"method {method}: {name} has shape {tuple(values.shape)}: give {need}, a column a class")
        if not torch.allclose(values.logsumexp(dim=1), torch.zeros(1, device=where), atol=1e-3):
            raise InputError(f"method {method}: {name} are no log-probabilities: take log_softmax(scores, dim=1)")
    losses = head.losses(output, segments, Target(labels, instances))
    if not isinstance(losses, torch.Tensor) or losses.shape != labels.shape or not losses.is_floating_point():
        said = tuple(losses.shape) if isinstance(losses, torch.Tensor) else type(losses).__name__
        raise InputError(f"method {method}: losses of {len(sizes)} bags are {said}: return one a bag, not their mean")


def check_soft_labels(soft_labels: np.ndarray | None, bags: Bags, objective: Objective) -> np.ndarray | None:
    name = type(objective).__name__
    if objective.learns_soft_labels and soft_labels is None:
        raise InputError(f"{name} learns soft_labels: give fit(..., soft_labels=...)")
    if soft_labels is None:
        return None
    if not objective.learns_soft_labels:
        raise InputError(f"{name} learns no soft_labels: leave them out, or take the objective Taught")
    soft_labels, each = np.asarray(soft_labels), (len(bags.index), len(bags.classes))
    if soft_labels.shape != each:
        raise InputError(
            f"soft_labels have shape {soft_labels.shape}: give {each}, a row an instance and a column a class"
        )
    if not (
        np.allclose(soft_labels.sum(axis=1), 1, atol=1e-3) and (soft_labels >= 0).all()
    ):  # nor where some are not numbers
        raise InputError("soft_labels must be probabilities: none is below 0, and each row sums to 1")
    return soft_labels.astype(np.float32, copy=False)


@torch.no_grad()
def takes_views(model: Model, augment: tuple) -> bool:
    """Whether the network takes images of the size that the augmentations leave them: some take one size only."""
    if not model.spec.images:
        return True
    images = torch.zeros(1, *model.spec.backbone_shape)
    views = Augment(augment)(images, torch.Generator())
    if views.shape == images.shape:
        return True
    backbone, training = model.backbone, model.backbone.training
    try:
        backbone.eval()(views.to(next(model.parameters()).device))
    except (RuntimeError, ValueError, AssertionError):
        return False
    finally:
        backbone.train(training)
    return True


def check_keep(keep: np.ndarray, bags: Bags) -> None:
    if keep.shape != bags.index.shape or keep.dtype != bool:
        raise InputError(
            f"keep has shape {keep.shape} and dtype {keep.dtype}: give {len(bags.index)} booleans, one an instance"
        )
    empty = np.flatnonzero(~np.logical_or.reduceat(keep, bags.offsets[:-1]))
    if len(empty):
        raise InputError(f"keep leaves nothing of {bags.describe(empty[0])}: keep an instance, or leave the bag out")
