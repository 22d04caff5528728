"""Losses whose bag prediction is the mean confidence of the instances. They differ in what is compared with it.

`NaiveLoss` is common practice: every instance gets the label of its bag. `ProportionLoss` and `SupervisedLoss` are
reference methods: they see instance labels, the first one only as the true proportions of each bag.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import one_hot

from ..data.labels import KINDS, SEVERAL, WINNER
from ..data.segments import Segments
from ..data.targets import Target
from ..errors import InputError
from .base import BagLoss, BagOutput
from .functional import mean_log_probs, pick, winner_log_probs


class MeanLoss(BagLoss):
    uses_weights = True

    def predict(self, logits: Tensor, segments: Segments) -> BagOutput:
        instances = logits.log_softmax(dim=1)  # (n, C)
        return BagOutput(instances, mean_log_probs(instances, segments))


class NaiveLoss(MeanLoss):
    """Cross-entropy of every instance with the label of its bag.

    >>> import torch
    >>> NaiveLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), torch.tensor([0]))
    tensor(0.7201)
    """

    label_kinds = (WINNER,)

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        return -segments.mean(segments.weigh(pick(output.instance_log_probs, segments.spread(target.labels))))


class OutputMeanLoss(BagLoss):
    """Output+Mean, a baseline of Shiku et al., "Counting Network for Learning from Majority Label", as published.

    The prediction of a bag is q = softmax(mean softmax(z)), and the loss applies a softmax to q once more: for ten
    classes it stays between 2.17 and 2.32. `LogMeanLoss` is the same idea with a likelihood.

    >>> import torch
    >>> OutputMeanLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), torch.tensor([0]))
    tensor(0.6565)
    """

    uses_weights = True
    label_kinds = (WINNER, SEVERAL)

    def predict(self, logits: Tensor, segments: Segments) -> BagOutput:
        instances = logits.log_softmax(dim=1)  # (n, C)
        return BagOutput(instances, segments.mean(segments.weigh(instances.exp())).log_softmax(dim=1))

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        q = output.bag_log_probs.exp()  # (b, C), used as logits
        return -winner_log_probs(q.log_softmax(dim=1), target.allowed)


class ProportionLoss(MeanLoss):
    """Cross-entropy of the mean confidence with the true proportions of the bag: learning from label proportions.

    Its labels are proportions (b, C); a bag whose row is 0 has none.

    >>> import torch
    >>> logits, bag_ids = torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0])
    >>> ProportionLoss()(logits, bag_ids, torch.tensor([[0.5, 0.5]]))
    tensor(0.7045)
    """

    sees_instance_labels = True
    label_kinds = KINDS  # it uses no bag label

    def read_labels(self, labels: Tensor, runner_up: Tensor | None, classes: int) -> Target:
        if labels.ndim != 2 or not labels.is_floating_point():
            raise InputError("ProportionLoss takes proportions of shape (bags, classes) as labels")
        return super().read_labels(labels > 0, None, classes)._replace(proportions=labels)

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        proportions, log_probs = target.proportions, output.bag_log_probs
        if proportions is None:
            assert target.instance_labels is not None
            classes = one_hot(target.instance_labels, log_probs.shape[1]).to(log_probs.dtype)
            proportions = segments.mean(segments.weigh(classes))
        return -(proportions.to(log_probs) * log_probs).sum(dim=1)


class SupervisedLoss(MeanLoss):
    """Cross-entropy of every instance with its own label: all labels, for comparison. Our own loop alone can use it."""

    sees_instance_labels = True
    label_kinds = KINDS

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        assert target.instance_labels is not None
        return -segments.mean(pick(output.instance_log_probs, target.instance_labels))
