"""A head of one's own is tried before it is trained: what answers otherwise would train to figures without meaning."""

import numpy as np
import pytest
import torch

from majority import Bags, InputError, Settings, build_model, fit
from majority.methods import METHODS, Method
from majority.methods.count import Count

BAGS = Bags.from_lists([np.eye(4)[:size] for size in (3, 1, 4)], ["a", "b", "c"])


class Scores(Count):
    def forward(self, features, segments):
        output = super().forward(features, segments)
        return output._replace(instance_log_probs=output.instance_log_probs + 1)


class Narrow(Count):
    def forward(self, features, segments):
        output = super().forward(features, segments)
        return output._replace(instance_log_probs=output.instance_log_probs[:, 1:])


class Mean(Count):
    def losses(self, output, segments, target):
        return super().losses(output, segments, target).mean()


class OfInstances(Count):
    def losses(self, output, segments, target):
        return output.instance_log_probs[:, 0]


class Nothing(Count):
    def losses(self, output, segments, target):
        pass


class Pair(Count):
    def forward(self, features, segments):
        return tuple(super().forward(features, segments))


@pytest.mark.parametrize(
    ("head", "message"),
    [
        (Scores, r"instance_log_probs are no log-probabilities: take log_softmax"),
        (Narrow, r"instance_log_probs has shape \(\d+, 2\): give \(\d+, 3\)"),
        (Mean, r"losses of 2 bags are \(\): return one per bag"),
        (OfInstances, r"losses of 2 bags are \(\d+,\)"),
        (Nothing, "losses of 2 bags are NoneType"),
        (Pair, "forward returns a tuple: return a BagOutput"),
    ],
)
def test_a_head_of_ones_own_that_answers_otherwise_is_told(head, message, monkeypatch):
    monkeypatch.setitem(METHODS, "own", Method("own", head, "one's own"))
    model = build_model(BAGS, "own")
    with pytest.raises(InputError, match=f"method own: {message}"):
        fit(model, BAGS, BAGS, Settings(epochs=1))
    assert model.head.training


class Trusting(Count):
    """Its loss has weights of its own."""

    def __init__(self, in_features, n_classes):
        super().__init__(in_features, n_classes)
        self.trust = torch.nn.Parameter(torch.zeros(n_classes))

    def losses(self, output, segments, target):
        scores = (output.bag_log_probs * self.trust.exp()).log_softmax(dim=1)
        return -scores.gather(1, target.labels[:, None])[:, 0]


def test_a_loss_may_have_weights_of_its_own(monkeypatch):
    monkeypatch.setitem(METHODS, "own", Method("own", Trusting, "one's own"))
    model = build_model(BAGS, "own")
    fit(model, BAGS, BAGS, Settings(epochs=2), device="cpu")
    assert model.head.trust.abs().sum() > 0
