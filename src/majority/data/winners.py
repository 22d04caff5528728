"""Which class wins a bag: the one with the most votes, and on ties the first of them. A background does not vote.

`counted_winners` in losses/functional.py is the same rule for the predictions of a batch, on its device.
"""

from __future__ import annotations

import numpy as np


def voter_counts(counts: np.ndarray, background: int | None) -> np.ndarray:  # (b, K) -> (b, K), 0 at the background
    if background is None:
        return counts
    return np.where(np.arange(counts.shape[1]) == background, 0, counts)


def majority_of(counts: np.ndarray, background: int | None = None) -> np.ndarray:
    """(b, K) instances of each class -> (b,) the class with the most votes; the first one wins ties.

    A bag without votes has no majority: its class is the background.

    >>> majority_of(np.array([[9, 1, 2], [9, 0, 0]]), background=0).tolist()
    [2, 0]
    """
    votes = voter_counts(counts, background)
    winners = votes.argmax(axis=1)
    return winners if background is None else np.where(votes.any(axis=1), winners, background)


def runner_up_of(counts: np.ndarray, background: int | None = None) -> np.ndarray:
    """(b, K) instances of each class -> (b,) the class with the second most votes; the first one wins ties.

    >>> runner_up_of(np.array([[9, 1, 2, 1], [9, 0, 4, 4]]), background=0).tolist()
    [1, 3]
    """
    votes = voter_counts(counts, background).copy()
    np.put_along_axis(votes, votes.argmax(axis=1)[:, None], -1, axis=1)
    if background is not None:
        votes[:, background] = -1
    return votes.argmax(axis=1)


def lead_of(counts: np.ndarray, background: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(b, K) instances of each class -> (b,) the majority's share of the votes, and (b,) its lead over the runner-up.

    Both are 0 in a bag without votes.

    >>> share, margin = lead_of(np.array([[9, 1, 3], [9, 0, 0]]), background=0)
    >>> share.tolist(), margin.tolist()
    ([0.75, 0.0], [0.5, 0.0])
    """
    votes = voter_counts(counts, background)
    runner_up, top = np.sort(np.pad(votes, ((0, 0), (1, 0))), axis=1)[:, -2:].T
    total = votes.sum(axis=1)
    voters = np.where(total > 0, total, 1)
    return top / voters, (top - runner_up) / voters
