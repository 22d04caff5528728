"""vote: a likelihood without temperatures. Each instance casts a random vote by its confidences; the label must win."""

from __future__ import annotations

from torch import Tensor, nn

from ..data.segments import Segments
from .functional import vote_scores
from .voting import Voting


class Vote(Voting):
    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)

    def classify(self, features: Tensor) -> Tensor:
        return self.classifier(features).log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
        scores = vote_scores(votes, segments)  # (b, C)
        return scores.log_softmax(dim=1), scores
