"""Losses that assume that a share of the bag labels is wrong."""

import numpy as np
import pytest
import torch

from majority import Bags, build_model
from majority.data.loader import BagLoader
from majority.training.objectives import BagLoss


@pytest.mark.parametrize("method", ["adjusted-mean", "soft-count", "vote", "log-mean", "count"])
def test_random_weights_learn_from_labels_of_which_some_are_wrong(method):
    """At the beginning no label is certain, so that all are learned, whatever the number of classes."""
    rng, n_classes = np.random.default_rng(0), 30
    instances = [rng.normal(size=(8, 5)).astype(np.float32) for _ in range(n_classes)]
    bags = Bags.from_lists(instances, np.arange(n_classes), [f"class {i:02}" for i in range(n_classes)])
    model = build_model(bags, method, "linear", seed=0)
    (batch,) = BagLoader(bags, torch.device("cpu")).in_order(9_999)
    norms = []
    for wrong in (0.0, 0.1):
        objective = BagLoss()
        objective.remaining_wrong = wrong
        losses, _ = objective.losses(model, batch, None)
        gradients = torch.autograd.grad(losses.mean(), [*model.parameters()], allow_unused=True)
        norms.append(sum(one.square().sum() for one in gradients if one is not None).sqrt().item())
    assert 0.3 < norms[1] / norms[0] < 1


def test_a_contradicted_label_is_hardly_learned_and_costs_a_limited_loss():
    instances = np.random.default_rng(0).normal(size=(6, 4, 3))
    bags = Bags.from_lists(list(instances), np.arange(6) % 2, ["left", "right"])
    model = build_model(bags, "log-mean", "linear", seed=0)
    with torch.no_grad():
        model.head.classifier.bias.copy_(torch.tensor([20.0, -20.0]))  # everything is on the left
        model.head.classifier.weight.zero_()
    (batch,) = BagLoader(bags, torch.device("cpu")).in_order(9_999)
    objective = BagLoss()
    objective.remaining_wrong = 0.1
    losses, _ = objective.losses(model, batch, None)
    right = batch.target.labels == 0
    assert 0 < right.sum() < 6
    assert losses[right].abs().max() < 1e-6
    assert losses[~right].max() < 1e-6, "its own loss is 40"
    output = model(batch.instances, batch.segments, None)
    expected = torch.where(right, -np.log(0.9), -np.log(0.1)).to(torch.float32)
    torch.testing.assert_close(objective.val_losses(model, output, batch), expected, rtol=1e-4, atol=1e-4)
