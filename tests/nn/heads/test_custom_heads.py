"""A custom head is tried before training: a head with wrong outputs would train to meaningless results."""

import numpy as np
import pytest
import torch

from majority import Bags, InputError, Settings, build_model, fit
from majority.losses import CountLoss
from majority.nn.methods import METHODS, Method

BAGS = Bags.from_lists([np.eye(4)[:size] for size in (3, 1, 4)], ["a", "b", "c"])


class Scores(CountLoss):
    def predict(self, logits, segments):
        output = super().predict(logits, segments)
        return output._replace(instance_log_probs=output.instance_log_probs + 1)


class Narrow(CountLoss):
    def predict(self, logits, segments):
        output = super().predict(logits, segments)
        return output._replace(instance_log_probs=output.instance_log_probs[:, 1:])


class Mean(CountLoss):
    def compute(self, output, segments, target):
        return super().compute(output, segments, target).mean()


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (Scores, r"instance_log_probs.* are not log-probabilities.*: use log_softmax"),
        (Narrow, r"instance_log_probs, of shape \(\d+, 2\), .* of shape \(\d+, 3\)"),
        (Mean, "losses of 2 bags are .*: return one per bag"),
    ],
)
def test_wrong_outputs_of_a_custom_head_are_errors(head, message, monkeypatch):
    monkeypatch.setitem(METHODS, "custom", Method("custom", head, "a custom head"))
    model = build_model(BAGS, "custom")
    with pytest.raises(InputError, match=f"method custom: {message}"):
        fit(model, BAGS, BAGS, Settings(epochs=1))
    assert model.head.training


class Weighted(CountLoss):
    """It has trainable weights."""

    def __init__(self, **common):
        super().__init__(**common)
        self.weights = torch.nn.Parameter(torch.zeros(3))

    def compute(self, output, segments, target):
        scores = (output.bag_log_probs * self.weights.exp()).log_softmax(dim=1)
        return -scores.gather(1, target.labels[:, None])[:, 0]


def test_a_loss_may_have_trainable_weights(monkeypatch):
    monkeypatch.setitem(METHODS, "custom", Method("custom", Weighted, "a custom head"))
    model = build_model(BAGS, "custom")
    fit(model, BAGS, BAGS, Settings(epochs=2), device="cpu")
    assert model.head.loss.weights.abs().sum() > 0


@pytest.mark.parametrize("head", [torch.nn.Linear, CountLoss(), None])
def test_a_head_of_another_kind_is_refused_with_the_class_to_derive_from(head):
    with pytest.raises(InputError, match=r"power.*BagLoss or Head"):
        _ = Method("power", head, "about").kind
