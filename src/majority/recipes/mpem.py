"""mpem: leave unlikely instances out of the count and train again (Shiku et al., Pattern Recognition 2025).

A counting network is trained. Each class gets a mean feature, of the instances predicted as it inside training bags
of that label that were predicted right. In every training bag, the instances not predicted as its label are ranked
by their distance to that class's mean, and the farthest share r of them is left out of the count: they still pass
through the network. A new network is trained on that from random weights, for each r; validation bags stay whole,
and the r of their lowest loss wins.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data.bags import Bags
from ..data.device import choose_device
from ..inference.evaluate import all_batches, batch_features
from ..model import Model
from .stages import Run, Trained


def train(run: Run) -> Trained:
    model = run.fresh_model()
    stages = {"first": run.stage("first", model, partial(run.fit, model))}
    far = far_from_label(model, run.train.without_instance_labels(), run.device)
    losses, best = {}, None
    for ratio in run.plan.ratios:
        model, keep = run.fresh_model(), kept(far, run.train.sizes, ratio)
        fitted = run.stage(f"r{ratio}", model, partial(run.fit, model, keep=keep))
        stages[f"r{ratio}"], losses[str(ratio)] = fitted, fitted.best_loss
        if best is None or fitted.best_loss < best.fitted.best_loss:  # the first of equal ones
            about = {"r": ratio, "val_loss": losses, "left_out": float(np.mean(~keep))}
            best = Trained(model, fitted, stages, {"mpem": about})
    return best


# ---------------------------------------------------------------------- which instances are unlikely


class Reading(NamedTuple):
    """Training instances as a network sees them."""

    features: Tensor  # (n, d)
    predicted: Tensor  # (n,) class
    label: Tensor  # (n,) of its bag
    bag_right: Tensor  # (n,) whether its bag was predicted right


def far_from_label(model: Model, bags: Bags, device: str = "auto") -> np.ndarray:
    """(n,) each instance's distance to the mean of its bag's label.

    It is -1 where the instance is no candidate: predicted as that label, or of a label without a mean.
    """
    sums, numbers = 0.0, 0
    for reading in _readings(model, bags, device):
        more, of = typical_sums(reading, len(bags.classes))
        sums, numbers = sums + more, numbers + of
    means = sums / numbers.unsqueeze(1)  # (C, d), NaN where a class has none
    return np.concatenate([distances(reading, means).cpu().numpy() for reading in _readings(model, bags, device)])


def typical_sums(reading: Reading, n_classes: int) -> tuple[Tensor, Tensor]:
    """(C, d) and (C,): each class's features, summed, and their number, where label, bag and instance agree."""
    typical = reading.bag_right & (reading.predicted == reading.label)
    features, classes = reading.features[typical].double(), reading.label[typical]
    sums = features.new_zeros(n_classes, features.shape[1]).index_add(0, classes, features)
    return sums, torch.bincount(classes, minlength=n_classes)


def distances(reading: Reading, means: Tensor) -> Tensor:
    """(n,) Euclidean, to the mean of the bag's label; -1 for instances that are no candidates."""
    far = (reading.features.double() - means[reading.label]).norm(dim=1)
    return torch.where((reading.predicted != reading.label) & far.isfinite(), far, -1.0)


def kept(far: np.ndarray, sizes: np.ndarray, ratio: float) -> np.ndarray:
    """(n,) whether an instance is counted: of each bag's candidates the farthest floor(ratio x number) are not.

    Of equal distances the earlier instance goes first. A bag in which nothing would be left is left alone.

    >>> kept(np.array([-1.0, 3.0, 2.0, 5.0, 4.0]), np.array([3, 2]), 0.5).tolist()
    [True, False, True, False, True]
    >>> kept(np.array([-1.0, 3.0, 2.0, 5.0, 4.0]), np.array([3, 2]), 1.0).tolist()
    [True, False, False, True, True]
    """
    starts = np.cumsum(sizes) - sizes
    candidates = np.add.reduceat(far >= 0, starts, dtype=np.int64)  # (b,)
    out = np.floor(ratio * candidates + 1e-9).astype(np.int64)  # 0.29 of 100 is 29, though 0.29 * 100 is 28.99...
    out[out == sizes] = 0
    farthest_first = np.lexsort((-far, np.repeat(np.arange(len(sizes)), sizes)))
    rank = np.arange(len(far)) - np.repeat(starts, sizes)
    keep = np.ones(len(far), dtype=bool)
    keep[farthest_first[rank < np.repeat(out, sizes)]] = False
    return keep


@torch.inference_mode()
def _readings(model: Model, bags: Bags, device: str) -> Iterator[Reading]:
    device = choose_device(device)
    model.to(device).eval()
    for batch in all_batches(bags, device):
        features = batch_features(model, batch)
        output = model.aggregate(features, batch.segments)
        label = batch.target.labels
        right = output.bag_log_probs.argmax(dim=1) == label
        spread = batch.segments.spread
        yield Reading(features, output.instance_log_probs.argmax(dim=1), spread(label), spread(right))
