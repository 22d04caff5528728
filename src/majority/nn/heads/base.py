"""Head: what classifies the instances of bags from their features. The file of a head holds its formula and nothing
else."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor, nn

from ...data.labels import SEVERAL, WINNER
from ...data.segments import Segments
from ...data.targets import Target
from ...errors import InputError
from ...losses import BagLoss, BagOutput
from ...losses.base import LearnsFromBags, at_least_float32, in_float32
from ...losses.functional import winner_log_probs


class Head(LearnsFromBags):
    """Predicts the class of each instance and of each bag from the features of the instances.

    A subclass defines `aggregate`, and `losses` if its loss is not the negative log-likelihood of the label.

    >>> import torch
    >>> from majority.nn.heads import Attention
    >>> head = Attention(in_features=4, n_classes=3)
    >>> head(torch.zeros(5, 4), torch.tensor([0, 0, 1, 1, 1])).bag_log_probs.shape
    torch.Size([2, 3])
    """

    label_kinds: ClassVar[tuple[str, ...]] = (WINNER, SEVERAL)
    needs_bag: ClassVar[bool] = False  # True: the class of an instance depends on the rest of its bag

    def forward(self, features: Tensor, bags: Tensor | Segments, n_bags: int | None = None) -> BagOutput:
        """(n, in_features) float32 and the bag of each row -> instance and bag log-probabilities.

        `bags` are ids (n,) in any order, or `Segments`. Without the number of bags, the device is waited for.
        """
        if not isinstance(bags, Segments):
            if bags.shape != features.shape[:1] or bags.is_floating_point():
                raise InputError(f"bag ids: give {len(features)} whole numbers, one per row")
            bags = Segments.of_ids(bags, n_bags)
        with in_float32(features):
            return self.aggregate(at_least_float32(features), bags)

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        raise NotImplementedError

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:  # (b,)
        """One loss per bag: the negative log-likelihood of its label."""
        return -winner_log_probs(output.bag_log_probs, target.allowed)


class InstanceHead(Head):
    """A linear classifier of single instances, with a loss that needs nothing but their logits."""

    def __init__(self, in_features: int, n_classes: int, loss: BagLoss):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)
        self.loss = loss
        self.sees_instance_labels, self.uses_weights = loss.sees_instance_labels, loss.uses_weights  # type: ignore[misc]
        self.label_kinds = loss.label_kinds  # type: ignore[misc]

    def see_labels(self, counts: Tensor, seconds: Tensor) -> None:
        self.loss.see_labels(counts, seconds)

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        return self.loss.predict(self.classifier(features), segments)

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        return self.loss.compute(output, segments, target)
