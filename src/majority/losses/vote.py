"""vote: a likelihood without temperatures. Each instance casts a random vote by its confidences; the label must win."""

from __future__ import annotations

from torch import Tensor

from ..data.segments import Segments
from .base import BagOutput
from .functional import pick, vote_log_wins
from .voting import VotingLoss


class VoteLoss(VotingLoss):
    """The negative log-likelihood that the label has more votes than each rival, if every instance casts one random
    vote by p = softmax(z): - sum over k of log Phi((N_y - N_k) / sd(N_y - N_k)), with rivals treated as independent.

    >>> import torch
    >>> VoteLoss()(torch.tensor([[2.0, 0.0], [0.0, 1.0], [3.0, 0.0]]), torch.tensor([0, 0, 0]), torch.tensor([0]))
    tensor(0.1663)
    """

    uses_weights = True

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
        scores = vote_log_wins(votes, segments).sum(dim=2)  # (b, C)
        return scores.log_softmax(dim=1), scores

    def runner_up(self, output: BagOutput, segments: Segments, first: Tensor, second: Tensor) -> Tensor:
        """The runner-up has more votes than every class but the winner, with rivals treated as independent."""
        if self.background is not None:
            first, second = (numbers - (numbers > self.background.index).long() for numbers in (first, second))
        wins = vote_log_wins(self.voters(output.instance_log_probs), segments)  # (b, C, C)
        of_second = wins.gather(1, second.view(-1, 1, 1).expand(-1, 1, wins.shape[2])).squeeze(1)
        return of_second.sum(dim=1) - pick(of_second, first)
