"""Offsets of the classes that make soft labels agree with the labels of bags."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import log_ndtr, log_softmax, logsumexp, softmax

from majority import Bags
from majority.data.labels import BagLabels
from majority.recipes.census.class_offsets import LEAST_WRONG, PRECISION, find_offsets

CLASSES = ["a", "b", "c"]


def bags_of(labels, sizes, **more):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    store = np.zeros((offsets[-1], 1), np.float32)
    return Bags(store, np.arange(offsets[-1]), offsets, labels, CLASSES, **more)


def random_case(seed, bags=40, **more):
    """Bags of 1 to 12 instances with random probabilities, of which the last class has too little in all bags."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 13, bags)
    probabilities = rng.dirichlet(np.full(3, 0.5), sizes.sum())
    shares = np.add.reduceat(probabilities, np.cumsum(sizes) - sizes) / sizes[:, None]
    labels = (5 * shares + np.array([0, 0, 1]) + rng.gumbel(size=(bags, 3))).argmax(axis=1)
    return bags_of(labels, sizes, **more), probabilities


def found(probabilities, bags, wrong=0.0):
    return find_offsets(torch.from_numpy(probabilities), bags, wrong).numpy()


def reference(probabilities, bags, voting=(0, 1, 2), weights=None, wrong=0.0):
    """The most probable offsets by another optimizer, bag by bag and pair by pair."""
    wrong = max(wrong, LEAST_WRONG)
    weights = np.ones(len(probabilities)) if weights is None else weights
    allowed, log_probs = bags.bag_labels.allowed[:, list(voting)], np.log(np.maximum(probabilities, 1e-8))

    def full(values):
        offsets = np.zeros(3)
        offsets[list(voting)] = values - values.mean()
        return offsets

    def log_likelihood(votes, scales, named):
        """Votes (n, voting classes), the weights of their instances, and the classes that the label names."""
        scores = np.zeros(len(voting))
        for y, k in permutations(range(len(voting)), 2):
            lead = votes[:, y] - votes[:, k]
            variance = (scales**2 * (votes[:, y] + votes[:, k] - lead**2)).sum()
            scores[y] += log_ndtr((scales * lead).sum() / np.sqrt(variance + 1e-6))
        of_label = np.exp(logsumexp(log_softmax(scores)[named]))
        drawn = wrong * len(voting) / (len(voting) - 1)  # labels at random: some of these are right
        return np.log((1 - drawn) * of_label + drawn * named.mean())

    def loss(values):
        total, soft = 0.0, softmax(log_probs + full(values), axis=1)[:, list(voting)]
        for bag in np.flatnonzero(bags.bag_labels.known):
            rows = slice(bags.offsets[bag], bags.offsets[bag + 1])
            scales = weights[rows] / weights[rows].mean()
            total -= log_likelihood(soft[rows], scales, allowed[bag])
        return total + PRECISION / 2 * np.square(full(values)).sum()

    return full(minimize(loss, np.zeros(len(voting)), method="BFGS", options={"gtol": 1e-4}).x)


def several(bags):
    allowed = bags.bag_labels.allowed.copy()
    allowed[:10, 0] = True
    return bags._with(bag_labels=BagLabels(allowed))


def weighted(bags):
    return bags._with(weights=np.random.default_rng(9).lognormal(size=len(bags.index)))


def unlabelled(bags):
    return bags._with(bag_labels=bags.bag_labels.masked(np.arange(len(bags)) % 3 != 0))


def background(bags):
    return bags_of(np.where(bags.labels == 2, 0, bags.labels), bags.sizes).with_background("c")


@pytest.mark.parametrize(("kind", "wrong"), [(weighted, 0.3), (several, 0.0), (unlabelled, 0.3), (background, 0.0)])
def test_offsets_are_those_of_another_optimizer(kind, wrong):
    plain, probabilities = random_case(3)
    bags = kind(plain)
    voting = tuple(bags.voting_classes)
    expected = reference(probabilities, bags, voting, bags.weights, wrong)
    assert np.abs(expected).max() > 0.01, "else the test says nothing"
    assert found(probabilities, bags, wrong) == pytest.approx(expected, abs=1e-3)


def test_fewer_labelled_bags_than_classes_say_nothing():
    bags, probabilities = random_case(10)
    few = bags._with(bag_labels=bags.bag_labels.masked(np.arange(len(bags)) < 2))
    assert found(probabilities, few).tolist() == [0, 0, 0]
    assert found(probabilities, bags._with(bag_labels=bags.bag_labels.masked(np.zeros(40, bool)))).tolist() == [0, 0, 0]
