"""The formulas on packed log-probabilities, each against a loop over bags in numpy, in float64."""

import math

import numpy as np
import pytest
import torch
from cases import each
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import log_softmax
from scipy.stats import norm

from majority.data.labels import BagLabels
from majority.data.segments import Segments
from majority.losses import functional
from majority.losses.functional import count_log_probs, mean_log_probs, right_label_probs, tolerant_losses, vote_scores
from majority.predict.label_likelihood import wrong_rates

SIZES = {"ragged": [3, 1, 40, 2], "equal": [4, 4, 4], "single instances": [1, 1], "one instance": [1]}
every_size = each(sizes=SIZES.values())


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


@settings(max_examples=50, deadline=None)
@given(
    counts=st.lists(st.integers(0, 30), min_size=2, max_size=6).filter(sum),
    temperature=st.sampled_from([None, 0.01, 0.1, 1.0]),
    of=st.sampled_from(["proportions", "counts"]),
)
def test_one_hot_instances_are_counted(counts, temperature, of):
    """The winner is the most common class, and the log-probabilities are those of the counts."""
    classes = np.repeat(np.arange(len(counts)), counts)
    one_hot = torch.full((len(classes), len(counts)), -100.0)
    one_hot[torch.arange(len(classes)), torch.from_numpy(classes)] = 0.0
    out = count_log_probs(one_hot, Segments([len(classes)]), temperature, of)[0]
    assert counts[int(out.argmax())] == max(counts)
    assert counts[int(vote_scores(one_hot, Segments([len(classes)]))[0].argmax())] == max(counts)
    if temperature is not None:
        amounts = np.array(counts) / (sum(counts) if of == "proportions" else 1)
        np.testing.assert_allclose(out, log_softmax(amounts / temperature), rtol=1e-4, atol=1e-4)


FORMULAS = {
    "count": lambda x, segments: count_log_probs(x, segments, 0.1),
    "counts": lambda x, segments: count_log_probs(x, segments, 0.1, "counts"),
    "cold count": lambda x, segments: count_log_probs(x, segments, 1e-3),
    "mean": mean_log_probs,
    "vote": vote_scores,
}
every_formula = pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS.keys())
KINDS = {
    "ordinary": lambda n: torch.randn(n, 4, generator=torch.Generator().manual_seed(0)),
    "huge": lambda n: 1e6 * torch.randn(n, 4, generator=torch.Generator().manual_seed(0)),
    "all the same": lambda n: torch.zeros(n, 4),
    "all of one class": lambda n: torch.tensor([1e6, 0.0, 0.0, 0.0]).expand(n, 4),
}


@every_formula
@each(kind=KINDS.values(), sizes=[[1], [1, 1], [3, 1, 8], [30_000], [30_000, 1]])
def test_values_and_gradients_are_finite(formula, kind, sizes):
    logits = kind(sum(sizes)).clone().requires_grad_()
    out = formula(logits.log_softmax(dim=1), Segments(sizes))
    assert out.dtype == torch.float32
    assert out.isfinite().all()
    for column in range(4):
        (gradient,) = torch.autograd.grad(out[:, column].sum(), logits, retain_graph=True)
        assert gradient.isfinite().all()


@every_formula
def test_float32_is_close_to_float64_on_large_bags(formula):
    log_probs = torch.from_numpy(random_log_probs([30_000, 10_000], scale=1.0))
    segments = Segments([30_000, 10_000])
    torch.testing.assert_close(
        formula(log_probs.float(), segments).double(), formula(log_probs, segments), rtol=5e-3, atol=1e-3
    )


@every_formula
@each(sizes=[[2, 1, 3], [2, 2]])
def test_gradients_pass_gradcheck(formula, sizes):
    log_probs = torch.from_numpy(random_log_probs(sizes, n_classes=3, scale=0.5)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: formula(x, Segments(sizes)), log_probs)


@pytest.mark.parametrize("wrong", [1, 30, 1000, 100_000])
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


@pytest.mark.parametrize("n_classes", [2, 5])
@pytest.mark.parametrize("wrong", [0.01, 0.4])
def test_wrong_labels_are_sums_over_all_winners(wrong, n_classes):
    generator = torch.Generator().manual_seed(0)
    probs = torch.rand(6, n_classes, generator=generator, dtype=torch.float64).pow(8)
    probs = probs / probs.sum(dim=1, keepdim=True)
    losses, certain = (formula(probs[:, 1].log(), wrong, n_classes) for formula in (tolerant_losses, right_label_probs))
    for bag in range(6):
        right = (1 - wrong) * probs[bag, 1].item()
        others = [probs[bag, winner].item() * wrong / (n_classes - 1) for winner in range(n_classes) if winner != 1]
        assert losses[bag].item() == pytest.approx(-math.log(right + sum(others)))
        assert certain[bag].item() == pytest.approx(right / (right + sum(others)))


def test_labels_of_several_classes_are_wrong_less_often():
    """As the labels are judged, where their arrays are of numpy."""
    allowed = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 1], [1, 1, 1]], bool)
    labels = BagLabels(allowed)
    right = torch.tensor([0.2, 0.7, 0.4, 1.0], dtype=torch.float64)
    rates, by_chance = wrong_rates(labels, 0.3, 3)
    likelihoods = (1 - rates - by_chance) * right.numpy() + by_chance
    given = (right.log(), 0.3, 3, torch.from_numpy(allowed.sum(axis=1)))
    assert tolerant_losses(*given).tolist() == pytest.approx(-np.log(likelihoods), abs=1e-6)
    assert right_label_probs(*given).tolist() == pytest.approx((1 - rates) * right.numpy() / likelihoods, abs=1e-6)
    assert right_label_probs(*given)[3] == 1


def test_extreme_labels():
    log_probs = torch.tensor([-200.0, 0.0])
    assert right_label_probs(log_probs, 0.1, 3).tolist() == [0, 1]
    assert tolerant_losses(log_probs, 0.1, 3).tolist() == pytest.approx([-math.log(0.05), -math.log(0.9)])
