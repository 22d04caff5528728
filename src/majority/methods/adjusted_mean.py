"""log-mean, given how often each class is a label: P(label y | bag) is in proportion to prior_y times mean_y.

Labels are no fair sample of the classes: with ties the lowest class wins, and a class that is often second hardly ever
wins. A plain mean explains a frequent label by more instances of its class; here the prior explains it. The correction
is that of Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, on bags in the place of instances.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..functional import vote_log_proportions
from ..segments import Segments
from .voting import Voting, without_column


class AdjustedMean(Voting):
    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)
        self.register_buffer("log_prior", torch.zeros(n_classes))

    def see_labels(self, counts: Tensor) -> None:
        """With one label more of each class: a class without any stays possible."""
        self.log_prior.copy_((counts + 1).log() - (counts + 1).sum().log())

    def classify(self, features: Tensor) -> Tensor:
        return self.classifier(features).log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor]:
        prior, phantom = self.log_prior, 0.0
        if self.background is not None:
            prior, phantom = without_column(prior.unsqueeze(0), self.background.index), self.background.phantom
        return ((vote_log_proportions(votes, segments, phantom) + prior).log_softmax(dim=1),)
