"""adjusted-mean: log-mean, corrected because labels are not a fair sample of the classes.

With ties the lowest class wins, and a class that is often second rarely wins: classes differ more in frequency as
labels than as instances. A plain mean explains a frequent label by more instances of its class. Here, the probability
of label y is proportional to mean_y * f_y / e_y, where f is the share of bags with each label and e the expected share
of all instances of each class, e = w f + (1 - w)(1 - f) / (C - 1). This assumes that the winner of a bag holds the
share w, which is estimated in training, and that the other classes share the rest evenly. If winners hold nearly all
of their bags, e equals f and the method equals log-mean.

Given the winner, the probability of the runner-up k is proportional to mean_k * h_k, where the worths h are such that
each class is second as often as in the training bags. There is no e, because the other classes share the rest evenly.

The correction is that of Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, for bags.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ...data.batches import Target
from ...data.labels import KINDS
from ...data.segments import Segments
from ...losses.functional import expected_shares, runner_up_log_probs, runner_up_worths, vote_log_proportions
from .base import BagOutput, pick
from .voting_head import VotingHead, with_impossible_column, without_column

MOMENTUM = 0.95  # of the running mean of the winners' share, per step


class AdjustedMean(VotingHead):
    label_kinds, uses_weights = KINDS, True
    label_shares: Tensor  # (C,) share of training bags with each label
    runner_up_worths: Tensor  # (C,) how often classes are second, given the winner; not in files: only losses use it
    winner_share: Tensor  # () mean share of a bag that its winner holds

    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)
        self.register_buffer("label_shares", torch.full((n_classes,), 1 / n_classes))
        self.register_buffer("runner_up_worths", torch.full((n_classes,), 1 / n_classes), persistent=False)
        self.register_buffer("winner_share", torch.tensor(1 / n_classes))

    def see_labels(self, counts: Tensor, seconds: Tensor) -> None:
        """Add-one smoothing: a class that was never a label stays possible."""
        label_shares, second_shares = ((number + 1) / (number + 1).sum() for number in (counts, seconds))
        self.label_shares.copy_(label_shares)
        self.runner_up_worths.copy_(runner_up_worths(label_shares, second_shares))

    def classify(self, features: Tensor) -> Tensor:
        return self.classifier(features).log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, None]:
        labels, phantom = self.label_shares, 0.0
        if self.background is not None:
            labels, phantom = without_column(labels.unsqueeze(0), self.background.index), self.background.phantom
            labels = labels / labels.sum()
        adjustment = labels.log() - expected_shares(labels, self.winner_share).log()
        return (vote_log_proportions(votes, segments, phantom) + adjustment).log_softmax(dim=1), None

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        if self.training:
            with torch.no_grad():
                votes = segments.sum(segments.weigh(output.instance_log_probs.exp()))  # (b, K)
                sizes = segments.kept_sizes  # (b,)
                if self.background is not None:
                    votes = votes / (1 - votes[:, self.background.index, None] / sizes[:, None]).clamp(1e-3)
                if target.allowed is None:
                    shares = pick(votes, target.labels) / sizes
                    self.winner_share.lerp_(shares.mean(), 1 - MOMENTUM)
                else:  # only of the bags whose label names one winner
                    named = target.labels >= 0
                    shares = torch.where(named, pick(votes, target.labels.clamp(min=0)) / sizes, 0.0)
                    mean = shares.sum() / named.sum().clamp(min=1)
                    self.winner_share.lerp_(torch.where(named.any(), mean, self.winner_share), 1 - MOMENTUM)
        return super().losses(output, segments, target)

    def runner_up(self, output: BagOutput, segments: Segments, first: Tensor, second: Tensor) -> Tensor:
        votes, background = output.instance_log_probs, self.background
        if background is None:
            shares = vote_log_proportions(votes, segments, 0.0)
        else:
            voting = vote_log_proportions(without_column(votes, background.index), segments, background.phantom)
            shares = with_impossible_column(voting, background.index)
        return runner_up_log_probs(shares + self.runner_up_worths.log(), first, second)
