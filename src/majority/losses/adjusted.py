"""adjusted-mean: log-mean, corrected because labels are not a fair sample of the classes.

With ties the lowest class wins, and a class that is often second rarely wins: classes differ more in frequency as
labels than as instances. A plain mean explains a frequent label by more instances of its class.

The correction is that of Menon et al., "Long-tail learning via logit adjustment", ICLR 2021, for bags.
"""

from __future__ import annotations

from typing import Any

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ..data.labels import KINDS
from ..data.segments import Segments
from ..data.targets import Target
from .base import BagOutput
from .functional import expected_shares, pick, runner_up_log_probs, runner_up_worths, vote_log_proportions
from .voting import VotingLoss

MOMENTUM = 0.95  # of the running mean of the winners' share, per step


class AdjustedMeanLoss(VotingLoss):
    """-log of mean_y * f_y / e_y, normalised over the classes y, with mean = mean of softmax(z) over the bag.

    f is the share of bags with each label and e the expected share of all instances of each class,
    e = w f + (1 - w)(1 - f) / (C - 1). This assumes that the winner of a bag holds the share w, which is estimated in
    training, and that the other classes share the rest evenly. If winners hold nearly all of their bags, e equals f and
    the method equals log-mean.

    Given the winner, the probability of the runner-up k is proportional to mean_k * h_k, where the worths h are such
    that each class is second as often as in the training bags. There is no e, because the other classes share the rest
    evenly.

    ``label_counts`` (C,) says how many training bags have each label, `bags.bag_labels.counts`. The loss has a state:
    save it with the network, and call ``.eval()`` for validation bags.

    >>> loss_fn = AdjustedMeanLoss(label_counts=torch.tensor([30, 10]))
    >>> loss_fn(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), torch.tensor([0]))
    tensor(0.2330)
    """

    uses_weights, label_kinds = True, KINDS
    label_shares: Tensor  # (C,) share of training bags with each label
    winner_share: Tensor  # () mean share of a bag that its winner holds
    runner_up_worths: Tensor  # (C,) how often classes are second, given the winner; only losses use it

    def __init__(self, *, label_counts: ArrayLike, runner_up_counts: ArrayLike = 0.0, **common: Any):
        super().__init__(**common)
        counts = torch.as_tensor(label_counts)
        even = torch.full((len(counts),), 1 / len(counts))
        self.register_buffer("label_shares", even)
        self.register_buffer("winner_share", even[0].clone())
        self.register_buffer("runner_up_worths", even.clone(), persistent=False)
        self.see_labels(counts, torch.as_tensor(runner_up_counts))

    @classmethod
    def for_classes(cls, n_classes: int, **options: Any) -> AdjustedMeanLoss:
        return cls(label_counts=torch.zeros(n_classes), **options)

    def see_labels(self, counts: Tensor, seconds: Tensor) -> None:
        """Add-one smoothing: a class that was never a label stays possible."""
        smoothed = [(number.expand(counts.shape).to(self.label_shares.dtype) + 1) for number in (counts, seconds)]
        label_shares, second_shares = (numbers / numbers.sum() for numbers in smoothed)
        self.label_shares.copy_(label_shares)
        self.runner_up_worths.copy_(runner_up_worths(label_shares, second_shares))

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, None]:
        labels, phantom = self.voters(self.label_shares.unsqueeze(0)), 0.0
        if self.background is not None:
            labels, phantom = labels / labels.sum(), self.background.phantom
        adjustment = labels.log() - expected_shares(labels, self.winner_share).log()
        return (vote_log_proportions(votes, segments, phantom) + adjustment).log_softmax(dim=1), None

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        if self.training:
            with torch.no_grad():
                self._follow(output, segments, target)
        return super().compute(output, segments, target)

    def _follow(self, output: BagOutput, segments: Segments, target: Target) -> None:
        """Update the share that winners hold, by the bags with one label."""
        votes = segments.sum(segments.weigh(output.instance_log_probs.exp()))  # (b, K)
        sizes = segments.kept_sizes  # (b,)
        if self.background is not None:
            votes = votes / (1 - votes[:, self.background.index, None] / sizes[:, None]).clamp(1e-3)
        named = target.allowed.sum(dim=1) == 1
        shares = torch.where(named, pick(votes, target.labels) / sizes, 0.0)
        mean = (shares.sum() / named.sum().clamp(min=1)).to(self.winner_share)
        self.winner_share.lerp_(torch.where(named.any(), mean, self.winner_share), 1 - MOMENTUM)

    def runner_up(self, output: BagOutput, segments: Segments, first: Tensor, second: Tensor) -> Tensor:
        phantom = 0.0 if self.background is None else self.background.phantom
        shares = vote_log_proportions(self.voters(output.instance_log_probs), segments, phantom)
        return runner_up_log_probs(self.with_background(shares) + self.runner_up_worths.log(), first, second)
