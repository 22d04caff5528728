"""The formulas, pure, on (values, segments). Everything is float32 or wider: bf16 cannot count past 256."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..data.segments import Segments


def count_log_probs(
    instance_log_probs: Tensor,
    segments: Segments,
    temperature: float | None,
    of: str = "proportions",
    phantom: float | None = None,
) -> Tensor:
    """(n, C) -> (b, C): the bag's class from its instances' soft counts N.

    With a temperature, log softmax(N / size / temperature), or of N / temperature where ``of="counts"``;
    without one, the log of the proportions themselves. With ``phantom`` votes, rows may sum to less than one
    (the rest does not vote) and proportions are those of ``vote_log_proportions``.

    The two instances of the paper's introduction: their summed confidences (0.8, 0.6, 0.6) name class 0,
    which neither instance has. Sharpened to near one-hot they can be counted, and class 0 is out.

    >>> confidences = torch.tensor([[0.4, 0.5, 0.1], [0.4, 0.1, 0.5]])
    >>> two = Segments([2])
    >>> count_log_probs(confidences.log(), two, None).argmax().item()
    0
    >>> sharp = (confidences.log() / 0.1).log_softmax(dim=1)
    >>> two.sum(sharp.exp())
    tensor([[0.1939, 0.9030, 0.9030]])
    >>> count_log_probs(sharp, two, 0.1).argmax().item() == 0
    False
    """
    if phantom is not None and (temperature is None or of == "proportions"):
        log_proportions = vote_log_proportions(instance_log_probs, segments, phantom)
        return log_proportions if temperature is None else (log_proportions.exp() / temperature).log_softmax(dim=1)
    if temperature is None:
        return mean_log_probs(instance_log_probs, segments)
    counts = segments.sum(instance_log_probs.exp())  # (b, C)
    if of == "proportions":
        counts = counts / segments.counted.unsqueeze(1)
    return (counts / temperature).log_softmax(dim=1)


def mean_log_probs(instance_log_probs: Tensor, segments: Segments) -> Tensor:
    """(n, C) -> (b, C): log of the mean probability, stable where a class is next to impossible."""
    return segments.logsumexp(instance_log_probs) - segments.counted.to(instance_log_probs.dtype).log().unsqueeze(1)


def vote_log_proportions(vote_log_probs: Tensor, segments: Segments, phantom: float) -> Tensor:
    """(n, C) -> (b, C): log of each class's share of a bag's votes, where rows sum to less than one.

    The shares of what votes do not change when every instance votes a thousand times less, so they cannot tell
    a bag of voters from one of next to none. Phantom votes can: `phantom` times the bag's size, spread evenly over
    the classes, make a bag in which few vote undecided.

    >>> votes = torch.tensor([[0.6, 0.2], [0.2, 0.2]])
    >>> two = Segments([2])
    >>> few = votes / 100
    >>> [vote_log_proportions(p.log(), two, phantom=0.0).exp()[0, 0].item() for p in (votes, few)]
    [0.666..., 0.666...]
    >>> [vote_log_proportions(p.log(), two, phantom=0.5).exp()[0, 0].item() for p in (votes, few)]
    [0.590..., 0.501...]
    """
    log_shares = mean_log_probs(vote_log_probs, segments)
    if phantom > 0:
        each = torch.full_like(log_shares, math.log(phantom / log_shares.shape[1]))
        log_shares = torch.logaddexp(log_shares, each)
    return log_shares.log_softmax(dim=1)


def share_divergence(instance_log_probs: Tensor, background: int, share: float) -> Tensor:
    """(n, K) -> (): Kullback-Leibler divergence of a given share from the mean probability q of the background.

    KL((share, 1 - share) || (q, 1 - q)) grows without bound as q nears 0 or 1: nobody votes, everybody votes.
    """
    log_n = math.log(len(instance_log_probs))
    log_masses = instance_log_probs.logsumexp(dim=0) - log_n  # (K,)
    voting = torch.cat([log_masses[:background], log_masses[background + 1 :]]).logsumexp(dim=0)
    entropy = share * math.log(share) + (1 - share) * math.log1p(-share)
    return entropy - share * log_masses[background] - (1 - share) * voting


def expected_shares(label_shares: Tensor, winner_share: Tensor | float) -> Tensor:
    """(..., C) shares of bags that have each label -> (..., C) shares of all instances that are of each class.

    Where a bag's winner holds `winner_share` of it and the other classes, over all bags, hold the rest evenly.

    >>> expected_shares(torch.tensor([0.5, 0.5, 0.0]), 0.6)
    tensor([0.4000, 0.4000, 0.2000])
    """
    others = max(label_shares.shape[-1] - 1, 1)
    return winner_share * label_shares + (1 - winner_share) * (1 - label_shares) / others


def vote_scores(instance_log_probs: Tensor, segments: Segments) -> Tensor:
    """(n, C) -> (b, C): log-likelihood that each class wins when every instance casts one random vote.

    Votes are independent draws from the instances' probabilities p. The lead of y over a rival k has
    mean sum(p_y - p_k) and variance sum(p_y (1 - p_y) + p_k (1 - p_k) + 2 p_y p_k) (all terms positive,
    so nothing cancels); taken as normal, and rivals as independent, the score sums log Phi(mean / sd).
    """
    p = instance_log_probs.exp()
    counts = segments.sum(p)  # (b, C)
    own = segments.sum(p * (1 - p))  # (b, C)
    lead = counts.unsqueeze(2) - counts.unsqueeze(1)  # (b, C, C)
    variance = own.unsqueeze(2) + own.unsqueeze(1) + 2 * segments.gram(p) + 1e-6
    against = _LogNdtr.apply(lead / variance.sqrt())
    itself = torch.eye(p.shape[1], dtype=torch.bool, device=p.device)
    return against.masked_fill(itself, 0.0).sum(dim=2)


class _LogNdtr(torch.autograd.Function):
    """log Phi(z). torch's own gradient is a difference of squares of z: noise or NaN below about -1,000 in float32."""

    @staticmethod
    def forward(ctx, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return torch.special.log_ndtr(z)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return gradient * (math.sqrt(2 / math.pi) / torch.special.erfcx(z * -math.sqrt(0.5)))
