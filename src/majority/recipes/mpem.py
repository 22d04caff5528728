"""mpem: leave unlikely instances out of the count and train again (Shiku et al., Pattern Recognition 2025).

1. A counting network is trained.
2. Each class gets a mean feature: of the instances predicted as that class, in training bags that have that label and
   were predicted right.
3. In every training bag, the instances that are not predicted as the bag's label are ranked by their distance to the
   mean of that label. The share r of them that is farthest is left out of the count; they still pass through the
   network.
4. For each r a new network is trained on that from random weights; validation bags stay whole, and the r with their
   lowest loss is chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..data.bags import Bags
from ..data.device import choose_device, widest_float
from ..errors import InputError
from ..fields import check_fields
from ..files import write_atomically
from ..nn.model import Model
from ..predict.evaluate import all_batches, batch_features
from ..training.distributed import from_first, gather_pass, sum_pass
from ..training.state import Fitted
from . import single
from .plan import Plan, TaskInfo
from .stages import Run, Stage

LEFT_OUT = "left-out.npz"  # in the folder of a stage; for each instance of the training bags, in their order:
# `candidates`, whether it is not predicted as the bag's label, and `left_out`, whether it was left out of the count


@dataclass(frozen=True)
class MpemSettings:
    ratios: tuple[float, ...] = tuple(tenths / 10 for tenths in range(1, 11))  # the values of r to choose from

    def __post_init__(self) -> None:
        check_fields(self)
        if not (self.ratios and all(0 < r <= 1 for r in self.ratios) and len({*self.ratios}) == len(self.ratios)):
            shown = ",".join(map(str, self.ratios)) or "(none)"
            raise InputError(f"mpem.ratios {shown}: give numbers above 0 and up to 1, each once")


def plan(task: TaskInfo) -> Plan:
    return replace(single.paper(task), own=MpemSettings())


def stages(task: TaskInfo, plan: Plan) -> list[Stage]:
    trials = [
        Stage(f"r{ratio}", plan.training, ("first",), Run.fresh_model, partial(train_without_unlikely, ratio=ratio))
        for ratio in plan.own.ratios
    ]
    names = tuple(stage.name for stage in trials)
    return [Stage("first", plan.training), *trials, Stage("ratio", inputs=("first", *names), choose=choose_ratio)]


def train_without_unlikely(run: Run, model: Model, ratio: float) -> Fitted:
    distance, keep = _distance_and_mask(run, ratio)
    fitted = run.fit(model, keep=keep)
    folder = run.folder
    if folder is not None:
        from_first(lambda: _write_left_out(folder / LEFT_OUT, distance >= 0, ~keep))
    return fitted


def choose_ratio(run: Run) -> dict[str, Any]:
    losses = {ratio: run.loss(f"r{ratio}") for ratio in run.plan.own.ratios}
    best = min(losses, key=lambda ratio: losses[ratio])  # the first of equal ones
    share = float(np.mean(~_distance_and_mask(run, best)[1]))
    about = {"r": best, "val_loss": {str(ratio): loss for ratio, loss in losses.items()}, "left_out": share}
    chosen = f"r = {best:g}, chosen by the loss of the validation bags"
    lines = {"left out": f"{100 * share:.0f} % of the training instances: {chosen}"}
    return {"mpem": about, "kept": f"r{best}", "lines": lines}


def _distance_and_mask(run: Run, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the distance of each instance to the mean of its label, and whether it is counted with this r."""
    distance = run.once("distance", lambda: distance_to_label(run.network("first"), run.train, run.device))
    return distance, keep_mask(distance, run.train.sizes, ratio)


def _write_left_out(path: Path, candidates: np.ndarray, left_out: np.ndarray) -> None:
    def write(draft: Path) -> None:
        with draft.open("wb") as file:  # given a path, numpy would append .npz to it
            np.savez_compressed(file, candidates=candidates, left_out=left_out)

    write_atomically(path, write)


# ---------------------------------------------------------------------- which instances are unlikely


class InstanceBatch(NamedTuple):
    """Training instances of one batch, as a network sees them."""

    features: Tensor  # (n, d)
    predicted: Tensor  # (n,) class
    label: Tensor  # (n,) of its bag; -1 if that does not name exactly one class
    bag_right: Tensor  # (n,) whether its bag was predicted right


def distance_to_label(model: Model, bags: Bags, device: str = "auto") -> np.ndarray:
    """(n,) distance of each instance to the mean feature of its bag's label.

    It is -1 for instances that are no candidates: predicted as that label, or in a bag whose label has no mean or does
    not name one class.
    """

    def sums_of(part: Bags) -> tuple[Tensor, Tensor]:
        sums: Tensor | float = 0.0
        counts: Tensor | int = 0
        for batch in _instance_batches(model, part, device):
            batch_sums, batch_counts = typical_sums(batch, len(bags.classes))
            sums, counts = sums + batch_sums, counts + batch_counts
        assert isinstance(sums, Tensor)
        assert isinstance(counts, Tensor)
        return sums, counts

    sums, counts = sum_pass(bags, sums_of)
    means = sums / counts.unsqueeze(1)  # (C, d), NaN for a class without instances

    def distances_of(part: Bags) -> Tensor:
        return torch.cat([distances(batch, means) for batch in _instance_batches(model, part, device)])

    return gather_pass(bags, distances_of).cpu().numpy()


def typical_sums(batch: InstanceBatch, n_classes: int) -> tuple[Tensor, Tensor]:
    """(C, d) sum and (C,) number of the features where label, bag prediction and instance prediction agree."""
    typical = batch.bag_right & (batch.predicted == batch.label)
    dtype = widest_float(batch.features.device)
    features, classes = batch.features[typical].to(dtype), batch.label[typical]
    sums = features.new_zeros(n_classes, features.shape[1]).index_add(0, classes, features)
    return sums, torch.bincount(classes, minlength=n_classes)


def distances(batch: InstanceBatch, means: Tensor) -> Tensor:
    """(n,) Euclidean distance to the mean of the bag's label; -1 for instances that are no candidates."""
    distance = (batch.features.to(means.dtype) - means[batch.label]).norm(dim=1)
    candidates = (batch.predicted != batch.label) & (batch.label >= 0)
    return torch.where(candidates & distance.isfinite(), distance, -1.0)


def keep_mask(distance: np.ndarray, sizes: np.ndarray, ratio: float) -> np.ndarray:
    """(n,) whether an instance is counted: of each bag's candidates, the farthest floor(ratio x number) are not.

    Of equal distances, the earlier instance is left out first. A bag in which nothing would be left stays whole.

    >>> keep_mask(np.array([-1.0, 3.0, 2.0, 5.0, 4.0]), np.array([3, 2]), 0.5).tolist()
    [True, False, True, False, True]
    >>> keep_mask(np.array([-1.0, 3.0, 2.0, 5.0, 4.0]), np.array([3, 2]), 1.0).tolist()
    [True, False, False, True, True]
    """
    starts = np.cumsum(sizes) - sizes
    candidates = np.add.reduceat(distance >= 0, starts, dtype=np.int64)  # (b,)
    left_out = np.floor(ratio * candidates + 1e-9).astype(np.int64)  # 0.29 * 100 is 28.99... in floating point
    left_out[left_out == sizes] = 0
    farthest_first = np.lexsort((-distance, np.repeat(np.arange(len(sizes)), sizes)))
    rank = np.arange(len(distance)) - np.repeat(starts, sizes)
    keep = np.ones(len(distance), dtype=bool)
    keep[farthest_first[rank < np.repeat(left_out, sizes)]] = False
    return keep


@torch.inference_mode()
def _instance_batches(model: Model, bags: Bags, device: str) -> Iterator[InstanceBatch]:
    chosen = choose_device(device)
    model.to(chosen).eval()
    for batch in all_batches(bags, chosen):
        features = batch_features(model, batch)
        output = model.aggregate(features, batch.segments)
        label = batch.target.labels
        right = batch.target.allows(output.bag_log_probs.argmax(dim=1))
        spread = batch.segments.spread
        yield InstanceBatch(features, output.instance_log_probs.argmax(dim=1), spread(label), spread(right))
