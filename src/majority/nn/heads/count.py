"""The counting network (Shiku et al., "Counting Network for Learning from Majority Label") and its ablations.

One formula with two temperatures: p = softmax(z / T1) is nearly one-hot, so that the sum of p over a bag is a count;
softmax(proportions / T2) predicts the winner. (0.1, 0.1) is the paper's network, (1, 0.1) its "w/o Count", (0.1, none)
its "w/o Max class", and (1, none) the plain mean of the confidences.
"""

from __future__ import annotations

from torch import Tensor, nn

from ...data.segments import Segments
from ...losses.functional import count_log_probs
from .voting_head import VotingHead


class Count(VotingHead):
    uses_weights = True

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        instance_temperature: float = 0.1,  # T1
        bag_temperature: float | None = 0.1,  # T2; None: the proportions are the prediction
        of: str = "proportions",  # as in the published program; "counts": raw counts, as in the paper's text
    ):
        super().__init__()
        if of not in ("proportions", "counts"):
            raise ValueError(f"of={of!r}: use 'proportions' (the published program) or 'counts' (the paper's text)")
        temperatures = {"instance_temperature": instance_temperature}
        temperatures |= {} if bag_temperature is None else {"bag_temperature": bag_temperature}
        for name, value in temperatures.items():
            if value is None or not value > 0:
                raise ValueError(f"{name} is {value}: it must be above 0")
        self.instance_temperature, self.bag_temperature, self.of = instance_temperature, bag_temperature, of
        self.classifier = nn.Linear(in_features, n_classes)

    def classify(self, features: Tensor) -> Tensor:
        return (self.classifier(features) / self.instance_temperature).log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, None]:
        phantom = None if self.background is None else self.background.phantom
        return count_log_probs(votes, segments, self.bag_temperature, self.of, phantom), None
