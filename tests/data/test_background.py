"""A background class does not vote: formulas against references, metrics, files, bags, the command, errors."""

import itertools
import math

import numpy as np
import pytest
import torch
from cases import each
from scipy.special import log_softmax
from scipy.stats import norm

from majority import Bags, Classifier, Settings, build_model, evaluate, fit, make_bags
from majority.data.background import Background
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.errors import InputError
from majority.losses.functional import share_divergence
from majority.nn.methods import create_head

D, K = 6, 5  # features, classes with the background
TEMPERATURES = {"count": (0.1, 0.1), "soft-count": (1.0, 0.1), "count-only": (0.1, None), "log-mean": (1.0, None)}
VOTING = [*TEMPERATURES, "vote"]
SIZES = {"ragged": [3, 1, 7, 2], "equal": [4, 4, 4], "single instances": [1, 1]}
every_voting = pytest.mark.parametrize("name", VOTING)
every_size = each(sizes=SIZES.values())


def make_head(name, background, **options):
    torch.manual_seed(0)
    head = create_head(name, D, K, background, **options).double().eval()
    torch.nn.init.normal_(head.classifier.weight)
    return head


def make_features(n, seed=1):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------- formulas


def reference(name, logits, label, background, of="proportions"):
    """Logits (size, K) of one bag -> bag log-probabilities (K,) and loss, class by class."""
    t1, t2 = TEMPERATURES.get(name, (1.0, None))
    p = np.exp(log_softmax(logits / t1, axis=1))
    voters = [c for c in range(K) if c != background.index]
    if name == "vote":
        scores = dict.fromkeys(voters, 0.0)
        for y, k in itertools.permutations(voters, 2):
            mu = sum(p[:, y] - p[:, k])
            s2 = sum(p[:, y] + p[:, k] - (p[:, y] - p[:, k]) ** 2) + 1e-6
            scores[y] += norm.logcdf(mu / math.sqrt(s2))
    else:
        votes = {c: sum(p[:, c]) for c in voters}
        if of == "proportions" or t2 is None:
            votes = {c: v + background.phantom * len(p) / len(voters) for c, v in votes.items()}
            total = sum(votes.values())
            votes = {c: v / total for c, v in votes.items()}
        scores = {c: math.log(v) if t2 is None else v / t2 for c, v in votes.items()}
    log_total = math.log(sum(math.exp(s) for s in scores.values()))
    bag = np.array([scores[c] - log_total if c in scores else -math.inf for c in range(K)])
    return bag, -(scores[label] if name == "vote" else bag[label])


@every_size
@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in VOTING), ("count", {"of": "counts"})])
@each(background=[Background(0), Background(2, phantom=0.0), Background(4, phantom=1.0)])
def test_head_equals_its_reference(name, options, background, sizes):
    head, features, segments = make_head(name, background, **options), make_features(sum(sizes)), Segments(sizes)
    voters = [c for c in range(K) if c != background.index]
    labels = [voters[i % len(voters)] for i in range(len(sizes))]
    output = head(features, segments)
    losses = head.losses(output, segments, Target.of(torch.tensor(labels), output.bag_log_probs.shape[1]))
    weight, bias = (parameter.detach().numpy() for parameter in head.classifier.parameters())
    bags = [bag.numpy() @ weight.T + bias for bag in features.split(sizes)]
    expected = [reference(name, bag, y, background, **options) for bag, y in zip(bags, labels, strict=True)]
    np.testing.assert_allclose(
        output.bag_log_probs.detach(), np.stack([bag for bag, _ in expected]), rtol=1e-7, atol=1e-9
    )
    np.testing.assert_allclose(losses.detach(), [loss for _, loss in expected], rtol=1e-7, atol=1e-9)
    assert output.instance_log_probs.shape == (sum(sizes), K)
    torch.testing.assert_close(output.instance_log_probs.exp().sum(dim=1), torch.ones(sum(sizes)).double())


def test_the_share_prior_is_the_divergence_of_two_coins():
    log_probs = torch.from_numpy(log_softmax(np.random.default_rng(0).normal(size=(9, K)), axis=1))
    q = log_probs[:, 1].exp().mean().item()
    expected = 0.3 * math.log(0.3 / q) + 0.7 * math.log(0.7 / (1 - q))
    assert share_divergence(log_probs, 1, 0.3).item() == pytest.approx(expected, rel=1e-9)
    assert share_divergence(log_probs, 1, q).item() == pytest.approx(0, abs=1e-9)


@each(sizes=[[1], [3, 1, 2]], bias=[1e4, -1e4], share=[0.3], phantom=[0.0, 0.25])
@every_voting
def test_losses_and_gradients_are_finite(name, sizes, bias, share, phantom):
    torch.manual_seed(0)
    head = create_head(name, D, K, Background(2, share, phantom=phantom))
    with torch.no_grad():
        head.classifier.bias[2] = bias
    features = make_features(sum(sizes)).float().requires_grad_()
    segments = Segments(sizes)
    output = head(features, segments)
    losses = head.losses(output, segments, Target.of(torch.tensor([0, 4, 1][: len(sizes)]), 5))
    losses.mean().backward()
    assert losses.isfinite().all()
    assert not output.bag_log_probs.isnan().any()
    assert (output.bag_log_probs.argmax(dim=1) != 2).all()
    for tensor in (features, *head.parameters()):
        assert tensor.grad.isfinite().all()


# ---------------------------------------------------------------- metrics


def fixed_classifier(background=True):
    """Instances are one-hot vectors of their own class; class 1 does not vote."""
    bags = Bags.from_lists([np.eye(3, dtype=np.float32)[[0, 1, 1, 1, 2, 2]]], ["c"], "abc")
    bags = bags.with_background("b") if background else bags
    model = build_model(bags, "log-mean", torch.nn.Identity())
    with torch.no_grad():
        model.head.classifier.weight.copy_(20 * torch.eye(3))
        model.head.classifier.bias.zero_()
        model.normalise.mean.zero_()
        model.normalise.std.fill_(1)
    return Classifier(model, "cpu"), bags


def test_bags_are_predicted_by_their_voters():
    classifier, bags = fixed_classifier()
    found = classifier.predict_bags(bags)
    assert found.counts.tolist() == [[1, 3, 2]]
    assert found.majority.tolist() == ["c"]
    assert found.share.tolist() == pytest.approx([2 / 3])
    assert found.margin.tolist() == pytest.approx([1 / 3])
    no_votes = Bags.from_lists([np.eye(3, dtype=np.float32)[[1, 1]]], ["c"], "abc")
    found = classifier.predict_bags(no_votes)
    assert (found.majority[0], found.share[0], found.margin[0]) == ("b", 0, 0)
    assert evaluate(classifier.model, no_votes, "cpu").summary()["bag_accuracy"] == 0
    assert fixed_classifier(background=False)[0].predict_bags(bags).majority.tolist() == ["b"]


# ---------------------------------------------------------------- bags


def blobs(n_bags, seed, **more):
    rng = np.random.default_rng(seed)
    classes = np.arange(2000) % 4
    store = (2 * np.eye(4, 6)[classes] + 0.4 * rng.normal(size=(2000, 6))).astype(np.float32)
    options = {"n_bags": n_bags, "size": 16, "background": "c", "rng": rng}
    return make_bags(store, classes, "abcd", **options | more)


def test_drawn_bags_have_a_share_of_background_and_the_label_of_their_voters():
    bags = blobs(300, seed=0, size=20, scenario=(0.5, 0.8), background_shares=(0.2, 0.9))
    counts = bags.class_counts()
    shares = counts[:, 2] / 20
    assert (shares.min(), shares.max()) == (0.2, 0.9)
    assert shares.mean() == pytest.approx(0.55, abs=0.04)
    assert (counts.argmax(axis=1) == 2).mean() > 0.4  # most common of all, and no label
    assert (np.delete(counts, 2, axis=1).argmax(axis=1) == np.array([0, 1, -1, 2])[bags.labels]).all()
    enough = counts[:, 2] <= 10
    assert bags.majority_proportions()[enough].min() >= 0.4
    assert bags.majority_proportions()[enough].max() <= 0.9
    constant = blobs(20, seed=0, background_shares=(0.25, 0.25))
    assert set(constant.class_counts()[:, 2]) == {4}
    assert blobs(200, seed=1, ties="resample", size=32).tie_rate() == 0
    assert set(blobs(60, seed=1, winner_prior=[1, 0, 1], ties="resample", size=32).labels) == {0, 3}


# ---------------------------------------------------------------- errors


def two_bags(labels=("a", "b")):
    return Bags.from_lists([np.ones((2, 3), np.float32)] * 2, labels, names=["slide-1", "slide-2"])


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (
            lambda: two_bags().with_background("b"),
            r"bag 1 \(slide-2\) has the label b, the background.*or leave out bags",
        ),
        (lambda: two_bags(["a", "a"]).with_background("n"), "classes a, n, background 'n'.* 2 other classes"),
        (lambda: Background(0, share=1.0), "background share 1.0: .* between 0 and 1"),
        (
            lambda: build_model(two_bags(), "vote", background_share=0.2),
            "background_share is given without a background",
        ),
        (lambda: blobs(4, 0, background_shares=(0.5, 1.0)), "background shares from 0.5 to 1 of bags of 16"),
    ],
)
def test_wrong_backgrounds_are_errors(action, message):
    with pytest.raises(InputError, match=message):
        action()


def test_a_model_is_trained_and_evaluated_on_bags_with_its_background():
    marked = two_bags().with_background("n")
    model = build_model(marked, "count")
    unmarked = Bags(marked.store, marked.index, marked.offsets, marked.labels, marked.classes)
    with pytest.raises(InputError, match="different background"):
        fit(model, unmarked, marked, Settings(epochs=1), device="cpu")
    wrong = Bags(marked.store, marked.index, marked.offsets, [0, 2], marked.classes)
    with pytest.raises(InputError, match="bag 1 has the label n, the background"):
        evaluate(model, wrong, "cpu")
