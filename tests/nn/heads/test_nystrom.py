"""The published attention of additive-transmil against a reference in numpy."""

import math

import numpy as np
import pytest
import torch

from majority.data.segments import Segments
from majority.data.targets import Target
from majority.nn.heads.nystrom import NystromAttention
from majority.nn.methods import create_head

D, C = 6, 5


def make_features(n, seed=1):
    return torch.randn(n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def train_step(head, features, sizes):
    labels = torch.arange(len(sizes)) % C
    segments = Segments(sizes)
    output = head(features, segments)
    head.losses(output, segments, Target.of(labels, output.bag_log_probs.shape[1])).mean().backward()
    return output


def plain_nystrom(q, k, v, filters, scale_over):
    """One head of one bag in numpy: q, k, v (size, 64); `scale_over` are the landmark matrices of the whole batch."""
    size = len(q)
    total = math.ceil(size / 256) * 256
    q, k, v = (np.concatenate([np.zeros((total - size, 64)), x]) for x in (q / 8, k, v))
    a, b, c = plain_attentions(q, k)
    columns = max(np.abs(matrix).sum(axis=0).max() for matrix in scale_over)
    rows = max(np.abs(matrix).sum(axis=1).max() for matrix in scale_over)
    z, eye = b.T / (columns * rows), np.eye(256)
    for _ in range(6):
        z = z @ (13 * eye - b @ z @ (15 * eye - b @ z @ (7 * eye - b @ z))) / 4
    mixed = a @ z @ c @ v
    for column in range(64):
        mixed[:, column] += np.correlate(np.pad(v[:, column], 16), filters, mode="valid")
    return mixed[total - size :]


def plain_attentions(q, k):
    def rows_softmax(x):
        return np.exp(x) / np.exp(x).sum(axis=1, keepdims=True)

    q_marks, k_marks = (np.stack([block.mean(axis=0) for block in np.split(x, 256)]) for x in (q, k))
    return rows_softmax(q @ k_marks.T), rows_softmax(q_marks @ k_marks.T), rows_softmax(q_marks @ k.T)


@pytest.mark.parametrize("size", [5, 256, 300])
def test_published_attention_equals_its_reference(size):
    torch.manual_seed(0)
    heads, bags = 2, 2
    attention = NystromAttention(heads).double()
    q, k, v = torch.randn(3, bags, heads, size, 64, dtype=torch.float64)
    with torch.no_grad():
        out = attention(q, k, v).numpy()
    padding = ((0, 0), (0, 0), (-size % 256, 0), (0, 0))
    padded_q, padded_k = np.pad(q.numpy() / 8, padding), np.pad(k.numpy(), padding)
    every = [plain_attentions(padded_q[b, h], padded_k[b, h])[1] for b in range(bags) for h in range(heads)]
    for b in range(bags):
        for h in range(heads):
            filters = attention.over_order.weight[h, 0, :, 0].detach().numpy()
            expected = plain_nystrom(q[b, h].numpy(), k[b, h].numpy(), v[b, h].numpy(), filters, every)
            np.testing.assert_allclose(out[b, h], expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("sizes", [[1], [257, 2]])
def test_published_form_trains_on_any_sizes(sizes):
    torch.manual_seed(0)
    head = create_head("additive-transmil", D, C, attention="published").train()
    features = make_features(sum(sizes)).float().requires_grad_()
    output = train_step(head, features, sizes)
    assert output.instance_log_probs.shape == (sum(sizes), C)
    assert output.bag_log_probs.shape == (len(sizes), C)
    assert all(parameter.grad.isfinite().all() for parameter in (features, *head.parameters()))
    assert (features.grad.abs().sum(dim=1) > 0).all()


@pytest.mark.parametrize("attention", ["exact", "published"])
def test_transmil_has_the_published_parameters(attention):
    head = create_head("additive-transmil", 512, 10, attention=attention)
    shapes = {name: tuple(value.shape) for name, value in head.named_parameters()}
    assert shapes["embed.0.weight"] == (512, 512)
    assert [shapes[f"layers.{i}.qkv.weight"] for i in range(2)] == [(1536, 512)] * 2
    assert "layers.0.qkv.bias" not in shapes
    assert ("layers.1.attend.over_order.weight" in shapes) is (attention == "published")
    assert shapes["classifier.1.weight"] == (256, 512)
    assert shapes["classifier.3.weight"] == (10, 256)
    assert head.layers[0].out[1].p == 0.1
