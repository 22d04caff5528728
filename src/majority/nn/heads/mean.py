"""Heads whose bag prediction is the mean confidence of the instances. They differ in what the loss compares.

`Naive` is common practice: every instance gets the label of its bag. `Proportion` and `Supervised` are reference
methods: they see instance labels.
"""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.functional import one_hot

from ...data.batches import Target
from ...data.labels import KINDS
from ...data.segments import Segments
from ...losses.functional import mean_log_probs
from .base import BagOutput, Head, pick


class Mean(Head):
    uses_weights = True

    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)

    def forward(self, features: Tensor, segments: Segments) -> BagOutput:
        instances = self.classifier(features).log_softmax(dim=1)  # (n, C)
        return BagOutput(instances, mean_log_probs(instances, segments))


class Naive(Mean):
    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        return -segments.mean(segments.weigh(pick(output.instance_log_probs, segments.spread(target.labels))))


class Proportion(Mean):
    sees_instance_labels = True  # only as the true proportions of the bag
    label_kinds = KINDS  # its loss uses no bag label

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        assert target.instance_labels is not None
        classes = one_hot(target.instance_labels, output.bag_log_probs.shape[1]).to(output.bag_log_probs.dtype)
        return -(segments.mean(segments.weigh(classes)) * output.bag_log_probs).sum(dim=1)


class Supervised(Mean):
    sees_instance_labels = True
    label_kinds = KINDS

    def losses(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        assert target.instance_labels is not None
        return -segments.mean(pick(output.instance_log_probs, target.instance_labels))
