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
from .voting import VotingLoss, with_impossible_column, without_column

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

    ``label_counts`` (C,) says how many training bags have each label, `bags.bag_labels.counts`; without it, labels are
    counted as they come. The loss has a state: save it with the network, and call ``.eval()`` for validation bags.

    >>> loss_fn = AdjustedMeanLoss(label_counts=torch.tensor([30, 10]))
    >>> loss_fn(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 0]), torch.tensor([0]))
    tensor(0.2330)
    """

    uses_weights, label_kinds = True, KINDS
    label_shares: Tensor  # (C,) share of training bags with each label
    runner_up_worths: Tensor  # (C,) how often classes are second, given the winner; only losses use it
    winner_share: Tensor  # () mean share of a bag that its winner holds
    seen: Tensor | None  # (C,) bags with each label so far; None: label_counts were given

    def __init__(
        self, *, label_counts: ArrayLike | None = None, runner_up_counts: ArrayLike | None = None, **common: Any
    ):
        super().__init__(**common)
        for name in ("label_shares", "winner_share", "seen", "runner_up_worths"):
            self.register_buffer(name, None, persistent=name != "runner_up_worths")
        if label_counts is not None:
            counts = torch.as_tensor(label_counts)
            self._start(torch.zeros(len(counts)))
            self.see_labels(counts, torch.as_tensor(0.0 if runner_up_counts is None else runner_up_counts))

    @classmethod
    def for_classes(cls, n_classes: int, **options: Any) -> AdjustedMeanLoss:
        return cls(label_counts=torch.zeros(n_classes), **options)

    def _start(self, like: Tensor) -> None:  # (C,)
        """All classes are equally frequent."""
        even = torch.full_like(like, 1 / len(like))
        self.label_shares, self.runner_up_worths, self.winner_share = even, even.clone(), even[0].clone()
        self.seen = torch.zeros_like(like)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        shares = state_dict.get(f"{prefix}label_shares")
        if self.label_shares is None and shares is not None:  # that of a loss which has counted labels
            self._start(shares)
        super()._load_from_state_dict(state_dict, prefix, *args)

    def see_labels(self, counts: Tensor, seconds: Tensor) -> None:
        """Add-one smoothing: a class that was never a label stays possible."""
        self.seen = None
        label_shares, second_shares = (self._smoothed(number.expand(counts.shape)) for number in (counts, seconds))
        self.label_shares.copy_(label_shares)
        self.runner_up_worths.copy_(runner_up_worths(label_shares, second_shares))

    def _smoothed(self, counts: Tensor) -> Tensor:  # (C,) -> (C,) shares
        counts = counts.to(self.label_shares.dtype) + 1
        return counts / counts.sum()

    def predict(self, logits: Tensor, segments: Segments) -> BagOutput:
        if self.label_shares is None:
            self._start(logits[0].detach())
        return super().predict(logits, segments)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, None]:
        labels, phantom = self.label_shares, 0.0
        if self.background is not None:
            labels, phantom = without_column(labels.unsqueeze(0), self.background.index), self.background.phantom
            labels = labels / labels.sum()
        adjustment = labels.log() - expected_shares(labels, self.winner_share).log()
        return (vote_log_proportions(votes, segments, phantom) + adjustment).log_softmax(dim=1), None

    def compute(self, output: BagOutput, segments: Segments, target: Target) -> Tensor:
        if self.training:
            with torch.no_grad():
                self._follow(output, segments, target)
        return super().compute(output, segments, target)

    def _follow(self, output: BagOutput, segments: Segments, target: Target) -> None:
        """Update the share that winners hold, and how often each class is a label, by the bags with one label."""
        votes = segments.sum(segments.weigh(output.instance_log_probs.exp()))  # (b, K)
        sizes = segments.kept_sizes  # (b,)
        if self.background is not None:
            votes = votes / (1 - votes[:, self.background.index, None] / sizes[:, None]).clamp(1e-3)
        named = target.allowed.sum(dim=1) == 1
        shares = torch.where(named, pick(votes, target.labels) / sizes, 0.0)
        mean = (shares.sum() / named.sum().clamp(min=1)).to(self.winner_share)
        self.winner_share.lerp_(torch.where(named.any(), mean, self.winner_share), 1 - MOMENTUM)
        if self.seen is not None:
            self.seen.add_((target.allowed & named.unsqueeze(1)).sum(dim=0))
            self.label_shares.copy_(self._smoothed(self.seen))

    def runner_up(self, output: BagOutput, segments: Segments, first: Tensor, second: Tensor) -> Tensor:
        votes, background = output.instance_log_probs, self.background
        if background is None:
            shares = vote_log_proportions(votes, segments, 0.0)
        else:
            voting = vote_log_proportions(without_column(votes, background.index), segments, background.phantom)
            shares = with_impossible_column(voting, background.index)
        return runner_up_log_probs(shares + self.runner_up_worths.log(), first, second)
