"""VotingLoss: losses that count the votes of instances. A background class does not vote and is not counted."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ..data.background import Background
from ..data.labels import KINDS
from ..data.segments import Segments
from ..data.targets import Target
from .base import BagLoss, BagOutput
from .functional import runner_up_log_probs, share_divergence, winner_log_probs


class VotingLoss(BagLoss):
    """A subclass defines `count`. ``background`` is the class that does not vote, by its number; no
    bag may have it as its label."""

    uses_weights, label_kinds = True, KINDS

    def __init__(self, *, background: Background | int | None = None, **common: Any):
        super().__init__(**common)
        self.background = Background(background) if isinstance(background, int) else background

    def classify(self, logits: Tensor) -> Tensor:  # (n, K) -> (n, K) log-probabilities
        return logits.log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, Tensor | None]:
        """(n, C) log-probabilities of the votes -> (b, C) bag log-probabilities, and (b, C) scores or None.

        With a background, rows sum to less than one: the rest does not vote.
        """
        raise NotImplementedError

    def predict(self, logits: Tensor, segments: Segments) -> BagOutput:
        instances = self.classify(logits)
        bags, scores = self.count(self.voters(instances), segments)
        return BagOutput(
            instances, self.with_background(bags), None if scores is None else self.with_background(scores)
        )

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

    def voters(self, values: Tensor) -> Tensor:
        """(n, K) -> (n, C): the columns of the classes that vote."""
        if self.background is None:
            return values
        column = self.background.index
        return torch.cat([values[:, :column], values[:, column + 1 :]], dim=1)

    def with_background(self, values: Tensor) -> Tensor:
        """(b, C) -> (b, K): with a column of -inf for the class that does not vote."""
        if self.background is None:
            return values
        column, impossible = self.background.index, values.new_full((len(values), 1), -torch.inf)
        return torch.cat([values[:, :column], impossible, values[:, column:]], dim=1)
