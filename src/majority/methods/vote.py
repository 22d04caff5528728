"""vote: a likelihood without temperatures. Each instance votes at random by its confidences; the label must win."""

from __future__ import annotations

from torch import Tensor, nn

from ..functional import vote_scores
from ..segments import Segments
from .base import BagOutput, Head, Target, pick


class Vote(Head):
    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)

    def forward(self, features: Tensor, segments: Segments) -> BagOutput:
        instances = self.classifier(features).log_softmax(dim=1)  # (n, C)
        scores = vote_scores(instances, segments)  # (b, C)
        return BagOutput(instances, scores.log_softmax(dim=1), scores)

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        return -pick(output.bag_scores, target.labels)
