"""The likelihood of labels some of which are wrong, against plain formulas."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from majority.data.labels import BagLabels
from majority.predict.label_likelihood import (
    ABSOLUTE,
    RELATIVE,
    SHARPNESS,
    LabelEvidence,
)


def reference(shares, allowed, counts, wrong, kinds):
    """One bag and one class at a time: the probability of each winner, and of what each label says, of which some are
    drawn at random."""
    base = np.log((counts + 1) / (counts + 1).sum())
    n_classes, best = shares.shape[1], None
    drawn = wrong * n_classes / (n_classes - 1)
    for kind, sharpness in product(kinds, SHARPNESS):
        scores = base + sharpness * (shares - shares.mean(axis=0)) if kind == RELATIVE else sharpness * shares
        winners = softmax(scores, axis=1)
        right = (winners * allowed).sum(axis=1)
        likelihoods = (1 - drawn) * right + drawn * allowed.mean(axis=1)
        if best is None or np.log(likelihoods).mean() > np.log(best[1]).mean():
            best = winners, likelihoods
    return best


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), wrong=st.sampled_from([0.0, 0.1, 0.4]), largest=st.booleans(), several=st.booleans())
def test_labels_are_explained_and_judged_as_by_sums_over_all_winners(seed, wrong, largest, several):
    """Of shares of which many are 0; labels are random or the largest share, and some name two classes."""
    rng, both = np.random.default_rng(seed), (RELATIVE, ABSOLUTE)
    shares = rng.multinomial(6, [0.5, 0.25, 0.15, 0.1], 25) / 6
    winners = shares.argmax(axis=1) if largest else rng.integers(4, size=25)
    allowed, counts = np.eye(4, dtype=bool)[winners], np.bincount(winners, minlength=4)
    allowed[:10, 3] |= several
    evidence = LabelEvidence(shares, BagLabels(allowed), counts)
    for kinds in ((RELATIVE,), (ABSOLUTE,), both):
        expected, likelihoods = reference(shares, allowed, counts, wrong, kinds)
        log_probs, found = evidence.explain(wrong, kinds)
        assert np.exp(log_probs) == pytest.approx(expected)
        assert np.exp(found) == pytest.approx(likelihoods)
    assert evidence.mean_log_likelihoods([wrong]) == pytest.approx([np.log(likelihoods).mean()])
    judged = evidence.judge(wrong)
    drawn = wrong * 4 / 3
    right = (1 - drawn * (1 - allowed.mean(axis=1))) * (expected * allowed).sum(axis=1) / likelihoods
    assert judged.wrong == pytest.approx(1 - right, abs=1e-9)
    likely = expected.argmax(axis=1)
    assert judged.winner.tolist() == likely.tolist()
    assert judged.contradicted.tolist() == ((judged.wrong >= 0.5) & ~allowed[range(25), likely]).tolist()


def test_wrong_labels_are_found_where_one_class_is_common():
    """The most common class has two thirds of all instances: its share is often below its mean where it has won."""
    rng = np.random.default_rng(3)
    shares = rng.dirichlet([4, 1, 1], 300)
    true = shares.argmax(axis=1)
    wrong = rng.random(300) < 0.2
    labels = np.where(wrong, (true + rng.integers(1, 3, 300)) % 3, true)
    evidence = LabelEvidence(shares, BagLabels.of(labels, 3), np.bincount(labels, minlength=3))
    tried = evidence.mean_log_likelihoods([0.0, 0.2])
    assert 300 * (tried[1] - tried[0]) > 10
    judged = evidence.judge(0.2)
    assert (judged.contradicted == wrong).mean() > 0.95
