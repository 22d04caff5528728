"""vote: a likelihood without temperatures. Each instance casts a random vote by its confidences; the label must win."""

from __future__ import annotations

from torch import Tensor, nn

from ...data.segments import Segments
from ...losses.functional import vote_log_wins, vote_scores
from .base import BagOutput, pick
from .voting_head import VotingHead, without_column


class Vote(VotingHead):
    uses_weights = True

    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.classifier = nn.Linear(in_features, n_classes)

    def classify(self, features: Tensor) -> Tensor:
        return self.classifier(features).log_softmax(dim=1)

    def count(self, votes: Tensor, segments: Segments) -> tuple[Tensor, Tensor]:
        scores = vote_scores(votes, segments)  # (b, C)
        return scores.log_softmax(dim=1), scores

    def runner_up(self, output: BagOutput, segments: Segments, first: Tensor, second: Tensor) -> Tensor:
        """The runner-up has more votes than every class but the winner, with rivals treated as independent."""
        votes, background = output.instance_log_probs, self.background
        if background is not None:
            votes = without_column(votes, background.index)
            first, second = (numbers - (numbers > background.index).long() for numbers in (first, second))
        wins = vote_log_wins(votes, segments)  # (b, C, C)
        of_second = wins.gather(1, second.view(-1, 1, 1).expand(-1, 1, wins.shape[2])).squeeze(1)
        return of_second.sum(dim=1) - pick(of_second, first)
