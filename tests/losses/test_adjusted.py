"""adjusted-mean against a reference in numpy, and its purpose: classes that rarely win."""

import numpy as np
import pytest
import torch

from majority import Settings, build_model, evaluate, fit, load_source
from majority.data.background import Background
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.losses import AdjustedMeanLoss
from majority.nn.methods import create_head

SIZES = [3, 1, 7, 4]


@pytest.mark.parametrize("winner_share", [0.25, 0.6, 1.0])
def test_a_class_is_weighed_by_its_shares_of_labels_and_of_instances(winner_share):
    """Weighted bags and equal shares of labels: see test_weights.py."""
    counts, f = [9, 4, 0, 2], np.array([10, 5, 1, 3]) / 19
    expected = winner_share * f + (1 - winner_share) * (1 - f) / 3
    loss_fn = AdjustedMeanLoss(label_counts=counts, reduction="none").eval()
    loss_fn.winner_share.fill_(winner_share)
    logits = torch.randn(15, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ids, labels = torch.arange(4).repeat_interleave(torch.tensor(SIZES)), [0, 3, 2, 1]
    losses = loss_fn(logits, ids, torch.tensor(labels))
    for bag, label in enumerate(labels):
        score = logits[ids == bag].softmax(dim=1).mean(dim=0).numpy() * f / expected
        assert losses[bag].item() == pytest.approx(-np.log(score[label] / score.sum()), abs=1e-7)


def test_it_equals_log_mean_if_winners_hold_all_instances():
    torch.manual_seed(0)
    adjusted, plain = create_head("adjusted-mean", 6, 4), create_head("log-mean", 6, 4)
    plain.load_state_dict(adjusted.state_dict(), strict=False)
    adjusted.see_labels(torch.tensor([9, 4, 0, 2]), torch.zeros(4))
    adjusted.loss.winner_share.fill_(1.0)
    features = torch.randn(15, 6)
    one, other = (head(features, Segments(SIZES)).bag_log_probs for head in (adjusted, plain))
    torch.testing.assert_close(one, other)


def test_the_winner_share_is_estimated_only_in_training():
    torch.manual_seed(0)
    head, segments, target = (
        create_head("adjusted-mean", 6, 4),
        Segments(SIZES),
        Target.of(torch.tensor([0, 3, 2, 1]), 4),
    )
    output = head(5 * torch.randn(15, 6), segments)
    shares = segments.mean(output.instance_log_probs.exp())[range(4), target.labels].mean().item()
    head.losses(output, segments, target)
    assert head.loss.winner_share.item() == pytest.approx(0.95 * 0.25 + 0.05 * shares)
    before = head.loss.winner_share.clone()
    head.eval().losses(output, segments, target)
    assert torch.equal(head.loss.winner_share, before)


def test_with_a_background_shares_are_shares_of_the_votes():
    """The same formula on the columns of voting classes."""
    torch.manual_seed(0)
    head = create_head("adjusted-mean", 6, 4, Background(2))
    head.see_labels(torch.tensor([9, 4, 0, 2]), torch.zeros(4))
    segments, labels = Segments(SIZES), [0, 3, 1, 1]
    output = head(3 * torch.randn(15, 6), segments)
    p = output.instance_log_probs.detach().double().exp().numpy()
    bags = np.split(p, np.cumsum(SIZES)[:-1])
    voters = [0, 1, 3]
    f = np.array([10, 5, 3]) / 18
    expected = 0.25 * f + 0.75 * (1 - f) / 2
    for bag, row in zip(bags, output.bag_log_probs.detach().numpy(), strict=True):
        votes = bag[:, voters].sum(axis=0) + head.loss.background.phantom * len(bag) / 3
        score = votes / votes.sum() * f / expected
        np.testing.assert_allclose(row[voters], np.log(score / score.sum()), rtol=1e-4, atol=1e-5)
        assert row[2] == -np.inf
    share = np.mean([bag[:, y].sum() / (1 - bag[:, 2]).sum() for bag, y in zip(bags, labels, strict=True)])
    head.losses(output, segments, Target.of(torch.tensor(labels), 4))
    assert head.loss.winner_share.item() == pytest.approx(0.95 * 0.25 + 0.05 * share, rel=1e-4)


def test_bags_without_votes_keep_the_winner_share_in_range():
    head = create_head("adjusted-mean", 6, 4, Background(2))
    with torch.no_grad():
        head.classifier.bias[2] = 1e4
    segments = Segments(SIZES)
    head.losses(head(torch.randn(15, 6), segments), segments, Target.of(torch.tensor([0, 3, 1, 1]), 4))
    assert 0 <= head.loss.winner_share <= 0.25


def test_it_finds_classes_that_rarely_win():
    """The first class wins a hundred times as often as the last."""
    parts = load_source("digits").make_parts(scenario="various", winner_ratio=100, bags=100, bag_size=32)
    scores = {}
    for method in ("log-mean", "adjusted-mean"):
        model = build_model(parts.train, method)
        fit(model, parts.train, parts.val, Settings(epochs=20), device="cpu", title=None)
        scores[method] = evaluate(model, parts.test, "cpu").summary()["macro_f1"]
    assert scores["adjusted-mean"] > scores["log-mean"] + 0.05
