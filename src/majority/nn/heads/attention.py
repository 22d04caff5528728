"""Feature+Attention (Ilse et al., "Attention-based Deep Multiple Instance Learning", ICML 2018).

The feature of a bag is the attention-weighted sum of the features of its instances. One linear classifier is applied
to it and to the feature of each instance.
"""

from __future__ import annotations

from torch import Tensor, nn

from ...data.segments import Segments
from ...losses import BagOutput
from .base import Head

HIDDEN = 128


class Attention(Head):
    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.score = nn.Sequential(nn.Linear(in_features, HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, 1))
        self.classifier = nn.Linear(in_features, n_classes)

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        weights = segments.softmax(self.score(features))  # (n, 1)
        pooled = segments.sum(weights * features)  # (b, d)
        return BagOutput(self.classifier(features).log_softmax(dim=1), self.classifier(pooled).log_softmax(dim=1))
