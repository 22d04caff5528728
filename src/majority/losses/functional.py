"""The formulas of the methods as pure functions of (values, segments).

Everything is computed in float32 or wider: bfloat16 cannot count beyond 256.

If instances have weights, each counts as its weight says. Weights are scaled to a mean of 1 per bag, so that formulas
are the same and the size of a bag is still its number of instances.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from ..data.segments import Segments


def bag_log_probs(
    logits: Tensor,
    bag_ids: Tensor,
    n_bags: int | None = None,
    instance_temperature: float = 0.1,
    bag_temperature: float | None = 0.1,
    of: str = "proportions",
    weights: Tensor | None = None,
) -> Tensor:
    """(n, C), (n,) -> (b, C): log-probabilities of each bag's class by the counting network.

    Without the number of bags, the largest of the ids is waited for.

    >>> bag_log_probs(torch.tensor([[2.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1])).argmax(dim=1).tolist()
    [0, 1]
    """
    segments = Segments.of_ids(bag_ids, n_bags, weights)
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    return count_log_probs((logits / instance_temperature).log_softmax(dim=1), segments, bag_temperature, of)


def count_classes(logits: Tensor, bag_ids: Tensor, n_bags: int | None = None, weights: Tensor | None = None) -> Tensor:
    """(n, C), (n,) -> (b, C): how many instances of each bag are predicted as each class, or the sum of their weights.

    The column with the highest count is the majority; `argmax` takes the first one on ties.

    >>> logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 3.0]])
    >>> count_classes(logits, torch.tensor([0, 1, 1]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    votes = one_vote_each(logits)
    return Segments.of_ids(bag_ids, n_bags).sum(votes if weights is None else votes * weights.to(votes).unsqueeze(1))


def one_vote_each(scores: Tensor) -> Tensor:
    """(n, C) logits or log-probabilities -> (n, C): 1 for the class with the highest score, in float32 or wider."""
    votes = torch.zeros_like(scores, dtype=torch.promote_types(scores.dtype, torch.float32))
    return votes.scatter_(1, scores.detach().argmax(dim=1, keepdim=True), 1.0)


def counted_winners(scores: Tensor, segments: Segments, background: int | None = None) -> Tensor:  # (b,)
    """The class with the most instances that are predicted as it; the first one wins ties.

    It may differ from the class that a loss predicts for the bag. A background does not vote; it is the answer only if
    no instance votes.

    >>> probs = torch.tensor([[0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    >>> counted_winners(probs, Segments([3])).tolist(), counted_winners(torch.eye(2), Segments([2])).tolist()
    ([1], [0])
    >>> [counted_winners(probs, Segments(sizes), background=1).tolist() for sizes in ([3], [1, 2])]
    [[0], [0, 1]]
    """
    votes = segments.sum(segments.weigh(one_vote_each(scores)))
    if background is not None:
        votes[:, background] = 1e-20  # more than no vote, less than one of any weight
    return votes.argmax(dim=1)


def winner_log_probs(log_probs: Tensor, allowed: Tensor) -> Tensor:  # (b, C), (b, C) -> (b,)
    """The log-probability of what each label says of the winner: that it is this class, or one of several.

    >>> probs = torch.tensor([[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])
    >>> winner_log_probs(probs.log(), torch.tensor([[True, False, False], [True, True, False]])).exp()
    tensor([0.2000, 0.5000])
    """
    return log_probs.masked_fill(~allowed, -torch.inf).logsumexp(dim=1)


def pick(values: Tensor, columns: Tensor) -> Tensor:
    """(n, C), (n,) -> (n,): the value of each row in its column."""
    return values.gather(1, columns.unsqueeze(1)).squeeze(1)


def count_log_probs(
    instance_log_probs: Tensor,
    segments: Segments,
    temperature: float | None,
    of: str = "proportions",
    phantom: float | None = None,
) -> Tensor:
    """(n, C) -> (b, C): log-probabilities of the bag's class from the soft counts N of its instances.

    With a temperature: log softmax(N / size / temperature), or log softmax(N / temperature) if ``of="counts"``.
    Without one: the log of the proportions N / size. With ``phantom`` votes, rows may sum to less than one (the rest
    does not vote), and the proportions are those of ``vote_log_proportions``.

    The example has the two instances of the paper's introduction. Their summed confidences (0.8, 0.6, 0.6) predict
    class 0, which neither instance has. Sharpened to nearly one-hot they can be counted, and class 0 is out.

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
    counts = segments.sum(segments.weigh(instance_log_probs.exp()))  # (b, C)
    if of == "proportions":
        counts = counts / segments.kept_sizes.unsqueeze(1)
    return (counts / temperature).log_softmax(dim=1)


def mean_log_probs(instance_log_probs: Tensor, segments: Segments) -> Tensor:
    """(n, C) -> (b, C): log of the (weighted) mean probability, also if a class is nearly impossible.

    >>> log_probs = torch.tensor([[0.0, -200.0], [0.0, -200.0], [-200.0, 0.0]])
    >>> mean_log_probs(log_probs, Segments([2, 1]))
    tensor([[   0., -200.],
            [-200.,    0.]])
    """
    sizes = segments.kept_sizes.to(instance_log_probs.dtype)
    return segments.logsumexp(segments.weigh_logs(instance_log_probs)) - sizes.log().unsqueeze(1)


def vote_log_proportions(vote_log_probs: Tensor, segments: Segments, phantom: float) -> Tensor:
    """(n, C) -> (b, C): log of each class's share of a bag's votes; rows may sum to less than one.

    The shares do not change if every instance votes a thousand times less. They cannot distinguish a bag of voters
    from a bag with hardly any. Phantom votes can: `phantom` times the size of the bag, spread evenly over the classes,
    leave a bag with few votes undecided.

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
        phantom_share = torch.full_like(log_shares, math.log(phantom / log_shares.shape[1]))
        log_shares = torch.logaddexp(log_shares, phantom_share)
    return log_shares.log_softmax(dim=1)


def share_divergence(instance_log_probs: Tensor, background: int, share: float) -> Tensor:
    """(n, K) -> (): Kullback-Leibler divergence of the given share from the mean probability q of the background.

    KL((share, 1 - share) || (q, 1 - q)) is 0 if q is the share. It grows without bound as q approaches 0 (all
    instances vote) or 1 (none does).

    >>> probs = torch.tensor([[0.6, 0.2, 0.2], [0.2, 0.4, 0.4]])
    >>> [round(share_divergence(probs.log(), background=0, share=s).item(), 4) for s in (0.4, 0.8)]
    [0.0, 0.3348]
    """
    log_n = math.log(len(instance_log_probs))
    log_masses = instance_log_probs.logsumexp(dim=0) - log_n  # (K,)
    voting = torch.cat([log_masses[:background], log_masses[background + 1 :]]).logsumexp(dim=0)
    entropy = share * math.log(share) + (1 - share) * math.log1p(-share)
    return entropy - share * log_masses[background] - (1 - share) * voting


def label_error_rates(named: Any, wrong: float, n_classes: int) -> tuple[Any, Any]:
    """How likely a label that names so many classes (a number, or an array of any kind) is wrong, and the likelihood of
    a wrong one, relative to a right one, if the share `wrong` of the labels that name one class is wrong.

    Some labels are drawn at random, whatever has won: a wrong label of one class is each of the other classes equally
    often, one that names more classes is wrong less often, and one that names all of them never.

    >>> [[round(rate, 3) for rate in label_error_rates(named, 0.1, 3)] for named in (1, 2)]
    [[0.1, 0.05], [0.05, 0.1]]
    """
    by_chance = wrong / max(n_classes - 1, 1)
    return by_chance * (n_classes - named), by_chance * named


def right_label_probs(label_log_probs: Tensor, wrong: float, n_classes: int, named: Tensor | int = 1) -> Tensor:
    """(b,) log-probabilities of what labels say, which name so many classes -> (b,) probability that each label is
    right: see `label_error_rates`.

    >>> right_label_probs(torch.tensor([0.9, 0.5, 0.01]).log(), wrong=0.2, n_classes=3)
    tensor([0.9863, 0.8889, 0.0748])
    """
    rates, by_chance = label_error_rates(named, wrong, n_classes)
    probs = label_log_probs.exp()
    right = (1 - rates) * probs
    return right / (right + by_chance * (1 - probs))


def tolerant_losses(label_log_probs: Tensor, wrong: float, n_classes: int, named: Tensor | int = 1) -> Tensor:
    """(b,) log-probabilities of what labels say, which name so many classes -> (b,) negative log-likelihood of the
    labels if some are wrong: see `label_error_rates`. It has an upper limit, which a label that the bag contradicts
    comes near to.

    >>> tolerant_losses(torch.tensor([0.9, 0.5, 0.01]).log(), wrong=0.2, n_classes=3)
    tensor([0.3147, 0.7985, 2.2349])
    """
    rates, by_chance = label_error_rates(named, wrong, n_classes)
    return -torch.log((1 - rates - by_chance) * label_log_probs.exp() + by_chance)


def runner_up_log_probs(log_probs: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """(b, C) log-probabilities of the winner, (b,), (b,) -> (b,): log-probability of the runner-up, given the winner.

    The runner-up is the winner if the first class is left out: p_second / (1 - p_first). This is the model of Plackett
    and Luce. If p are the shares of the classes, it is as if instances were drawn one by one: the first one names the
    winner, and the first one of another class the runner-up.

    >>> shares = torch.tensor([[0.5, 0.3, 0.2]])
    >>> runner_up_log_probs(shares.log(), torch.tensor([0]), torch.tensor([1])).exp()
    tensor([0.6000])
    """
    others = log_probs.scatter(1, first.unsqueeze(1), -torch.inf).log_softmax(dim=1)
    return others.gather(1, second.unsqueeze(1)).squeeze(1)


def runner_up_worths(firsts: Tensor, seconds: Tensor, rounds: int = 100) -> Tensor:
    """(C,), (C,) share of bags in which each class is first, and second -> (C,) worths h, which sum to 1.

    If class y is first, class c is second with probability h_c / (1 - h_y), and so over all bags as often as given.
    A class that usually wins has few bags in which it could be second: its worth is larger than its share of seconds.

    >>> runner_up_worths(torch.tensor([0.8, 0.1, 0.1]), torch.tensor([0.14, 0.43, 0.43]))
    tensor([0.5385, 0.2308, 0.2308])
    """
    worths = seconds
    for _ in range(rounds):  # a fixed point
        odds = firsts / (1 - worths).clamp(min=1e-6)
        found = seconds / (odds.sum() - odds)
        worths = (worths + found / found.sum()) / 2
    return worths


def expected_shares(label_shares: Tensor, winner_share: Tensor | float) -> Tensor:
    """(..., C) share of bags with each label -> (..., C) expected share of instances of each class.

    The winner of a bag is assumed to hold `winner_share` of it; over all bags, the other classes share the rest evenly.

    >>> expected_shares(torch.tensor([0.5, 0.5, 0.0]), 0.6)
    tensor([0.4000, 0.4000, 0.2000])
    """
    others = max(label_shares.shape[-1] - 1, 1)
    return winner_share * label_shares + (1 - winner_share) * (1 - label_shares) / others


def vote_scores(instance_log_probs: Tensor, segments: Segments) -> Tensor:
    """(n, C) -> (b, C): log-likelihood that each class wins if every instance casts one random vote.

    Votes are independent draws from the probabilities p of the instances. The lead of y over a rival k has
    mean sum(p_y - p_k) and variance sum(p_y (1 - p_y) + p_k (1 - p_k) + 2 p_y p_k): no term is negative, so nothing
    cancels. With leads treated as normal and rivals as independent, the score is the sum of log Phi(mean / sd).

    >>> probs = torch.tensor([[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.1, 0.8, 0.1]])
    >>> vote_scores(probs.log(), Segments([3])).softmax(dim=1)
    tensor([[0.7505, 0.2294, 0.0201]])
    """
    return vote_log_wins(instance_log_probs, segments).sum(dim=2)


def vote_log_wins(instance_log_probs: Tensor, segments: Segments) -> Tensor:
    """(n, C) -> (b, C, C): log-probability that each class (dim 1) has more votes than each rival (dim 2); 0 for
    itself. The votes are those of `vote_scores`."""
    p = instance_log_probs.exp()
    counts = segments.sum(segments.weigh(p))  # (b, C)
    variances = segments.sum(segments.weigh(segments.weigh(p * (1 - p))))  # (b, C) of the count of each class
    lead = counts.unsqueeze(2) - counts.unsqueeze(1)  # (b, C, C)
    variance = variances.unsqueeze(2) + variances.unsqueeze(1) + 2 * segments.gram(segments.weigh(p)) + 1e-6
    log_win = log_ndtr(lead / variance.sqrt())  # (b, C, C) against each rival
    diagonal = torch.eye(p.shape[1], dtype=torch.bool, device=p.device)
    return log_win.masked_fill(diagonal, 0.0)


def log_ndtr(z: Tensor) -> Tensor:
    """log Phi(z), with a gradient that is exact for every z.

    The gradient of torch.special.log_ndtr is a difference of squares of z: noise or NaN below about -1,000 in float32.

    >>> z = torch.tensor([0.0, -1e4], requires_grad=True)
    >>> log_ndtr(z).sum().backward()
    >>> z.grad
    tensor([7.9788e-01, 1.0000e+04])
    """
    return _LogNdtr.apply(z)  # type: ignore[no-untyped-call]  # torch does not annotate it


class _LogNdtr(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return torch.special.log_ndtr(z)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        return gradient * (math.sqrt(2 / math.pi) / torch.special.erfcx(z * -math.sqrt(0.5)))
