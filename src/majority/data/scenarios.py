"""Bags of labelled instances with chosen majority proportions: the paper's Small, Various and Large, or any range.

The majority proportion m of a bag is uniform in one of ten equal strata of the range. The other C - 1 proportions are
uniform on {0 <= p_j <= m, sum = 1 - m}. Counts are size * p, rounded by largest remainder.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError
from .bags import Bags
from .columns import Column, check_lengths
from .instance_labels import UNKNOWN, encode_labels
from .labels import BagLabels
from .proportions import round_counts, sample_proportions
from .stores import Store
from .validation import as_weights
from .winners import runner_up_of

SCENARIOS: dict[str, tuple[float | None, float]] = {
    "small": (None, 0.4),
    "various": (None, 1.0),
    "large": (0.6, 1.0),
}  # None: 1/C
STRATA = 10
MAX_TRIES = 1000  # to draw a bag that is not tied
BACKGROUND_SHARES = (0.0, 0.6)
TIES = ("lowest", "resample", "error")
LABELS = ("winner", "top2")  # what bag labels say


def majority_range(scenario: str | tuple[float, float], n_classes: int, size: int) -> tuple[float, float]:
    """Return the lowest and highest majority proportion of a scenario: a name, "LOW,HIGH" or (low, high).

    The low end is at least 1/C: a majority cannot be smaller.

    >>> majority_range("small", n_classes=10, size=64)
    (0.1, 0.4)
    >>> majority_range("0.3,0.5", n_classes=10, size=64)
    (0.3, 0.5)
    """
    if n_classes < 2:
        raise InputError(f"{n_classes} classes are too few for a majority: give at least 2")
    name, low, high = _parse_scenario(scenario)
    low = max(low or 0, 1 / n_classes)
    fewest = max(-(-size // n_classes), int(np.ceil(low * size - 1e-9)))
    if size < 1 or high <= low or fewest > high * size + 1e-9:
        what = f"no bag of {size} has a majority proportion in {name} ({low:g} to {high:g}) with {n_classes} classes"
        raise InputError(f"{what}: use larger bags, or another range, such as various")
    return low, high


def winner_weights(ratio: float, n_classes: int) -> np.ndarray:  # (C,)
    """Return a geometric `winner_prior`: the first class wins `ratio` times as often as the last.

    >>> winner_weights(9, n_classes=3).round(9).tolist()
    [1.0, 0.333333333, 0.111111111]
    """
    if not 1 <= ratio < np.inf:
        raise InputError(f"a winner ratio of {ratio:g}: give 1 (all classes win equally often) or more")
    return ratio ** -np.linspace(0, 1, n_classes)


def make_bags(
    store: Store | Column,  # (N, ...)
    labels: Column,  # (N,) class names or class numbers
    classes: Sequence[str],
    *,
    n_bags: int,
    size: int,
    scenario: str | tuple[float, float] = "various",
    rng: np.random.Generator,
    positions: np.ndarray | None = None,  # in the store, of the instances that may be drawn
    part: str = "data",  # for messages
    winner_prior: ArrayLike | None = None,  # one weight per class that can win
    background: str | None = None,  # a class that does not vote
    background_shares: tuple[float, float] = BACKGROUND_SHARES,  # of a bag: uniform from low to high
    shared: bool = True,
    with_replacement: bool = False,
    ties: str = "lowest",
    labels_say: str = "winner",
    weights: Column | None = None,  # (N,) of the instances, above 0
) -> Bags:
    """Draw bags of one size from labelled instances. The store is not copied.

    Winners are independent draws from `winner_prior` (default: uniform). A bag has no instance twice unless
    `with_replacement` is set. Bags are drawn independently of each other unless `shared` is False: then every instance
    is in at most one bag. If several classes have the top count, `ties` decides:

    - "lowest": the label is the lowest class number among them, as published. Classes with low numbers are
      then labels more often than the prior says: about a fifth of the bags are tied in scenario small with 64 instances
      and ten classes.
    - "resample": a tied bag gets a new majority from the same stratum and new proportions for the same winner.
    - "error": a tie raises an InputError.

    `labels_say` is "winner", or "top2": bags get a second label, their second most common class. On ties it is the
    lowest class number; it is missing if all instances that vote are of one class.

    With `weights`, bags are drawn as without them, and the label is the class with the largest sum of weights: the
    scenario describes numbers of instances.

    With a `background`, each bag gets a random share of that class. The scenario then describes its other instances,
    the voters, and the label is their most common class.

    >>> store, labels = np.zeros((300, 2)), np.arange(300) % 3
    >>> bags = make_bags(store, labels, "abc", n_bags=20, size=10, scenario="large", rng=np.random.default_rng(0))
    >>> bags
    Bags(20 bags of 10, 200 instances of shape (2,), classes: a, b, c)
    >>> bool((bags.class_counts().argmax(axis=1) == bags.labels).all())
    True
    """
    for what, chosen, known in (("ties", ties, TIES), ("labels_say", labels_say, LABELS)):
        if chosen not in known:
            raise InputError(f"{what}={chosen!r} is unknown: use one of {', '.join(known)}")
    if with_replacement and not shared:
        raise InputError("with_replacement repeats instances and shared=False forbids it: choose one of them")
    if n_bags < 1:
        raise InputError(f"{n_bags} bags are too few: give at least 1")
    voting = np.arange(len(classes))
    voters: int | np.ndarray = size  # per bag; (b,) if some instances do not vote
    if background is not None:
        if background not in classes:
            raise InputError(f"background {background!r} is not a class: use one of {', '.join(classes)}")
        voting = np.array([c for c, name in enumerate(classes) if name != background])
        voters = size - _draw_background(n_bags, size, background_shares, rng)
    n_classes = len(voting)
    limits = majority_range(scenario, n_classes, int(np.min(voters)))
    prior = np.ones(n_classes) if winner_prior is None else np.asarray(winner_prior, dtype=float)
    check_lengths({"labels": labels, "weights": weights}, len(store), "instance")
    codes = encode_labels(labels, classes, lambda i: f"instance {i}")
    drawable = np.arange(len(store)) if positions is None else positions
    counts = _draw_counts(n_bags, voters, n_classes, limits, ties, rng)  # (b, C), the winner's first
    winners = rng.choice(n_classes, size=n_bags, p=prior / prior.sum())
    keys = rng.random((n_bags, n_classes))
    keys[np.arange(n_bags), winners] = -1  # the winner is first in its bag's order of classes
    votes = np.empty_like(counts)
    np.put_along_axis(votes, keys.argsort(axis=1), counts, axis=1)
    class_counts = np.tile((size - votes.sum(axis=1))[:, None], len(classes))  # (b, classes), those of the background
    class_counts[:, voting] = votes
    pools = [drawable[codes[drawable] == c] for c in range(len(classes))]
    _check_enough(class_counts, pools, classes, part, shared, with_replacement)
    index = _draw_instances(class_counts, pools, shared, with_replacement, rng)  # (b, size)
    drawn = codes[index.ravel()]
    drawn_weights = None if weights is None else as_weights(weights, lambda i: f"instance {i}")[index.ravel()]
    bags = Bags(
        store,
        index.ravel(),
        np.arange(n_bags + 1) * size,
        np.zeros(n_bags, np.int64),
        classes,
        instance_labels=drawn,
        weights=drawn_weights,
    )
    votes = bags.count_classes(drawn, len(classes), weighted=True)[:, voting]
    seconds = None
    if labels_say == "top2":
        second = runner_up_of(votes)
        seconds = np.where(votes[np.arange(n_bags), second] > 0, voting[second], UNKNOWN)
    bags = bags._with(bag_labels=BagLabels.of(voting[votes.argmax(axis=1)], len(classes), seconds))
    return bags if background is None else bags.with_background(background)


def make_labels_wrong(bags: Bags, share: float, rng: np.random.Generator) -> Bags:
    """Return the same bags, this share of them with another label, each of the other classes equally often.

    The number of bags is rounded. The runner-up of a bag whose label is changed is left out. A background is no label.

    >>> bags = Bags.from_lists([np.zeros((1, 2))] * 10, labels=["a", "b"] * 5)
    >>> wrong = make_labels_wrong(bags, 0.3, np.random.default_rng(0))
    >>> int((wrong.labels != bags.labels).sum())
    3
    """
    if not 0 <= share <= 1:
        raise InputError(f"a share of {share:g} wrong labels: give a number from 0 to 1")
    if not bags.bag_labels.named.all():
        raise InputError(f"{bags.describe(int(np.argmin(bags.bag_labels.named)))} has no label of one class to change")
    winners = bags.voting_classes
    which = rng.permutation(len(bags))[: round(share * len(bags))]
    labels = bags.labels.copy()
    places = np.searchsorted(winners, labels[which]) + rng.integers(1, len(winners), len(which))
    labels[which] = winners[places % len(winners)]
    wrong = BagLabels.of(labels[which], len(bags.classes))
    return bags._with(bag_labels=bags.bag_labels.with_others(which, wrong))


def _draw_counts(
    n_bags: int,
    size: int | np.ndarray,
    n_classes: int,
    limits: tuple[float, float],
    ties: str,
    rng: np.random.Generator,
) -> np.ndarray:  # (b, C), the top count in column 0
    low, high = limits
    sizes = np.broadcast_to(size, n_bags)
    strata = rng.permutation(np.arange(n_bags) * STRATA // n_bags)

    def draw(rows: slice | np.ndarray) -> np.ndarray:
        majorities = low + (high - low) * (strata[rows] + rng.random(len(strata[rows]))) / STRATA
        return round_counts(sample_proportions(np.minimum(majorities, 1), n_classes, rng), sizes[rows])

    def tied_rows(counts: np.ndarray) -> np.ndarray:
        return np.flatnonzero(counts[:, 1:].max(axis=1) == counts[:, 0])

    counts = draw(slice(None))
    tied = tied_rows(counts)
    for _ in range(MAX_TRIES if ties == "resample" else 0):
        if len(tied) == 0:
            break
        counts[tied] = draw(tied)
        tied = tied[tied_rows(counts[tied])]
    if len(tied) and ties != "lowest":
        what = f"{len(tied)} of {n_bags} bags of {sizes.min()} are tied, whatever is drawn (majority proportions"
        raise InputError(f"{what} {low:g} to {high:g}): use larger bags, another range, or ties='lowest'")
    return counts


def _draw_background(n_bags: int, size: int, shares: tuple[float, float], rng: np.random.Generator) -> np.ndarray:
    """Return how many instances of each bag (b,) are background."""
    low, high = shares
    if not 0 <= low <= high < 1 or round(high * size) >= size:
        what = f"background shares from {low:g} to {high:g} of bags of {size}"
        raise InputError(f"{what}: use 0 <= LOW <= HIGH < 1, so that some instances vote")
    return np.rint(size * rng.uniform(low, high, size=n_bags)).astype(np.int64)


def _draw_instances(
    class_counts: np.ndarray, pools: list[np.ndarray], shared: bool, with_replacement: bool, rng: np.random.Generator
) -> np.ndarray:  # (b, size) positions in the store
    drawn = []
    for pool, needs in zip(pools, class_counts.T, strict=True):
        if shared and not with_replacement:
            drawn += [rng.choice(pool, need, replace=False) for need in needs[needs > 0]]
        elif needs.any():
            drawn.append(rng.choice(pool, needs.sum(), replace=with_replacement))
    bag_of_drawn = np.repeat(np.tile(np.arange(len(class_counts)), len(pools)), class_counts.T.ravel())
    bag_by_bag = np.concatenate(drawn)[np.argsort(bag_of_drawn, kind="stable")]
    return rng.permuted(bag_by_bag.reshape(len(class_counts), -1), axis=1)


def _check_enough(
    class_counts: np.ndarray,
    pools: list[np.ndarray],
    classes: Sequence[str],
    part: str,
    shared: bool,
    with_replacement: bool,
) -> None:
    for name, pool, needs in zip(classes, pools, class_counts.T, strict=True):
        need, have = int(needs.max() if shared else needs.sum()), len(pool)
        if need <= have or (with_replacement and have):
            continue
        what = f"class {name} has {have} instances in {part}, {'one bag needs' if shared else 'all bags need'} {need}"
        raise InputError(f"{what}: use smaller or fewer bags, --with-replacement, or leave the class out")


def _parse_scenario(scenario: str | tuple[float, float]) -> tuple[str, float | None, float]:
    if isinstance(scenario, str) and scenario in SCENARIOS:
        return scenario, *SCENARIOS[scenario]
    try:
        low, high = (float(end) for end in (scenario.split(",") if isinstance(scenario, str) else scenario))
    except (TypeError, ValueError):
        known = ", ".join(SCENARIOS)
        raise InputError(f"scenario {scenario!r} is unknown: use {known} or LOW,HIGH, e.g. 0.3,0.5") from None
    if not 0 <= low < high <= 1:
        raise InputError(f"{low:g},{high:g} is not a range of proportions: use 0 <= LOW < HIGH <= 1")
    return f"{low:g},{high:g}", low, high
