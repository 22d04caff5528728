"""The comparison methods of the paper, each against a reference for one bag."""

import math
import sys

import numpy as np
import pytest
import torch
from cases import each
from torch import nn

from majority import Bags, build_model
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.errors import InputError
from majority.nn.heads.feature_pool import p_norm
from majority.nn.methods import METHODS, create_head

HEADS = (
    *("output-mean", "feature-mean", "feature-max", "feature-pnorm", "feature-lse"),
    *("attention", "additive", "additive-transmil"),
)
SIZES = {"ragged": [3, 1, 5, 3, 2], "equal": [4, 4, 4], "single instances": [1, 1], "one instance": [1]}
D, C = 6, 5

ragged_and_equal = each(sizes=SIZES.values())
every_head = pytest.mark.parametrize("name", HEADS)
both_attentions = pytest.mark.parametrize("attention", ["exact", "published"])


def make_head(name, seed=0, **options):
    """In float64 and eval mode, with non-trivial batch norm statistics."""
    torch.manual_seed(seed)
    head = create_head(name, D, C, **options).double().eval()
    for module in head.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2)
    return head


def make_features(n, seed=1):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# ---------------------------------------------------------------- references for one bag


def linear(layer, x):
    out = x @ layer.weight.T
    return out if layer.bias is None else out + layer.bias


def softmax(x, dim):
    return x.exp() / x.exp().sum(dim=dim, keepdim=True)


def reference_output_mean(head, bag):
    logits = linear(head.classifier, bag)
    mean = sum(softmax(row, 0) for row in logits) / len(bag)
    return logits, mean  # softmax(mean) is the prediction


def reference_pool(pool):
    def reference(head, bag):
        return linear(head.classifier, bag), linear(head.classifier, pool(bag))

    return reference


def reference_attention(head, bag):
    scores = torch.stack([linear(head.score[2], linear(head.score[0], row).tanh())[0] for row in bag])
    weights = softmax(scores, 0)
    pooled = sum(weight * row for weight, row in zip(weights, bag, strict=True))
    return linear(head.classifier, bag), linear(head.classifier, pooled)


def reference_additive(head, bag):
    x = bag
    for first in (0, 3):
        x, norm = linear(head.score[first], x), head.score[first + 1]
        x = (x - norm.running_mean) / (norm.running_var + norm.eps).sqrt() * norm.weight + norm.bias
        x = torch.where(x > 0, x, 0.2 * x)
    weights = softmax(linear(head.score[6], x), 0)  # (size, 1)
    x = weights * bag
    for layer in (head.classifier[0], head.classifier[2]):
        x = linear(layer, x).clamp(min=0)
    summands = linear(head.classifier[4], x)
    return summands, summands.sum(dim=0)


def layer_norm(norm, x):
    mean, variance = x.mean(dim=1, keepdim=True), x.var(dim=1, unbiased=False, keepdim=True)
    return (x - mean) / (variance + norm.eps).sqrt() * norm.weight + norm.bias


def reference_transmil(head, bag):
    x = linear(head.embed[0], bag).clamp(min=0)  # (size, 512)
    for layer in head.layers:
        q, k, v = linear(layer.qkv, layer_norm(layer.norm, x)).split(512, dim=1)
        heads = []
        for h in range(8):
            part = slice(64 * h, 64 * h + 64)
            weights = softmax(q[:, part] @ k[:, part].T / 8, 1)
            heads.append(weights @ v[:, part])
        x = x + linear(layer.out[0], torch.cat(heads, dim=1))
    norm, hidden, _, last = head.classifier
    summands = linear(last, linear(hidden, layer_norm(norm, x)).clamp(min=0))
    return summands, summands.sum(dim=0)


REFERENCES = {
    "output-mean": reference_output_mean,
    "feature-mean": reference_pool(lambda bag: bag.mean(dim=0)),
    "feature-max": reference_pool(lambda bag: torch.stack([max(column) for column in bag.T])),
    "feature-pnorm": reference_pool(lambda bag: (bag.clamp(min=0) ** 4).sum(dim=0) ** 0.25),
    "feature-lse": reference_pool(lambda bag: (4 * bag).exp().sum(dim=0).log()),
    "attention": reference_attention,
    "additive": reference_additive,
    "additive-transmil": reference_transmil,
}


@every_head
@ragged_and_equal
def test_head_equals_its_reference(name, sizes):
    head, features = make_head(name), make_features(sum(sizes))
    output = head(features, Segments(sizes))
    start = 0
    for i, size in enumerate(sizes):
        instances, bag = REFERENCES[name](head, features[start : start + size])
        expected = softmax(instances, 1).log()
        torch.testing.assert_close(output.instance_log_probs[start : start + size], expected, rtol=1e-8, atol=1e-8)
        torch.testing.assert_close(output.bag_log_probs[i], softmax(bag, 0).log(), rtol=1e-8, atol=1e-8)
        start += size


@every_head
@ragged_and_equal
def test_order_within_a_bag_does_not_matter(name, sizes):
    head, features, segments = make_head(name), make_features(sum(sizes)), Segments(sizes)
    starts = np.cumsum([0, *sizes[:-1]])
    rng = np.random.default_rng(2)
    order = np.concatenate([start + rng.permutation(size) for start, size in zip(starts, sizes, strict=True)])
    straight, permuted = head(features, segments), head(features[order], segments)
    torch.testing.assert_close(permuted.bag_log_probs, straight.bag_log_probs)
    torch.testing.assert_close(permuted.instance_log_probs, straight.instance_log_probs[order])


@every_head
@ragged_and_equal
def test_a_bag_does_not_depend_on_the_others(name, sizes):
    head, features = make_head(name), make_features(sum(sizes))
    packed = head(features, Segments(sizes))
    alone = [head(bag, Segments([len(bag)])) for bag in features.split(sizes)]
    torch.testing.assert_close(packed.instance_log_probs, torch.cat([bag.instance_log_probs for bag in alone]))
    torch.testing.assert_close(packed.bag_log_probs, torch.cat([bag.bag_log_probs for bag in alone]))

    other = features.clone()
    other[sizes[0] :] = make_features(sum(sizes[1:]), seed=9)
    torch.testing.assert_close(head(other, Segments(sizes)).bag_log_probs[0], packed.bag_log_probs[0])


@every_head
def test_needs_bag_is_true_if_an_instance_depends_on_its_bag(name):
    head, features = make_head(name), make_features(4)
    within = head(features, Segments([4])).instance_log_probs
    alone = head(features, Segments([1] * 4)).instance_log_probs
    assert METHODS[name].needs_bag is not torch.allclose(within, alone)


# ---------------------------------------------------------------- training


def train_step(head, features, sizes):
    labels = torch.arange(len(sizes)) % C
    segments = Segments(sizes)
    output = head(features, segments)
    head.losses(output, segments, Target.of(labels, output.bag_log_probs.shape[1])).mean().backward()
    return output


@every_head
@ragged_and_equal
@pytest.mark.parametrize("kind", ["random", "zero", "huge"])
def test_gradients_are_finite_and_reach_the_features(name, sizes, kind):
    torch.manual_seed(0)
    head = create_head(name, D, C).train()
    features = make_features(sum(sizes)).float() * {"random": 1, "zero": 0, "huge": 1e15}[kind]
    features.requires_grad_()
    train_step(head, features, sizes)
    for parameter in (features, *head.parameters()):
        assert parameter.grad.isfinite().all()
    if kind == "random":
        touched = features.grad.abs().sum(dim=1) > 0
        assert touched.any() if name in ("feature-max", "feature-pnorm") else touched.all()


@every_head
def test_through_a_model_in_bfloat16(name):
    rng = np.random.default_rng(0)
    lists = [rng.normal(size=(size, 7)).astype(np.float32) for size in SIZES["ragged"]]
    model = build_model(Bags.from_lists(lists, labels=["a", "b", "c", "a", "b"]), name, "mlp").train()
    segments = Segments(SIZES["ragged"])
    with torch.autocast("cpu", torch.bfloat16):
        output = model(torch.from_numpy(np.concatenate(lists)), segments)
        losses = model.head.losses(output, segments, Target.of(torch.tensor([0, 1, 2, 0, 1]), 3))
    assert output.bag_log_probs.dtype == output.instance_log_probs.dtype == losses.dtype == torch.float32
    torch.testing.assert_close(output.bag_log_probs.exp().sum(dim=1), torch.ones(5))
    losses.mean().backward()
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


@every_head
def test_the_loss_decreases(name):
    torch.manual_seed(0)
    head = create_head(name, D, C)
    sizes = [4, 6, 5, 3, 7]
    features = (torch.eye(C, D) * 3).repeat_interleave(torch.tensor(sizes), dim=0) + 0.1 * make_features(25).float()
    target, segments = Target.of(torch.arange(5), 5), Segments(sizes)
    optimizer = torch.optim.Adam(head.parameters(), lr=3e-3)
    losses = []
    for _ in range(15):
        losses.append(head.losses(head(features, segments), segments, target).mean())
        optimizer.zero_grad()
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < losses[0] - 0.01


# ---------------------------------------------------------------- single methods


def test_output_mean_applies_softmax_three_times():
    head, features, segments = make_head("output-mean"), make_features(7), Segments([3, 4])
    output = head(features, segments)
    losses = head.losses(output, segments, Target.of(torch.tensor([1, 4]), 5))
    for i, (bag, label) in enumerate(zip(features.split([3, 4]), (1, 4), strict=True)):
        _, mean = reference_output_mean(head, bag)
        torch.testing.assert_close(losses[i], -softmax(softmax(mean, 0), 0)[label].log())


def test_output_mean_loss_of_ten_classes_stays_between_its_bounds():
    head = create_head("output-mean", 10, 10)
    with torch.no_grad():
        head.classifier.weight.copy_(100 * torch.eye(10))
        head.classifier.bias.zero_()
    segments = Segments([4])
    losses = [
        head.losses(head(torch.eye(10)[[0] * 4], segments), segments, Target.of(torch.tensor([label]), 10))
        for label in (0, 1)
    ]
    right, wrong = math.e / (math.e + 9), 1 / (math.e + 9)
    log_total = math.log(math.exp(right) + 9 * math.exp(wrong))
    assert losses[0].item() == pytest.approx(log_total - right, abs=1e-5) == pytest.approx(2.17, abs=0.005)
    assert losses[1].item() == pytest.approx(log_total - wrong, abs=1e-5) == pytest.approx(2.32, abs=0.005)


@ragged_and_equal
def test_p_norm_gradient_is_correct_and_zero_if_nothing_is_positive(sizes):
    features = make_features(sum(sizes)).requires_grad_()
    assert torch.autograd.gradcheck(lambda x: p_norm(x, Segments(sizes)), features)
    dead = torch.zeros(sum(sizes), 2, requires_grad=True)
    p_norm(dead, Segments(sizes)).sum().backward()
    assert (dead.grad == 0).all()


def test_p_norm_neither_overflows_nor_underflows():
    pooled = p_norm(torch.tensor([[1e20, 1e-20], [1e20, 1e-20]]), Segments([2]))
    torch.testing.assert_close(pooled, 2**0.25 * torch.tensor([[1e20, 1e-20]]))


def test_lse_of_large_features_is_finite():
    head = create_head("feature-lse", D, C)
    assert head(torch.full((3, D), 1e3), Segments([2, 1])).bag_log_probs.isfinite().all()


def test_additive_batch_norm_of_one_instance_keeps_its_statistics():
    head = create_head("additive", D, C).train()
    before = {name: value.clone() for name, value in head.state_dict().items()}
    head(torch.randn(1, D), Segments([1]))
    assert all(torch.equal(value, before[name]) for name, value in head.state_dict().items())
    head(torch.randn(2, D), Segments([1, 1]))
    assert not torch.equal(head.score[1].running_mean, before["score.1.running_mean"])


def test_unknown_options_are_errors():
    with pytest.raises(InputError, match="method additive-transmil: attention='fast': use one of exact, published"):
        create_head("additive-transmil", D, C, attention="fast")
    with pytest.raises(InputError, match="pool='median': use one of mean, max, pnorm, lse"):
        create_head("feature-mean", D, C, pool="median")


def test_sizes_on_the_host_are_the_sizes():
    segments = Segments([2, 1, 2])
    assert segments.host_sizes.tolist() == segments.sizes.tolist() == [2, 1, 2]


def test_bags_of_equal_size_are_grouped():
    groups, order = Segments([2, 3, 1, 2, 3]).by_size
    assert groups == [(1, 1), (2, 2), (2, 3)]
    assert order.tolist() == [5, 0, 1, 6, 7, 2, 3, 4, 8, 9, 10]
    assert Segments([4, 4]).by_size == ([(2, 4)], None)


PEAK_OF_A_STEP = """
import resource, sys, torch
from majority.data.targets import Target
from majority.nn.methods import create_head
from majority.data.segments import Segments
torch.set_num_threads(1)
head = create_head("additive-transmil", 16, 3).train()
def step(n):
    segments = Segments([n])
    head.losses(head(torch.randn(n, 16), segments), segments, Target.of(torch.tensor([0]), 3)).mean().backward()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
print(-step(64) + step(int(sys.argv[1])))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss is in kilobytes only on Linux")
def test_memory_of_exact_attention_grows_with_the_bag_not_its_square(run_program):
    """One bag of 10,000 in float32 on one core of a CPU, features of 512, torch 2.13: 171 MiB above the start in eval
    mode (18 s), 406 MiB for a training step (59 s); its attention matrices would take 3,052 MiB per layer.
    """
    n = 2_000
    peak = int(run_program(PEAK_OF_A_STEP, n))
    one_layer_of_matrices = 8 * n * n * 4 / 2**20  # MiB
    assert peak < one_layer_of_matrices
