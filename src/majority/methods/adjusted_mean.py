"""adjusted-mean: log-mean, corrected because labels are not a fair sample of the classes.

With ties the lowest class wins, and a class that is often second rarely wins: classes differ more in frequency as
labels than as instances. A plain mean explains a frequent label by more instances of its class. Here, the probability
of label y is proportional to mean_y * f_y / e_y, where f is the share of bags with each label and e the expected share
of all instances of each class, e = w f + (1 - w)(1 - f) / (C - 1). This assumes that the winner of a bag holds the
share w, which is estimated in training, and that the other classes share the rest evenly. If winners hold nearly all
of their bags, e equals f and the method equals log-mean.

Runners-up are corrected in the same way, with the share of bags in which each class is second in place of f.

The correction is that of Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, for bags.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..data.batches import Target
from ..data.labels import KINDS
from ..data.segments import Segments
from .base import BagOutput, pick
from .functional import expected_shares, runner_up_log_probs, vote_log_proportions
from .voting_head import VotingHead, with_impossible_column, without_column

MOMENTUM = 0.95  # of the running mean of the winners' share, per step


class AdjustedMean(VotingHead):
    label_kinds, uses_weights = KINDS, True
    label_shares: Tensor  # (C,) share of training bags with each label
    second_shares: Tensor  # (C,) share of training bags with each runner-up; not in files, because only losses use it
    winner_share: Tensor  # () mean share of a bag that its winner holds

    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)
        self.register_buffer("label_shares", torch.full((n_classes,), 1 / n_classes))
        self.register_buffer("second_shares", torch.full((n_classes,), 1 / n_classes), persistent=False)
        self.register_buffer("winner_share", torch.tensor(1 / n_classes))

    def see_labels(self, counts: Tensor, seconds: Tensor) -> None:
        """Add-one smoothing: a class that was never a label stays possible."""
        self.label_shares.copy_((counts + 1) / (counts + 1).sum())
        self.second_shares.copy_((seconds + 1) / (seconds + 1).sum())

    def classify(self, features: Tensor) -> Tensor:
        return self.classifier(features).log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, None]:
        return self._corrected(votes, segments, self.label_shares).log_softmax(dim=1), None

    def _corrected(self, votes: Tensor, segments: Segments, named: Tensor) -> Tensor:  # (n, C), (K,) -> (b, C)
        """Log-shares of the votes, corrected for how often classes are named; up to a constant of each bag."""
        labels, phantom = self.label_shares, 0.0
        if self.background is not None:
            labels, named = (without_column(row.unsqueeze(0), self.background.index) for row in (labels, named))
            labels, phantom = labels / labels.sum(), self.background.phantom
        shares = vote_log_proportions(votes, segments, phantom)
        return shares + named.log() - expected_shares(labels, self.winner_share).log()

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
            return runner_up_log_probs(self._corrected(votes, segments, self.second_shares), first, second)
        shares = self._corrected(without_column(votes, background.index), segments, self.second_shares)
        return runner_up_log_probs(with_impossible_column(shares, background.index), first, second)
