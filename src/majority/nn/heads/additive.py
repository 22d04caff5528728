"""AdditiveMIL (Javed et al., "Additive MIL: Intrinsically Interpretable Multiple Instance Learning", NeurIPS 2022).

The feature of each instance, scaled by its attention within the bag, passes through an MLP. The logits of the bag are
the sum over its instances; the class of an instance is predicted from its own term of that sum. In training, batch
norm runs over all instances of the batch.
"""

from __future__ import annotations

from torch import Tensor, nn

from ...data.segments import Segments
from ...losses import BagOutput
from ..backbones.norm import BatchNorm1d
from .base import Head

HIDDEN = 256


class Additive(Head):
    needs_bag = True

    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.score = nn.Sequential(
            *(nn.Linear(in_features, HIDDEN), BatchNorm1d(HIDDEN), nn.LeakyReLU(0.2)),
            *(nn.Linear(HIDDEN, HIDDEN), BatchNorm1d(HIDDEN), nn.LeakyReLU(0.2)),
            nn.Linear(HIDDEN, 1),
        )
        self.classifier = nn.Sequential(
            *(nn.Linear(in_features, HIDDEN), nn.ReLU()),
            *(nn.Linear(HIDDEN, HIDDEN), nn.ReLU()),
            nn.Linear(HIDDEN, n_classes),
        )

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        weights = segments.softmax(self.score(features))  # (n, 1)
        logits = self.classifier(weights * features)  # (n, C)
        return BagOutput(logits.log_softmax(dim=1), segments.sum(logits).log_softmax(dim=1))
