"""VotingLoss: losses that count the votes of instances. A background class does not vote and is not counted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..data.background import Background
from ..data.labels import KINDS
from ..data.segments import Segments
from ..data.targets import Target
from ..errors import InputError
from .base import BagLoss, BagOutput
from .functional import runner_up_log_probs, share_divergence, winner_log_probs
from .inputs import Inputs, may_read, names_class


class VotingLoss(BagLoss):
    """A subclass defines `count`. ``background`` is the class that does not vote, by its number."""

    uses_weights, label_kinds = True, KINDS

    def __init__(self, *, background: Background | int | None = None, **common: Any):
        super().__init__(**common)
        self.background = Background(background) if isinstance(background, int) else background

    def _check(self, given: Inputs) -> None:
        super()._check(given)
        if self.background is None:
            return
        index, classes = self.background.index, given.logits.shape[1]
        if not 0 <= index < classes:
            raise InputError(f"background is {index}: give a class from 0 to {classes - 1}")
        if may_read(given.logits, self.check) and names_class(given.labels, given.runner_up, index):
            raise InputError(f"a bag is labelled {index}, the background, which cannot win: leave that bag out")

    def classify(self, logits: Tensor) -> Tensor:  # (n, K) -> (n, K) log-probabilities
        return logits.log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, Tensor | None]:
        """(n, C) log-probabilities of the votes -> (b, C) bag log-probabilities, and (b, C) scores or None.

        With a background, rows sum to less than one: the rest does not vote.
        """
        raise NotImplementedError

    def predict(self, logits: Tensor, segments: Segments) -> BagOutput:
        instances = self.classify(logits)
        if self.background is None:
            return BagOutput(instances, *self.count(instances, segments))
        column = self.background.index
        bags, scores = self.count(without_column(instances, column), segments)
        scores = None if scores is None else with_impossible_column(scores, column)
        return BagOutput(instances, with_impossible_column(bags, column), scores)

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        """The negative log-likelihood of the label, with its runner-up if it has one, and, if the share of the
        background is given, its prior.

        The prior is on the share among all instances of the batch: single bags may differ.
        """
        scores = output.bag_log_probs if output.bag_scores is None else output.bag_scores
        losses = -winner_log_probs(scores, target.allowed)
        if target.runner_up is not None:
            given, second = target.runner_up.any(dim=1), target.runner_up.int().argmax(dim=1)
            losses = losses - torch.where(given, self.runner_up(output, segments, target.labels, second), 0.0)
        background = self.background
        if background is None or background.share is None:
            return losses
        return losses + share_divergence(output.instance_log_probs, background.index, background.share)

    def runner_up(self, output: BagOutput, segments: Segments, first: Tensor, second: Tensor) -> Tensor:
        """(b,) winners and runners-up -> (b,) log-probability of the runner-up, given the winner."""
        return runner_up_log_probs(output.bag_log_probs, first, second)


def without_column(values: Tensor, column: int) -> Tensor:  # (n, K) -> (n, K - 1)
    return torch.cat([values[:, :column], values[:, column + 1 :]], dim=1)


def with_impossible_column(values: Tensor, column: int) -> Tensor:  # (b, K - 1) -> (b, K), -inf in that column
    impossible = values.new_full((len(values), 1), -torch.inf)
    return torch.cat([values[:, :column], impossible, values[:, column:]], dim=1)
