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

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..data.bags import Bags
from ..data.loader import Batch
from ..errors import InputError
from ..fields import check_fields
from ..files import write_atomically
from ..nn.model import Model
from ..training.callbacks import Fitted
from ..training.distributed import from_first
from . import single
from .features import gather_rows
from .plan import Plan, TaskInfo
from .stages import Run, Stage

METHODS = ("count", "soft-count", "count-only", "log-mean")  # that count
LEFT_OUT = "left-out.npz"  # in the folder of a stage; for each instance of the training bags, in their order:
# `candidates`, whether it is not predicted as the bag's label, and `left_out`, whether it was left out of the count


@dataclass(frozen=True)
class MpemSettings:
    ratios: tuple[float, ...] = tuple(tenths / 10 for tenths in range(1, 11))  # the values of r to choose from

    def __post_init__(self) -> None:
        check_fields(self)
        if not (self.ratios and all(0 < r <= 1 for r in self.ratios) and len({*self.ratios}) == len(self.ratios)):
            raise InputError(f"mpem.ratios is {[*self.ratios]}: give numbers above 0 and up to 1, each once")


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

    def write(draft: Path) -> None:
        with draft.open("wb") as file:  # given a path, numpy would append .npz to it
            np.savez_compressed(file, candidates=distance >= 0, left_out=~keep)

    folder = run.folder
    if folder is not None:
        from_first(lambda: write_atomically(folder / LEFT_OUT, write))
    return fitted


def choose_ratio(run: Run) -> dict[str, Any]:
    losses = {ratio: run.loss(f"r{ratio}") for ratio in run.plan.own.ratios}
    best = min(losses, key=lambda ratio: losses[ratio])  # the first of equal ones
    share = float(np.mean(~_distance_and_mask(run, best)[1]))
    about = {"r": best, "val_loss": {str(ratio): loss for ratio, loss in losses.items()}, "left_out": share}
    line = f"{100 * share:.0f} % of the training instances: r = {best:g}, chosen by the loss of the validation bags"
    return {"mpem": about, "kept": f"r{best}", "lines": {"left out": line}}


def _distance_and_mask(run: Run, ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """(n,) the distance of each instance to the mean of its label, and whether it is counted with this r."""
    distance = run.once("distance", lambda: distance_to_label(run.network("first"), run.train, run.device))
    return distance, keep_mask(distance, run.train.sizes, ratio)


# ---------------------------------------------------------------------- which instances are unlikely


def distance_to_label(model: Model, bags: Bags, device: str = "auto") -> np.ndarray:
    """(n,) distance of each instance to the mean feature of its bag's label, see `distances`."""

    def read(batch: Batch, features: Tensor) -> Tensor:  # and predicted class, and whether the bag's was right
        output = model.aggregate(features, batch.segments)
        right = batch.segments.spread(batch.target.allows(output.bag_log_probs.argmax(dim=1)))
        return torch.cat([features, output.instance_log_probs.argmax(dim=1)[:, None], right[:, None]], dim=1).cpu()

    table = gather_rows(model, bags, device, read).numpy()  # (n, d + 2)
    labels = np.repeat(np.where(bags.bag_labels.named, bags.bag_labels.winners, -1), bags.sizes)
    return distances(table[:, :-2], table[:, -2].astype(np.int64), labels, table[:, -1] > 0)


def distances(features: np.ndarray, predicted: np.ndarray, labels: np.ndarray, bag_right: np.ndarray) -> np.ndarray:
    """(n, d) features, (n,) predicted class, label of the bag or -1, whether the bag was predicted right -> (n,)
    Euclidean distance to the mean feature of the label, over the instances where all three agree.

    It is -1 for instances that are no candidates: predicted as that label, or in a bag whose label has no mean.

    >>> features = np.array([[0.0, 0.0], [2.0, 0.0], [4.0, 0.0], [9.0, 9.0]])
    >>> right = np.array([True, True, True, False])
    >>> distances(features, np.array([0, 0, 1, 1]), np.array([0, 0, 0, 1]), right).tolist()
    [-1.0, -1.0, 3.0, -1.0]
    """
    found = np.full(len(features), -1.0)
    for label in np.unique(labels[labels >= 0]):
        of_label = labels == label
        typical = features[of_label & (predicted == label) & bag_right].astype(np.float64)
        candidates = of_label & (predicted != label)
        if len(typical):
            found[candidates] = np.linalg.norm(features[candidates] - typical.mean(axis=0), axis=1)
    return found


def keep_mask(distance: np.ndarray, sizes: np.ndarray, ratio: float) -> np.ndarray:
    """(n,) whether an instance is counted: of each bag's candidates, the farthest floor(ratio x number) are not.

    Of equal distances, the earlier instance is left out first. A bag in which nothing would be left stays whole.

    >>> keep_mask(np.array([-1.0, 3.0, 2.0, 5.0, 4.0]), np.array([3, 2]), 0.5).tolist()
    [True, False, True, False, True]
    >>> keep_mask(np.array([-1.0, 3.0, 2.0, 5.0, 4.0]), np.array([3, 2]), 1.0).tolist()
    [True, False, False, True, True]
    """
    keep = np.ones(len(distance), bool)
    for rows in np.split(np.arange(len(distance)), np.cumsum(sizes)[:-1]):
        candidates = rows[distance[rows] >= 0]
        left_out = int(ratio * len(candidates) + 1e-9)  # 0.29 * 100 is 28.99... in floating point
        if left_out < len(rows):
            keep[candidates[np.argsort(-distance[candidates], kind="stable")[:left_out]]] = False
    return keep
