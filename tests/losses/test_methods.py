"""Every method: against a reference for one bag, at its limits, in training; and what reaches its loss."""

import itertools
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from references import of_one_bag
from torch import nn

from majority import Bags, InputError, Settings, build_model, evaluate, fit, load_source, make_bags
from majority.data.background import Background
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.data.training_labels import use_instance_labels
from majority.nn.methods import METHODS, create_head

D, C = 6, 5
SEEING = [name for name, method in METHODS.items() if method.kind.sees_instance_labels]
BETWEEN_INSTANCES = "additive-transmil"  # an instance that is left out of the sum is still in the bag of the others
every_method = pytest.mark.parametrize("name", METHODS)


def make_head(name, background=None):
    """In float64 and eval mode, with logits that differ and statistics that say something."""
    torch.manual_seed(0)
    head = create_head(name, D, C, background).double().eval()
    for module in head.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    if isinstance(getattr(head, "classifier", None), nn.Linear):
        nn.init.normal_(head.classifier.weight)
    head.see_labels(torch.tensor([9, 4, 0, 2, 5]), torch.zeros(C))
    if name == "adjusted-mean":
        head.loss.winner_share.fill_(0.6)
    return head


@every_method
@settings(max_examples=12, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    weighted=st.booleans(),
    dropped=st.booleans(),
    background=st.booleans(),
)
def test_a_method_equals_its_reference_bag_by_bag(name, sizes, seed, weighted, dropped, background):
    """So bags do not depend on each other, nor on the order of their instances, nor on those that are left out."""
    head = make_head(name, Background(2) if background and METHODS[name].votes else None)
    rng, n = np.random.default_rng(seed), sum(sizes)
    features, truth = torch.from_numpy(rng.normal(size=(n, D))), torch.from_numpy(rng.integers(C, size=n))
    labels = rng.choice([0, 1, 3, 4], len(sizes))
    weights = torch.from_numpy(np.exp(2 * rng.normal(size=n))) if weighted and METHODS[name].kind.uses_weights else None
    keep = torch.ones(n, dtype=torch.bool)
    if dropped and name != BETWEEN_INSTANCES:
        keep = torch.from_numpy(np.concatenate([rng.permutation(size) <= size // 2 for size in sizes]))
    segments = Segments(sizes, keep=keep if dropped else None, weights=weights)
    target = Target.of(torch.from_numpy(labels), C)._replace(instance_labels=truth)
    with torch.no_grad():
        output = head(features, segments)
        losses = head.losses(output, segments, target)
        for bag, rows in enumerate(torch.arange(n).split(sizes)):
            rows = rows[keep[rows]]
            of_rows = None if weights is None else weights[rows]
            expected = of_one_bag(name, head, features[rows], int(labels[bag]), truth[rows], of_rows)
            found = (output.instance_log_probs[rows], output.bag_log_probs[bag], losses[bag])
            for one, other in zip(found, expected, strict=True):
                torch.testing.assert_close(one, other, rtol=1e-6, atol=1e-6)


def test_needs_bag_is_true_if_an_instance_depends_on_its_bag():
    for name, method in METHODS.items():
        head, features = make_head(name), torch.randn(4, D, dtype=torch.float64)
        within, alone = (head(features, Segments(sizes)).instance_log_probs for sizes in ([4], [1] * 4))
        assert method.needs_bag is not torch.allclose(within, alone), name


@every_method
def test_losses_and_gradients_are_finite(name):
    """In float32, also if the instances that are left out are huge."""
    large = 100 if name == BETWEEN_INSTANCES else 5_000
    for sizes, scale in itertools.product([[1], [3, 1, 7, 2], [large, 1]], [0.0, 1.0, 1e15]):
        torch.manual_seed(0)
        head, segments = create_head(name, D, C).train(), Segments(sizes, keep=torch.arange(sum(sizes)) % 3 < 1)
        if min(segments.kept_sizes.tolist()) == 0:
            segments = Segments(sizes)
        features = (scale * torch.randn(sum(sizes), D)).requires_grad_()
        labels, truth = torch.arange(len(sizes)), torch.randint(C, (sum(sizes),))
        output = head(features, segments)
        losses = head.losses(output, segments, Target.of(labels, C)._replace(instance_labels=truth))
        losses.mean().backward()
        gradients = [value.grad for value in (features, *head.parameters()) if value.grad is not None]
        assert all(value.isfinite().all() for value in (losses, *output[:2], *gradients)), (sizes, scale)


def small_bags(seed=0, n_bags=12, sizes=(1, 2, 5, 9), weighted=False):
    """Vectors with random instance labels, and bag labels that are not always the most common class."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(sizes, size=n_bags)
    lists = [rng.normal(size=(size, D)).astype(np.float32) for size in sizes]
    truth, weights = [rng.integers(C, size=size) for size in sizes], [np.arange(size) + 1 for size in sizes]
    labels = np.arange(n_bags) % C
    return Bags.from_lists(lists, labels, "abcde", instance_labels=truth, weights=weights if weighted else None)


@every_method
@pytest.mark.filterwarnings("ignore:mkldnn_matmul")  # a CPU without bf16
def test_gradients_reach_the_backbone_and_heads_compute_in_float32(name):
    bags = small_bags()
    model = build_model(bags, name, "mlp")
    segments, truth = Segments(bags.sizes), torch.from_numpy(bags.instance_labels)
    with torch.autocast("cpu", torch.bfloat16):
        assert model.backbone(model.normalise(torch.from_numpy(bags.instances()))).dtype == torch.bfloat16
        output = model(torch.from_numpy(bags.instances()), segments)
        target = Target.of(torch.from_numpy(bags.labels), C)._replace(instance_labels=truth)
        losses = model.head.losses(output, segments, target)
    assert output.bag_log_probs.dtype == output.instance_log_probs.dtype == losses.dtype == torch.float32
    losses.mean().backward()
    for parameter in model.backbone.parameters():
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0


@pytest.mark.parametrize("sizes", [[2001], [2001, 7]], ids=str)
def test_counts_are_not_computed_in_bf16(sizes):
    """1,001 instances of class 0 and 1,000 of class 1 differ by one, which bf16 cannot represent."""
    model = build_model(small_bags(), "count", nn.Identity(), of="counts", bag_temperature=1.0)
    with torch.no_grad():
        model.head.classifier.weight.copy_(1e4 * torch.eye(C, D))
        model.head.classifier.bias.zero_()
    with torch.autocast("cpu", torch.bfloat16):
        features = torch.eye(D)[torch.arange(sum(sizes)) % 2]
        log_probs = model.aggregate(features, Segments(sizes)).bag_log_probs[0]
    assert log_probs[0].item() - log_probs[1].item() == pytest.approx(1.0, abs=1e-4)
    assert log_probs[1].item() - log_probs[2].item() == pytest.approx(1000.0, abs=1e-3)


# ---------------------------------------------------------------- names and options


@pytest.mark.parametrize(
    ("name", "options", "facts"),
    [
        ("majority", {}, ("no method 'majority'", "count, soft-count", "register")),
        ("count", {"temperature": 1}, ("count has no option 'temperature'", "instance_temperature, bag_te")),
        ("vote", {"of": "counts"}, ("vote has no option 'of'", "none")),
        ("count", {"of": "count"}, ("of='count'", "'proportions'", "'counts'")),
        ("soft-count", {"bag_temperature": -1.0}, ("bag_temperature=-1.0", "above 0")),
        ("additive-transmil", {"attention": "fast"}, ("attention='fast'", "exact, published")),
        ("feature-mean", {"pool": "median"}, ("pool='median'", "mean, max, pnorm, lse")),
    ],
)
def test_wrong_names_and_options_are_errors(name, options, facts):
    with pytest.raises(InputError) as error:
        create_head(name, D, C, **options)
    assert all(fact in str(error.value) for fact in facts), error.value


# ---------------------------------------------------------------- what is learned


def blobs(n_bags, scenario, seed, n_classes=4):
    """Normal blobs 2.8 apart with standard deviation 0.4: almost separable."""
    rng = np.random.default_rng(seed)
    classes = np.arange(2000) % n_classes
    store = (2 * np.eye(n_classes, 6)[classes] + 0.4 * rng.normal(size=(2000, 6))).astype(np.float32)
    return make_bags(store, classes, "abcd", n_bags=n_bags, size=16, scenario=scenario, rng=rng)


def trained(name, scenario, n_bags):
    train, val, test = (blobs(n, scenario, seed=i) for i, n in enumerate((n_bags, 30, 60)))
    model = build_model(train, name, "mlp")
    fit(model, train, val, Settings(epochs=12, batch_bags=10, learning_rate=5e-3), device="cpu")
    return evaluate(model, test, "cpu").summary()


def test_small_majorities_separate_counting_from_naive():
    """Naive fits the mixture of its bags: at majorities of 40 to 50 % it is underconfident and wrong more often."""
    figures = {name: trained(name, (0.4, 0.5), n_bags=100) for name in ("count", "vote", "naive")}
    naive = figures.pop("naive")
    assert naive["calibration_error"] > 0.4
    for name, of_method in figures.items():
        assert of_method["instance_accuracy"] > max(0.98, naive["instance_accuracy"]), name
        assert of_method["calibration_error"] < 0.1, name


def test_adjusted_mean_finds_classes_that_rarely_win():
    """The first class wins a hundred times as often as the last."""
    parts = load_source("digits").make_parts(scenario="various", winner_ratio=100, bags=100, bag_size=32)
    scores = {}
    for method in ("log-mean", "adjusted-mean"):
        model = build_model(parts.train, method)
        fit(model, parts.train, parts.val, Settings(epochs=20), device="cpu", title=None)
        scores[method] = evaluate(model, parts.test, "cpu").summary()["macro_f1"]
    assert scores["adjusted-mean"] > scores["log-mean"] + 0.05


# ---------------------------------------------------------------- what reaches a loss


def weights_after_fit(name, train, val):
    model = build_model(train, name, "mlp")
    fit(model, train, val, Settings(epochs=2, batch_bags=4), device="cpu")
    return model.state_dict()


def scrambled(bags, seed):
    other = bags.subset(range(len(bags)))
    other.instance_labels = np.random.default_rng(seed).integers(C, size=len(bags.index))
    return other


@every_method
def test_instance_labels_reach_only_the_reference_methods(name):
    train, val = small_bags(0), small_bags(1, n_bags=5)
    weights = weights_after_fit(name, train, val)
    other = weights_after_fit(name, scrambled(train, 5), scrambled(val, 6))
    assert all(torch.equal(weights[key], other[key]) for key in weights) is (name not in SEEING)
    if name in SEEING:
        with pytest.raises(InputError, match=f"method {name} is a reference method.* instance labels"):
            weights_after_fit(name, train.without_instance_labels(), val)


def test_only_the_labels_that_are_asked_for_reach_training():
    train, val = small_bags(0), small_bags(1, n_bags=5)
    asked = use_instance_labels(train, per_class=1)
    plain, other = (weights_after_fit("count", bags, val) for bags in (train, asked))
    rest = weights_after_fit("count", scrambled(asked, 5), use_instance_labels(val))
    assert not all(torch.equal(plain[key], other[key]) for key in plain)
    assert all(torch.equal(rest[key], other[key]) for key in rest)


@every_method
def test_a_method_follows_weights_or_says_that_it_cannot(name):
    plain, bags = small_bags(), small_bags(weighted=True)
    if METHODS[name].kind.uses_weights:
        one, other = (weights_after_fit(name, some, some) for some in (plain, bags))
        assert all(torch.equal(one[key], other[key]) for key in one) is (name == "supervised")
        return
    with pytest.raises(InputError, match=f"weights, which method {re.escape(name)} cannot follow: .*use one of count"):
        weights_after_fit(name, bags, bags)
