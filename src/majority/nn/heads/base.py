"""Head: what all methods share. The file of a method holds its formula and nothing else."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from ...data.batches import Target
from ...data.labels import SEVERAL, WINNER
from ...data.segments import Segments


class BagOutput(NamedTuple):
    instance_log_probs: Tensor  # (n, C)
    bag_log_probs: Tensor  # (b, C)
    bag_scores: Tensor | None = None  # (b, C) unnormalised, for losses that need them


def counted_winners(output: BagOutput, segments: Segments, background: int | None = None) -> Tensor:  # (b,)
    """The class with the most instances that are predicted as it; the first one wins ties.

    It may differ from the method's own prediction, the highest of the bag log-probabilities. A background does not
    vote; it is the answer only if no instance votes.

    >>> probs = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    >>> output = BagOutput(probs.log(), probs.mean(dim=0, keepdim=True).log())
    >>> counted_winners(output, Segments([3])).tolist(), output.bag_log_probs.argmax(dim=1).tolist()
    ([1], [0])
    >>> counted_winners(BagOutput(torch.eye(2).log(), torch.zeros(1, 2)), Segments([2])).tolist()
    [0]
    >>> [counted_winners(output, Segments(sizes), background=1).tolist() for sizes in ([3], [1, 2])]
    [[0], [0, 1]]
    """
    classes = output.instance_log_probs.detach().argmax(dim=1, keepdim=True)
    cast = torch.zeros_like(output.instance_log_probs).scatter_(1, classes, 1.0)
    votes = segments.sum(segments.weigh(cast))  # (b, C)
    if background is not None:
        votes[:, background] = 1e-20  # more than no vote, less than one of any weight
    return votes.argmax(dim=1)


class Head(nn.Module):
    """Predicts the class of each instance and of each bag from the features of the instances."""

    sees_instance_labels: ClassVar[bool] = False  # True only for the two reference methods
    needs_bag: ClassVar[bool] = False  # True: the class of an instance depends on the rest of its bag
    uses_weights: ClassVar[bool] = False  # True: the bag prediction is that of weighted instances (`segments.weigh`)
    label_kinds: ClassVar[tuple[str, ...]] = (WINNER, SEVERAL)  # what labels may name; a head with its own loss: WINNER

    def __init_subclass__(cls, **options: Any) -> None:
        """A loss that does not say otherwise only knows labels that name the winner, and a prediction no weights."""
        super().__init_subclass__(**options)
        if {"forward", "count"} & cls.__dict__.keys() and "uses_weights" not in cls.__dict__:
            cls.uses_weights = False
        if "losses" in cls.__dict__ and "label_kinds" not in cls.__dict__:
            cls.label_kinds = (WINNER,)

    def see_labels(self, counts: Tensor, seconds: Tensor) -> None:
        """(C,), (C,): how many training bags have each class as their label, and as their runner-up."""

    def forward(self, features: Tensor, segments: Segments) -> BagOutput:
        """(n, in_features) float32 -> instance and bag log-probabilities."""
        raise NotImplementedError

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:  # (b,)
        """One loss per bag: the negative log-likelihood of its label."""
        return -winner_log_probs(output.bag_log_probs, target)


def winner_log_probs(log_probs: Tensor, target: Target) -> Tensor:  # (b, C) -> (b,)
    """The log-probability of what each label says of the winner: that it is this class, or one of several."""
    if target.allowed is None:
        return pick(log_probs, target.labels)
    return log_probs.masked_fill(~target.allowed, -torch.inf).logsumexp(dim=1)


def pick(values: Tensor, columns: Tensor) -> Tensor:
    """(n, C), (n,) -> (n,): the value of each row in its column."""
    return values.gather(1, columns.unsqueeze(1)).squeeze(1)
