"""log-mean, given that labels are no fair sample of the classes.

With ties the lowest class wins, and a class that is often second hardly ever wins: classes differ more as labels than
as instances. A plain mean explains a frequent label by more instances of its class. Here the label y of a bag has a
probability in proportion to mean_y * f_y / e_y: f is how often each class is a label, e its expected share of all
instances, where a bag's winner holds the share w that it is seen to hold and the others hold the rest evenly,
e = w f + (1 - w)(1 - f) / (C - 1). Where winners hold nearly all, e is f, and what is left is log-mean.

The correction is that of Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, for bags.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..data.batches import Target
from ..data.segments import Segments
from .base import BagOutput, pick
from .functional import expected_shares, vote_log_proportions
from .voting import Voting, without_column

MOMENTUM = 0.95  # of the winners' share, over steps


class AdjustedMean(Voting):
    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)
        self.register_buffer("label_shares", torch.full((n_classes,), 1 / n_classes))
        self.register_buffer("winner_share", torch.tensor(1 / n_classes))

    def see_labels(self, counts: Tensor) -> None:
        """As if there were one more of each: a class that was never a label stays possible."""
        self.label_shares.copy_((counts + 1) / (counts + 1).sum())

    def classify(self, features: Tensor) -> Tensor:
        return self.classifier(features).log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor]:
        labels, phantom = self.label_shares, 0.0
        if self.background is not None:
            labels, phantom = without_column(labels.unsqueeze(0), self.background.index), self.background.phantom
            labels = labels / labels.sum()
        adjusted = labels.log() - expected_shares(labels, self.winner_share).log()
        return ((vote_log_proportions(votes, segments, phantom) + adjusted).log_softmax(dim=1),)

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        if self.training:
            with torch.no_grad():
                votes = segments.sum(output.instance_log_probs.exp())  # (b, K)
                if self.background is not None:
                    votes = votes / (1 - votes[:, self.background.index, None] / segments.counted[:, None]).clamp(1e-3)
                held = pick(votes, target.labels) / segments.counted
                self.winner_share.lerp_(held.mean(), 1 - MOMENTUM)
        return super().losses(output, segments, target)
