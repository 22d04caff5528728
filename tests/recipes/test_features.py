"""Instances apart from their bags, and features in the place of instances."""

import numpy as np
import torch

from majority import Bags, build_model
from majority.recipes.features import bags_of_features


def images(n_bags=6, size=4):
    """Of noise, of which those of one class are brighter; a bag has one class."""
    labels = np.arange(n_bags) % 2
    store = np.random.default_rng(0).integers(0, 60, (n_bags * size, 8, 8, 1)).astype(np.uint8)
    store[np.repeat(labels, size) == 1] += 150
    return Bags(store, np.arange(len(store)), np.arange(n_bags + 1) * size, labels, ["dark", "bright"])


def test_embedded_bags_hold_the_networks_features():
    bags = images()
    shared = bags._with(index=np.concatenate([bags.index[12:], bags.index[12:]]))
    model = build_model(bags, "log-mean", "cnn")
    of_bags = bags_of_features(model, shared, "cpu")
    with torch.no_grad():
        expected = model.eval().features(torch.from_numpy(bags.store[bags.index[12:]]))
    np.testing.assert_allclose(of_bags.store[of_bags.index[:12]], expected, rtol=1e-5, atol=1e-6)
    assert of_bags.store.shape == (12, 128)
    assert of_bags.labels.tolist() == bags.labels.tolist()
