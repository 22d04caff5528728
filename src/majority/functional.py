"""The formulas, pure, on (values, segments). Everything is float32 or wider: bf16 cannot count past 256."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .segments import Segments

HIGHEST_RAISE, RAISE_STEPS = 32.0, 24  # of a label's log-odds; halvings of that


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


def contrastive_losses(first: Tensor, second: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Two views (n, d) of n instances -> (n,) loss, the mean over both views, and (n,) whether the first view's
    nearest neighbour is the second.

    By cosine similarity s, -s(own pair) / T + log sum exp(s(any other) / T): the pair itself is no part of the sum.
    """
    n = len(first)
    views = torch.nn.functional.normalize(torch.cat([first, second]), dim=1)
    similarity = views @ views.T / temperature  # (2n, 2n)
    pairs = torch.cat([similarity.diagonal(n), similarity.diagonal(-n)])  # (2n,)
    number = torch.arange(2 * n, device=views.device) % n
    others = similarity.masked_fill(number.unsqueeze(0) == number.unsqueeze(1), -torch.inf)
    losses = others.logsumexp(dim=1) - pairs
    nearest = pairs[:n] > others[:n].amax(dim=1)
    return losses.view(2, n).mean(dim=0), nearest


def consistent(instance_log_probs: Tensor, segments: Segments, labels: Tensor, background: int | None = None) -> Tensor:
    """(n, C), (b,) -> (n, C): the same beliefs, given that in each bag the label has most votes.

    Where another class leads a bag's summed probabilities, the odds of the label are raised by one factor for all of
    the bag's instances, the smallest at which none leads it any more. Bags without a contradiction stay as they are.
    A background does not vote: it may be more than the label.

    >>> beliefs = torch.tensor([[0.9, 0.1], [0.6, 0.4]])
    >>> consistent(beliefs.log(), Segments([2]), torch.tensor([1])).exp().sum(dim=0)
    tensor([1.0000, 1.0000])
    >>> torch.equal(consistent(beliefs.log(), Segments([2]), torch.tensor([0])), beliefs.log())
    True
    """
    of_label = torch.nn.functional.one_hot(labels, instance_log_probs.shape[1]).bool()  # (b, C)
    on_rows = segments.spread(of_label)
    no_rival = of_label.clone()
    if background is not None:
        no_rival[:, background] = True

    def raised(by: Tensor) -> Tensor:  # (b,) log-factors -> (n, C)
        rows = segments.spread(by).unsqueeze(1)
        return torch.where(on_rows, instance_log_probs + rows, instance_log_probs).log_softmax(dim=1)

    def leads(log_probs: Tensor) -> Tensor:  # (b,) whether no other class has more
        counts = segments.sum(log_probs.exp())
        others = counts.masked_fill(no_rival, -torch.inf).amax(dim=1)
        return counts.masked_fill(~of_label, 0).sum(dim=1) >= others

    low = torch.zeros_like(labels, dtype=instance_log_probs.dtype)
    high = low + HIGHEST_RAISE
    for _ in range(RAISE_STEPS):
        middle = (low + high) / 2
        enough = leads(raised(middle))
        low, high = torch.where(enough, low, middle), torch.where(enough, middle, high)
    as_it_is = segments.spread(leads(instance_log_probs)).unsqueeze(1)
    return torch.where(as_it_is, instance_log_probs, raised(high))


def certain(probabilities: Tensor, confidence: float) -> Tensor:
    """(n, C) -> (n, C): the most probable class of each row as if it were certain, 0 for rows that are less confident.

    >>> certain(torch.tensor([[0.1, 0.9], [0.4, 0.6]]), 0.8)
    tensor([[0., 1.],
            [0., 0.]])
    """
    highest, which = probabilities.max(dim=1, keepdim=True)
    return torch.zeros_like(probabilities).scatter(1, which, (highest >= confidence).to(probabilities.dtype))


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
