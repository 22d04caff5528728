"""The statistics of an audit, against independent references and by simulation."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom

from majority.predict.audit import Sample, class_shares, estimate
from majority.predict.audit_design import Design, Whole, expected_right, with_temperature
from majority.predict.audit_figures import agreement_of
from majority.predict.audit_interval import error_interval


def instances(n=3000, sharpness=3.0, seed=0):
    """Probabilities of three classes that are calibrated, and true classes."""
    rng = np.random.default_rng(seed)
    logits = sharpness * rng.normal(size=(n, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    true = (rng.random((n, 1)) > probabilities.cumsum(axis=1)).sum(axis=1)
    return probabilities, true


def sample(design, probabilities, true, labels):
    return of_drawn(design.draw(labels), design, probabilities, true)


def of_drawn(drawn, design, probabilities, true):
    whole = Whole.of("abc", design, probabilities)
    return Sample.of(whole, design.stratum[drawn], true[drawn], probabilities[drawn])


@pytest.fixture(scope="module")
def audited():
    probabilities, true = instances()
    return probabilities, true, Design.of(expected_right(probabilities, np.arange(len(true)) // 30))


@pytest.mark.parametrize(("wrong", "labels"), [(0, 30), (7, 50), (50, 50)])
def test_one_stratum_gives_the_exact_interval_with_mid_p(wrong, labels):
    (found,) = error_interval(np.array([[wrong]]), np.array([labels]), np.array([10**9]), np.array([0.2]))

    def upper(p):
        return binom.cdf(wrong - 1, labels, p) + binom.pmf(wrong, labels, p) / 2 - 0.025

    def lower(p):
        return binom.sf(wrong, labels, p) + binom.pmf(wrong, labels, p) / 2 - 0.025

    low = 0.0 if wrong == 0 else brentq(lower, 1e-9, 1 - 1e-9)
    high = 1.0 if wrong == labels else brentq(upper, 1e-9, 1 - 1e-9)
    assert found == pytest.approx([low, high], abs=2e-4)


@pytest.mark.parametrize(("sharpness", "overconfident"), [(0.5, False), (3.0, True)])
def test_the_interval_covers_the_accuracy(sharpness, overconfident):
    probabilities, true = instances(sharpness=sharpness)
    shown = with_temperature(probabilities, 0.3) if overconfident else probabilities
    design, wrong = Design.of(expected_right(shown, np.arange(len(true)) // 30)), shown.argmax(axis=1) != true
    rng, of_stratum = np.random.default_rng(0), np.bincount(design.stratum, wrong).astype(int)
    cells = zip(of_stratum, design.sizes, strict=True)
    errors = np.stack([rng.hypergeometric(bad, size - bad, 3, 200) for bad, size in cells], axis=1)
    ends = error_interval(errors, np.full(len(design.sizes), 3), design.sizes, design.expected, grid=512)
    assert np.mean((ends[:, 0] <= wrong.mean()) & (wrong.mean() <= ends[:, 1])) > 0.92


def test_the_accuracy_has_no_bias(audited):
    probabilities, true, design = audited
    whole, samples = Whole.of("abc", design, probabilities), []
    for seed in range(200):
        drawn = Design(design.stratum, design.expected, seed).draw(30)
        samples.append(Sample.of(whole, design.stratum[drawn], true[drawn], probabilities[drawn]))
    found = [one.weights @ (one.true == one.predicted) for one in samples]
    truth = np.mean(probabilities.argmax(axis=1) == true)
    assert np.mean(found) == pytest.approx(truth, abs=4 * np.std(found) / np.sqrt(200))


def test_all_answers_give_the_true_figures(audited):
    probabilities, true, design = audited
    found = estimate(sample(design, probabilities, true, len(true)))
    predicted = probabilities.argmax(axis=1)
    for end in (found.accuracy.low, found.accuracy.value, found.accuracy.high):
        assert end == pytest.approx(np.mean(predicted == true))
    for c, of in enumerate(found.classes):
        assert of.recall.value == pytest.approx(np.mean(predicted[true == c] == c))
        assert of.precision.value == pytest.approx(np.mean(true[predicted == c] == c))
        assert of.share.value == pytest.approx(np.mean(true == c), abs=0.02)
    assert found.temperature == pytest.approx(1, abs=0.15)


def test_shares_correct_a_classifier_that_prefers_one_class():
    probabilities, true = instances(sharpness=2)
    skewed = probabilities * [6, 1, 1]
    skewed /= skewed.sum(axis=1, keepdims=True)
    design = Design.of(expected_right(skewed, np.arange(len(true)) // 30))
    of_sample = sample(design, skewed, true, 200)
    found, actual = class_shares(of_sample), np.bincount(true) / len(true)
    naive = np.abs(of_sample.whole.predicted_shares - actual).mean()
    assert np.abs([one.value for one in found[:3]] - actual).mean() < naive / 2
    assert all(one.low <= share <= one.high for one, share in zip(found, [*actual, 0.0], strict=True))


def test_the_temperature_undoes_overconfidence(audited):
    probabilities, true, design = audited
    found = estimate(sample(design, with_temperature(probabilities, 1 / 3), true, 500))
    assert found.temperature == pytest.approx(3, rel=0.2)


def test_answers_of_another_class_are_wrong_and_have_a_share(audited):
    probabilities, true, design = audited
    found = estimate(sample(design, probabilities, np.where(true == 2, 3, true), 400))
    assert found.classes[2].recall is None
    assert found.other_share.low < np.mean(true == 2) < found.other_share.high
    assert {one.true for one in found.confusions} >= {"another class"}


def test_strata_without_an_answer_are_joined(audited):
    probabilities, true, design = audited
    drawn = design.draw(400)
    joined = of_drawn(drawn[~np.isin(design.stratum[drawn], [0, 4, 5])], design, probabilities, true)
    assert joined.sizes.sum() == len(true)
    assert joined.weights.sum() == pytest.approx(1)


def test_kappa_is_the_mean_over_pairs():
    rng = np.random.default_rng(0)
    answers = {who: {str(i): str(rng.integers(3)) for i in range(50)} for who in ("anna", "ben", "eva")}
    pairs = [agreement_of({who: answers[who] for who in pair}).kappa for pair in combinations(answers, 2)]
    assert agreement_of(answers).kappa == pytest.approx(np.mean(pairs))
    one, other = ([*answers[who].values()] for who in ("anna", "ben"))
    agreed, chance = (
        np.mean([a == b for a, b in zip(one, other, strict=True)]),
        np.mean([a == b for a in one for b in other]),
    )
    assert pairs[0] == pytest.approx((agreed - chance) / (1 - chance))
    assert agreement_of({"a": {"1": "cat"}, "b": {"1": "cat"}}).kappa is None
