"""The published attention of additive-transmil against a reference in numpy."""

import math

import numpy as np
import pytest
import torch

from majority.nn.heads.nystrom import NystromAttention


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
