"""Head: what every method shares. A method's file holds its own formula and nothing else."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from torch import Tensor, nn

from ..data.batches import Target
from ..data.segments import Segments


class BagOutput(NamedTuple):
    instance_log_probs: Tensor  # (n, C)
    bag_log_probs: Tensor  # (b, C)
    bag_scores: Tensor | None = None  # (b, C) unnormalised, for a loss that reads those


class Head(nn.Module):
    """From instances' features to their classes and their bag's class."""

    sees_instance_labels: ClassVar[bool] = False  # only the two reference lines do
    needs_bag: ClassVar[bool] = False  # True: an instance's class depends on the rest of its bag

    def see_labels(self, counts: Tensor) -> None:
        """(C,): how many of the training bags have each label."""

    def forward(self, features: Tensor, segments: Segments) -> BagOutput:
        """(n, in_features) float32 -> instance and bag log-probabilities."""
        raise NotImplementedError

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:  # (b,)
        """One loss a bag: the negative log-likelihood of its label."""
        return -pick(output.bag_log_probs, target.labels)


def pick(values: Tensor, columns: Tensor) -> Tensor:
    """(n, C), (n,) -> (n,): each row's value in its column."""
    return values.gather(1, columns.unsqueeze(1)).squeeze(1)
