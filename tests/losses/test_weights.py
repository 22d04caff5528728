"""Weighted instances: every method against a reference that is written bag by bag, and unweighted bags as before."""

import math

import numpy as np
import pytest
import torch
from cases import each
from scipy.special import log_softmax
from scipy.stats import norm

from majority import Bags, InputError, Settings, build_model, fit
from majority.data.background import Background
from majority.data.loader import BagLoader
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.losses import BagOutput, VotingLoss
from majority.nn.heads import Head
from majority.nn.methods import METHODS, create_head

D, C = 5, 4
ABLE = [name for name, method in METHODS.items() if method.kind.uses_weights]
SIZES = {"ragged": [3, 1, 6], "equal": [4, 4]}


def reference(name, p, w, label_shares):
    """(size, C) probabilities and (size,) weights of one bag -> (C,) log-probabilities of its label."""
    w = w * len(w) / w.sum()
    shares = (w[:, None] * p).sum(axis=0) / len(w)
    if name in ("count", "soft-count"):
        return log_softmax(shares / 0.1)
    if name == "output-mean":
        return log_softmax(shares)
    if name == "adjusted-mean":
        share = 1 / C  # the expected share of a winner that a new head has
        expected = share * label_shares + (1 - share) * (1 - label_shares) / (C - 1)
        return log_softmax(np.log(shares) + np.log(label_shares) - np.log(expected))
    if name == "vote":
        scores = np.zeros(C)
        for y in range(C):
            for k in set(range(C)) - {y}:
                lead = (w * (p[:, y] - p[:, k])).sum()
                variance = (w**2 * (p[:, y] + p[:, k] - (p[:, y] - p[:, k]) ** 2)).sum()
                scores[y] += norm.logcdf(lead / math.sqrt(variance + 1e-6))
        return log_softmax(scores)
    return np.log(shares)


def make_head(name, **options):
    torch.manual_seed(0)
    head = create_head(name, D, C, **options).double().eval()
    torch.nn.init.normal_(head.classifier.weight)
    return head


@pytest.mark.parametrize("name", ABLE)
@each(sizes=SIZES.values(), dropped=(False, True))
def test_weighted_bags_against_a_reference(name, sizes, dropped):
    rng, head = np.random.default_rng(0), make_head(name)
    weights = np.exp(2 * rng.normal(size=sum(sizes)))
    keep = np.ones(sum(sizes), bool)
    if dropped:
        keep[np.cumsum(sizes) - np.array(sizes)] = np.array(sizes) == 1  # the first of each bag, if it has more
    segments = Segments(sizes, keep=torch.from_numpy(keep), weights=torch.from_numpy(weights))
    features = torch.from_numpy(rng.normal(size=(sum(sizes), D)))
    output = head(features, segments)
    p, start = output.instance_log_probs.exp().detach().numpy(), 0
    for bag, size in enumerate(sizes):
        rows = start + np.flatnonzero(keep[start : start + size])
        expected = reference(name, p[rows], weights[rows], np.full(C, 1 / C))
        np.testing.assert_allclose(output.bag_log_probs[bag].detach().numpy(), expected, rtol=1e-6, atol=1e-9)
        start += size
    scaled = head(features, Segments(sizes, keep=segments.keep, weights=segments.weights * 1000))
    torch.testing.assert_close(scaled.bag_log_probs, output.bag_log_probs)  # the unit of weights does not matter


@pytest.mark.parametrize("name", ABLE)
def test_an_instance_of_weight_two_is_two_instances(name):
    """Of the methods that are means; a vote of weight 2 is one draw, not two."""
    head = make_head(name)
    rows = torch.randn(3, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    once = Segments([3], weights=torch.tensor([2.0, 1.0, 1.0], dtype=torch.float64))
    twice = head(rows[[0, 0, 1, 2]], Segments([4])).bag_log_probs
    same = torch.allclose(head(rows, once).bag_log_probs, twice)
    assert same is (name != "vote")


@pytest.mark.parametrize("name", ABLE)
def test_equal_weights_change_nothing(name):
    head, sizes = make_head(name), [3, 1, 4]
    rows = torch.randn(8, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    truth = torch.randint(C, (8,), generator=torch.Generator().manual_seed(4))
    target = Target.of(torch.tensor([0, 3, 1]), C)._replace(instance_labels=truth)
    plain, weighted = Segments(sizes), Segments(sizes, weights=torch.full((8,), 7.0))
    one, other = head(rows, plain), head(rows, weighted)
    torch.testing.assert_close(other.bag_log_probs, one.bag_log_probs)
    torch.testing.assert_close(head.losses(other, weighted, target), head.losses(one, plain, target))


def test_without_weights_nothing_is_multiplied():
    rows = torch.ones(3, 2)
    assert Segments([2, 1]).weigh(rows) is rows
    assert Segments([2, 1]).weigh_logs(rows) is rows


def test_a_background_is_left_out_of_weighted_counts():
    head = create_head("log-mean", D, C, background=Background(1, phantom=0.0)).double().eval()
    rows = torch.randn(3, D, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    w = torch.tensor([5.0, 1.0, 0.5], dtype=torch.float64)
    output = head(rows, Segments([3], weights=w))
    sums = (w[:, None] * output.instance_log_probs.exp()).sum(dim=0)
    sums[1] = 0
    torch.testing.assert_close(output.bag_log_probs[0].exp(), sums / sums.sum())


def weighted_bags(weights=None, seed=0):
    rng = np.random.default_rng(seed)
    return Bags.from_lists(
        [rng.normal(size=(size, D)).astype("f") for size in (3, 2, 5, 4)], ["a", "b", "a", "b"], weights=weights
    )


@pytest.mark.parametrize("name", METHODS)
def test_a_method_follows_weights_or_says_that_it_cannot(name):
    bags = weighted_bags([np.arange(1, size + 1) for size in (3, 2, 5, 4)])
    if METHODS[name].kind.sees_instance_labels:
        bags.instance_labels = np.arange(14) % 2
    model = build_model(bags, name, "linear")
    if name in ABLE:
        assert fit(model, bags, bags, Settings(epochs=1), device="cpu").epochs == 1
        return
    with pytest.raises(InputError, match=f"weights, which method {name} cannot follow: use one of count, soft-count"):
        fit(model, bags, bags, Settings(epochs=1), device="cpu")


def test_a_subclass_that_counts_by_itself_must_declare_that_it_follows_weights():
    class Own(VotingLoss):
        def count(self, votes, segments):
            return votes, None

    class Told(Own):
        uses_weights = True

    class Plain(Head):
        def aggregate(self, features, segments):
            return BagOutput(features, features)

    assert not Own.uses_weights
    assert not Plain.uses_weights
    assert Told.uses_weights


def test_batches_have_the_weights_of_their_instances():
    """Also if a random part of a bag is taken; here, the first feature of an instance is its weight."""
    bags = weighted_bags([[1, 2, 3], [1, 1], [2, 5, 2, 4, 2], [1, 3, 1, 3]])
    bags.store[:, 0] = bags.weights
    for batch in BagLoader(bags, torch.device("cpu")).shuffled(2, np.random.default_rng(0), 3):
        expected = [of_bag / of_bag.mean() for of_bag in batch.instances[:, 0].split(batch.segments.sizes.tolist())]
        torch.testing.assert_close(batch.segments.scaled_weights, torch.cat(expected))
