"""Output+Mean, a baseline of Shiku et al., "Counting Network for Learning from Majority Label", as published.

The prediction of a bag is the softmax of the mean confidence, q = softmax(mean softmax(z)), and the loss applies a
softmax to q once more: for ten classes it stays between 2.17 and 2.32. `log-mean` is the same idea with a likelihood.
"""

from __future__ import annotations

from torch import Tensor, nn

from ...data.batches import Target
from ...data.labels import SEVERAL, WINNER
from ...data.segments import Segments
from .base import BagOutput, Head, winner_log_probs


class OutputMean(Head):
    label_kinds, uses_weights = (WINNER, SEVERAL), True

    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)

    def forward(self, features: Tensor, segments: Segments) -> BagOutput:
        instances = self.classifier(features).log_softmax(dim=1)  # (n, C)
        return BagOutput(instances, segments.mean(segments.weigh(instances.exp())).log_softmax(dim=1))

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        q = output.bag_log_probs.exp()  # (b, C), used as logits
        return -winner_log_probs(q.log_softmax(dim=1), target)
