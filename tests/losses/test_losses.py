"""The counting heads, vote, naive and the reference methods: references, limits, and training."""

import itertools
import math

import numpy as np
import pytest
import torch
from cases import each
from scipy.special import log_softmax
from scipy.stats import norm

from majority import Bags, Settings, build_model, evaluate, fit, make_bags
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.data.training_labels import use_instance_labels
from majority.errors import InputError
from majority.nn.methods import METHODS, create_head
from majority.training import objectives

D, C = 6, 5
HEADS = ("count", "soft-count", "count-only", "log-mean", "vote", "naive", "proportion", "supervised")
SIZES = {"ragged": [3, 1, 7, 2], "equal": [4, 4, 4], "single instances": [1, 1], "one instance": [1]}
every_head = pytest.mark.parametrize("name", HEADS)
every_size = each(sizes=SIZES.values())
LABEL_METHODS = [name for name, method in METHODS.items() if not method.kind.sees_instance_labels]


def make_head(name, **options):
    torch.manual_seed(0)
    head = create_head(name, D, C, **options).double().eval()
    torch.nn.init.normal_(head.classifier.weight)  # logits that differ more than those of initial weights
    return head


def make_features(n, seed=1):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_target(sizes, seed=2):
    generator = torch.Generator().manual_seed(seed)
    labels, instance_labels = (torch.randint(C, (n,), generator=generator) for n in (len(sizes), sum(sizes)))
    return Target.of(labels, C)._replace(instance_labels=instance_labels)


# ---------------------------------------------------------------- references for one bag

TEMPERATURES = {"count": (0.1, 0.1), "soft-count": (1.0, 0.1), "count-only": (0.1, None), "log-mean": (1.0, None)}


def reference(name, logits, label, truth, of="proportions"):
    """Logits (size, C), label of the bag, classes of its instances -> instance and bag log-probabilities, loss."""
    t1, t2 = TEMPERATURES.get(name, (1.0, None))
    instances = log_softmax(logits / t1, axis=1)
    p = np.exp(instances)
    proportions = sum(p) / len(p)
    if name == "vote":
        scores = np.zeros(C)
        for y, k in itertools.permutations(range(C), 2):
            mu = sum(p[:, y] - p[:, k])
            s2 = sum(p[:, y] + p[:, k] - (p[:, y] - p[:, k]) ** 2) + 1e-6
            scores[y] += norm.logcdf(mu / math.sqrt(s2))
        return instances, log_softmax(scores), -scores[label]
    bag = np.log(proportions)
    if t2 is not None:
        bag = log_softmax((proportions if of == "proportions" else sum(p)) / t2)
    if name == "naive":
        return instances, bag, np.mean([-row[label] for row in instances])
    if name == "supervised":
        return instances, bag, np.mean([-row[y] for row, y in zip(instances, truth, strict=True)])
    if name == "proportion":
        return instances, bag, sum(-np.mean(truth == c) * bag[c] for c in range(C))
    return instances, bag, -bag[label]


@every_size
@pytest.mark.parametrize(("name", "options"), [*((name, {}) for name in HEADS), ("count", {"of": "counts"})])
def test_head_equals_its_reference(name, options, sizes):
    head, features, segments = make_head(name, **options), make_features(sum(sizes)), Segments(sizes)
    target = make_target(sizes)
    output = head(features, segments)
    losses = head.losses(output, segments, target)
    assert losses.shape == (len(sizes),)
    weight, bias = (parameter.detach().numpy() for parameter in head.classifier.parameters())
    bags = zip(features.split(sizes), target.labels, target.instance_labels.split(sizes), strict=True)
    parts = [reference(name, bag.numpy() @ weight.T + bias, int(y), truth.numpy(), **options) for bag, y, truth in bags]
    instances, bag_log_probs, expected = zip(*parts, strict=True)
    np.testing.assert_allclose(output.instance_log_probs.detach(), np.concatenate(instances), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(output.bag_log_probs.detach(), np.stack(bag_log_probs), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(losses.detach(), expected, rtol=1e-7, atol=1e-9)


# ---------------------------------------------------------------- bags are sets and independent of each other


@every_head
@every_size
def test_order_within_a_bag_does_not_matter(name, sizes):
    head, features, segments = make_head(name), make_features(sum(sizes)), Segments(sizes)
    rng = np.random.default_rng(2)
    order = np.concatenate(
        [part[rng.permutation(len(part))] for part in np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1])]
    )
    straight, permuted = head(features, segments), head(features[order], segments)
    torch.testing.assert_close(permuted.bag_log_probs, straight.bag_log_probs)
    torch.testing.assert_close(permuted.instance_log_probs, straight.instance_log_probs[order])


@every_head
@every_size
def test_a_bag_does_not_depend_on_the_others(name, sizes):
    head, features, target = make_head(name), make_features(sum(sizes)), make_target(sizes)
    packed = head(features, Segments(sizes))
    losses = head.losses(packed, Segments(sizes), target)
    truths = target.instance_labels.split(sizes)
    for i, bag in enumerate(features.split(sizes)):
        alone = head(bag, Segments([len(bag)]))
        torch.testing.assert_close(packed.bag_log_probs[i : i + 1], alone.bag_log_probs)
        torch.testing.assert_close(packed.instance_log_probs.split(sizes)[i], alone.instance_log_probs)
        loss = head.losses(alone, Segments([len(bag)]), Target(target.allowed[i : i + 1], instance_labels=truths[i]))
        torch.testing.assert_close(losses[i : i + 1], loss)


# ---------------------------------------------------------------- limits


def train_step(head, features, sizes):
    segments, target = Segments(sizes), make_target(sizes)
    output = head(features, segments)
    losses = head.losses(output, segments, target)
    losses.mean().backward()
    return output, losses


COLD = {"instance_temperature": 1e-3, "bag_temperature": 1e-3}


@pytest.mark.parametrize(
    ("name", "options"),
    [
        *((name, {}) for name in HEADS),
        ("count", COLD),
        ("count", COLD | {"of": "counts"}),
        ("count-only", {"instance_temperature": 1e-3}),
    ],
)
@each(sizes=[[1], [3, 1, 7, 2], [20_000, 1]], scale=[0.0, 1.0, 1e6])
def test_outputs_losses_and_gradients_are_finite(name, options, sizes, scale):
    torch.manual_seed(0)
    head = create_head(name, D, C, **options)
    features = (scale * make_features(sum(sizes))).float().requires_grad_()
    output, losses = train_step(head, features, sizes)
    assert losses.isfinite().all()
    assert output.bag_log_probs.isfinite().all()
    assert output.instance_log_probs.isfinite().all()
    for tensor in (features, *head.parameters()):
        assert tensor.grad.isfinite().all()


def small_bags(seed=0, n_bags=12, sizes=(1, 2, 5, 9)):
    """Vectors with random instance labels, and bag labels that are not always the most common class."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice(sizes, size=n_bags)
    lists = [rng.normal(size=(size, D)).astype(np.float32) for size in sizes]
    truth = [rng.integers(C, size=size) for size in sizes]
    return Bags.from_lists(lists, np.arange(n_bags) % C, "abcde", instance_labels=truth)


@every_head
@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.filterwarnings("ignore:mkldnn_matmul")  # a CPU without bf16
def test_gradients_reach_the_backbone_and_heads_compute_in_float32(name, bf16):
    bags = small_bags()
    model = build_model(bags, name, "mlp")
    segments, instances = Segments(bags.sizes), torch.from_numpy(bags.instances())
    target = Target.of(torch.from_numpy(bags.labels), C)._replace(
        instance_labels=torch.from_numpy(bags.instance_labels)
    )
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        assert model.backbone(model.normalise(instances)).dtype == (torch.bfloat16 if bf16 else torch.float32)
        output = model(instances, segments)
        losses = model.head.losses(output, segments, target)
    assert output.bag_log_probs.dtype == output.instance_log_probs.dtype == losses.dtype == torch.float32
    losses.mean().backward()
    for parameter in model.parameters():
        assert parameter.grad.isfinite().all()
        assert parameter.grad.abs().sum() > 0


@pytest.mark.parametrize("sizes", [[2001], [2001, 7]], ids=str)
def test_counts_are_not_computed_in_bf16(sizes):
    """1,001 instances of class 0 and 1,000 of class 1 differ by one, which bf16 cannot represent."""
    bags = small_bags()
    model = build_model(bags, "count", torch.nn.Identity(), of="counts", bag_temperature=1.0)
    with torch.no_grad():
        model.head.classifier.weight.copy_(1e4 * torch.eye(C, D))
        model.head.classifier.bias.zero_()
    classes = torch.arange(sum(sizes)) % 2
    with torch.autocast("cpu", torch.bfloat16):
        log_probs = model.aggregate(torch.eye(D)[classes], Segments(sizes)).bag_log_probs[0]
    assert log_probs[0].item() - log_probs[1].item() == pytest.approx(1.0, abs=1e-4)
    assert log_probs[1].item() - log_probs[2].item() == pytest.approx(1000.0, abs=1e-3)


# ---------------------------------------------------------------- names and options


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("majority", {}, "there is no method 'majority': use one of count, soft-count, .*, supervised, or register"),
        (
            "count",
            {"temperature": 1},
            "method count has no option 'temperature': it takes instance_temperature, bag_te",
        ),
        ("vote", {"of": "counts"}, "method vote has no option 'of': it takes none"),
        ("count", {"of": "count"}, r"method count: of='count': use 'proportions' .* or 'counts'"),
        ("count", {"instance_temperature": None}, "method count: instance_temperature is None: it must be above 0"),
        ("count", {"instance_temperature": 0}, "method count: instance_temperature is 0: it must be above 0"),
        ("soft-count", {"bag_temperature": -1.0}, "method soft-count: bag_temperature is -1.0: it must be above 0"),
    ],
)
def test_wrong_names_and_options_are_errors(name, options, message):
    with pytest.raises(InputError, match=message):
        create_head(name, D, C, **options)


# ---------------------------------------------------------------- trained on blobs


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


@every_head
def test_large_majorities_are_enough_to_classify_instances(name):
    figures = trained(name, "large", n_bags=60)
    assert figures["instance_accuracy"] >= (0.98 if name in ("proportion", "supervised") else 0.95)
    assert figures["bag_accuracy"] >= 0.95
    assert figures["consistency_rate"] >= 0.95


def test_small_majorities_separate_counting_from_naive():
    """Naive fits the mixture of its bags: at majorities of 40 to 50 % it is underconfident and wrong more often."""
    figures = {name: trained(name, (0.4, 0.5), n_bags=100) for name in ("count", "vote", "naive")}
    naive = figures.pop("naive")
    assert naive["calibration_error"] > 0.4
    for name, figures_of_method in figures.items():
        assert figures_of_method["instance_accuracy"] > max(0.98, naive["instance_accuracy"]), name
        assert figures_of_method["bag_accuracy"] > 0.9, name
        assert figures_of_method["calibration_error"] < 0.1, name


# ---------------------------------------------------------------- instance labels cannot leak


def weights_after_fit(name, train, val):
    model = build_model(train, name, "mlp")
    fit(model, train, val, Settings(epochs=2, batch_bags=4), device="cpu")
    return model.state_dict()


def scrambled(bags, seed):
    other = bags.subset(range(len(bags)))
    other.instance_labels = np.random.default_rng(seed).integers(C, size=len(bags.index))
    return other


@pytest.mark.parametrize("name", ["count", "supervised"])
def test_a_loss_gets_instance_labels_only_if_its_head_declares_it(name, monkeypatch):
    given, loss = [], METHODS[name].kind
    compute = loss.compute
    monkeypatch.setattr(
        loss,
        "compute",
        lambda self, out, segments, target: given.append(target) or compute(self, out, segments, target),
    )
    weights_after_fit(name, small_bags(0), small_bags(1, n_bags=5))
    assert len(given) == 1 + 2 * (3 + 1)  # a trial, then two epochs of three steps and one validation
    assert {target.instance_labels is None for target in given} == {name == "count"}


def test_a_loss_gets_training_labels_only_of_bags_that_have_them(monkeypatch):
    given, instance_losses = [], objectives.instance_losses

    def recorded(output, segments, target):
        given.append(target.training_labels)
        return instance_losses(output, segments, target)

    monkeypatch.setattr(objectives, "instance_losses", recorded)
    train, val = small_bags(0), small_bags(1, n_bags=5)
    plain = weights_after_fit("count", train, val)
    assert not given, "nobody asked for them"
    asked = use_instance_labels(train, per_class=1)
    other = weights_after_fit("count", asked, use_instance_labels(val))
    assert sum(int((labels >= 0).sum()) for labels in given) == 2 * C  # in each of two epochs; none by validation
    assert not all(torch.equal(plain[key], other[key]) for key in plain)
    rest = scrambled(asked, 5)  # all that is not asked for stays hidden
    assert all(torch.equal(weight, other[key]) for key, weight in weights_after_fit("count", rest, val).items())


@pytest.mark.parametrize("name", METHODS)
def test_instance_labels_reach_only_the_reference_lines(name):
    train, val = small_bags(0), small_bags(1, n_bags=5)
    weights = weights_after_fit(name, train, val)
    other = weights_after_fit(name, scrambled(train, 5), scrambled(val, 6))
    same = all(torch.equal(weights[key], other[key]) for key in weights)
    assert same is (name in LABEL_METHODS)
    if name not in LABEL_METHODS:
        with pytest.raises(InputError, match=f"method {name} is a reference method.* instance labels"):
            weights_after_fit(name, train.without_instance_labels(), val)
