"""The formulas on packed log-probabilities, each against a loop over bags in numpy, in float64."""

import math

import numpy as np
import pytest
import torch
from scipy.special import log_softmax
from scipy.stats import norm

from majority.data.labels import BagLabels
from majority.data.segments import Segments
from majority.losses import functional
from majority.losses.functional import count_log_probs, mean_log_probs, right_label_probs, tolerant_losses, vote_scores
from majority.predict.label_likelihood import wrong_rates


def random_log_probs(sizes, n_classes=5, scale=3.0, seed=0):
    return log_softmax(scale * np.random.default_rng(seed).normal(size=(sum(sizes), n_classes)), axis=1)


def test_vote_of_two_classes_is_the_probability_to_win():
    """Against 200,000 elections of 25 voters; an odd number cannot tie."""
    log_probs = random_log_probs([25], n_classes=2, scale=1.0, seed=3)
    rng = np.random.default_rng(0)
    votes = (rng.random((200_000, 25)) < np.exp(log_probs[:, 0])).sum(axis=1)
    scores = vote_scores(torch.from_numpy(log_probs), Segments([25]))[0]
    assert 0.1 < (votes > 12).mean() < 0.9
    assert scores.exp().tolist() == pytest.approx([(votes > 12).mean(), (votes < 13).mean()], abs=0.01)


FORMULAS = {
    "count": lambda x, segments: count_log_probs(x, segments, 0.1),
    "cold count": lambda x, segments: count_log_probs(x, segments, 1e-3),
    "mean": mean_log_probs,
    "vote": vote_scores,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_float32_is_close_to_float64_on_large_bags(name):
    formula, segments = FORMULAS[name], Segments([30_000, 10_000])
    log_probs = torch.from_numpy(random_log_probs([30_000, 10_000], scale=1.0))
    found = formula(log_probs.float(), segments)
    torch.testing.assert_close(found.double(), formula(log_probs, segments), rtol=5e-3, atol=1e-3)


@pytest.mark.parametrize("wrong", [1, 100_000])
def test_a_confidently_wrong_bag_keeps_its_gradient(wrong):
    """With a variance of only 1e-6 the score is -lead^2 / 2e-6; torch.special.log_ndtr loses this slope in float32."""
    p = torch.tensor([0.0, 1.0]).repeat(wrong, 1)
    scores = vote_scores(p.log(), Segments([wrong]))
    assert scores[0, 0].item() == pytest.approx(-(wrong**2) / 2e-6, rel=1e-4)

    lead = torch.tensor(-1e3 * wrong, requires_grad=True)  # in standard deviations
    (slope,) = torch.autograd.grad(functional.log_ndtr(lead), lead)
    assert slope.item() == pytest.approx(1e3 * wrong, rel=1e-4)


def test_log_ndtr_and_its_slope_equal_those_of_scipy():
    z = torch.tensor([-30.0, -5.0, -1.0, 0.0, 2.0, 6.0, 50.0], dtype=torch.float64, requires_grad=True)
    out = functional.log_ndtr(z)
    x = z.detach().numpy()
    np.testing.assert_allclose(out.detach(), norm.logcdf(x), rtol=1e-12, atol=1e-300)
    slopes = np.exp(norm.logpdf(x) - norm.logcdf(x))
    np.testing.assert_allclose(torch.autograd.grad(out.sum(), z)[0], slopes, rtol=1e-9, atol=1e-300)


@pytest.mark.parametrize("wrong", [0.01, 0.4])
def test_wrong_labels_are_sums_over_all_winners(wrong):
    """Of three classes: a label is right, or drawn from all classes at random."""
    probs = np.random.default_rng(0).dirichlet(np.ones(3), 20)
    allowed = np.random.default_rng(1).random((20, 3)) < 0.6
    allowed[:, 1] |= ~allowed.any(axis=1)
    named, right = allowed.sum(axis=1), (probs * allowed).sum(axis=1)
    drawn = wrong / 2  # of each other class, for a label of one class
    as_seen = right * (1 - drawn * (3 - named)) + (1 - right) * drawn * named
    given = (torch.from_numpy(np.log(right)), wrong, 3, torch.from_numpy(named))
    np.testing.assert_allclose(tolerant_losses(*given), -np.log(as_seen), atol=1e-6)
    certain = right * (1 - drawn * (3 - named)) / as_seen
    np.testing.assert_allclose(right_label_probs(*given), certain, atol=1e-6)
    rates, by_chance = wrong_rates(BagLabels(allowed), wrong, 3)  # as labels are judged, of arrays of numpy
    np.testing.assert_allclose((1 - rates - by_chance) * right + by_chance, as_seen)


def test_extreme_labels():
    log_probs = torch.tensor([-200.0, 0.0])
    assert right_label_probs(log_probs, 0.1, 3).tolist() == [0, 1]
    assert tolerant_losses(log_probs, 0.1, 3).tolist() == pytest.approx([-math.log(0.05), -math.log(0.9)])
