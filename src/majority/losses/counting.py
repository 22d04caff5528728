"""The counting network (Shiku et al., "Counting Network for Learning from Majority Label") and its ablations.

One formula with two temperatures: p = softmax(z / T1) is nearly one-hot if T1 is small, so that the sum of p over a bag
is a count; softmax(proportions / T2) predicts the winner.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from ..data.segments import Segments
from ..errors import InputError
from .functional import count_log_probs
from .voting import VotingLoss


class CountLoss(VotingLoss):
    """The counting network: -log softmax(mean of softmax(z / T1) over the bag / T2) at the label.

    With ``of="counts"``, as in the paper's text, the sum takes the place of the mean, which the published program has.

    >>> import torch
    >>> logits, bag_ids = torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), torch.tensor([0, 1, 0])
    >>> CountLoss()(logits, bag_ids, torch.tensor([0, 1]))
    tensor(4.5418e-05)
    >>> CountLoss(reduction="none")(logits, bag_ids, torch.tensor([1, -1]))
    tensor([10.0000,  0.0000])
    """

    uses_weights = True

    def __init__(
        self,
        instance_temperature: float = 0.1,  # T1
        bag_temperature: float | None = 0.1,  # T2; None: the proportions are the prediction
        of: str = "proportions",
        **common: Any,
    ):
        super().__init__(**common)
        if of not in ("proportions", "counts"):
            raise InputError(f"of={of!r}: use 'proportions' (the published program) or 'counts' (the paper's text)")
        if not (instance_temperature > 0 and (bag_temperature is None or bag_temperature > 0)):
            given = f"instance_temperature={instance_temperature}, bag_temperature={bag_temperature}"
            raise InputError(f"{given}: give numbers above 0")
        self.instance_temperature, self.bag_temperature, self.of = instance_temperature, bag_temperature, of

    def classify(self, logits: Tensor) -> Tensor:
        return (logits / self.instance_temperature).log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, None]:
        phantom = None if self.background is None else self.background.phantom
        return count_log_probs(votes, segments, self.bag_temperature, self.of, phantom), None


class SoftCountLoss(CountLoss):
    """The paper's "w/o Count": T1 = 1, so that confidences are summed, not counted.

    >>> import torch
    >>> SoftCountLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), torch.tensor([0]))
    tensor(0.2019)
    """

    def __init__(
        self,
        instance_temperature: float = 1.0,
        bag_temperature: float | None = 0.1,
        of: str = "proportions",
        **common: Any,
    ):
        super().__init__(instance_temperature, bag_temperature, of, **common)


class CountOnlyLoss(CountLoss):
    """The paper's "w/o Max class": no T2; the counted proportions are the prediction, -log(mean of softmax(z / T1)).

    >>> import torch
    >>> CountOnlyLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), torch.tensor([0]))
    tensor(0.6931)
    """

    def __init__(self, instance_temperature: float = 0.1, **common: Any):
        super().__init__(instance_temperature, None, **common)


class LogMeanLoss(CountLoss):
    """T1 = 1 and no T2: -log(mean of softmax(z) over the bag), the likelihood of a mixture.

    >>> import torch
    >>> LogMeanLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), torch.tensor([0]))
    tensor(0.5536)
    """

    def __init__(self, instance_temperature: float = 1.0, **common: Any):
        super().__init__(instance_temperature, None, **common)
