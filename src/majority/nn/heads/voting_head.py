"""VotingHead: heads that classify each instance and count the votes. A background class is not counted."""

from __future__ import annotations

import torch
from torch import Tensor

from ...data.background import Background
from ...data.batches import Target
from ...data.labels import KINDS
from ...data.segments import Segments
from ...losses.functional import runner_up_log_probs, share_divergence
from .base import BagOutput, Head, winner_log_probs


class VotingHead(Head):
    """A subclass defines `classify` and `count`. `create_head` sets `background`."""

    label_kinds = KINDS
    background: Background | None = None

    def classify(self, features: Tensor) -> Tensor:  # (n, in_features) -> (n, K) log-probabilities
        raise NotImplementedError

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, Tensor | None]:
        """(n, C) log-probabilities of the votes -> (b, C) bag log-probabilities, and (b, C) scores or None.

        With a background, rows sum to less than one: the rest does not vote.
        """
        raise NotImplementedError

    def forward(self, features: Tensor, segments: Segments) -> BagOutput:
        instances = self.classify(features)  # (n, K)
        if self.background is None:
            return BagOutput(instances, *self.count(instances, segments))
        column = self.background.index
        bags, scores = self.count(without_column(instances, column), segments)
        scores = None if scores is None else with_impossible_column(scores, column)
        return BagOutput(instances, with_impossible_column(bags, column), scores)

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        """The negative log-likelihood of the label, with its runner-up if it has one, and, if the share of the
        background is given, its prior.

        The prior is on the share among all instances of the batch: single bags may differ.
        """
        scores = output.bag_log_probs if output.bag_scores is None else output.bag_scores
        losses = -winner_log_probs(scores, target)
        if target.seconds is not None:
            given = target.seconds >= 0
            first, second = (numbers.clamp(min=0) for numbers in (target.labels, target.seconds))
            losses = losses - torch.where(given, self.runner_up(output, segments, first, second), 0.0)
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
