"""Muon against its formulas, computed by singular values."""

import copy

import torch
from torch import nn

from majority.training.optimizers import Muon


def by_singular_values(matrix):
    """The matrix with each singular value s (of the matrix at norm 1) put through five rounds of the polynomial."""
    left, values, right = torch.linalg.svd(matrix.double() / matrix.double().norm(), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return left @ torch.diag(values) @ right


def test_steps_follow_the_formulas():
    torch.manual_seed(0)
    first, others = nn.Conv2d(3, 5, 3, bias=False), [nn.Conv2d(5, 5, 3) for _ in range(2)]
    layers = nn.Sequential(first, nn.BatchNorm2d(5), nn.ReLU(), *others, nn.Flatten(), nn.Linear(5, 7))
    layers.to(memory_format=torch.channels_last)
    mine, rate, decay, momentum = copy.deepcopy(layers), 0.02, 0.1, 0.95
    optimizer = Muon(layers.parameters(), lr=rate, weight_decay=decay, momentum=momentum, fused=True)
    plain = torch.optim.AdamW([p for p in mine.parameters() if p.ndim == 1], lr=rate, weight_decay=decay)
    matrices = [p for p in mine.parameters() if p.ndim > 1]
    moments = [torch.zeros_like(p) for p in matrices]
    for _ in range(3):
        images, wanted = torch.randn(7, 3, 7, 7), torch.randn(7, 7)
        for network in (layers, mine):
            network.zero_grad()
            (network(images) - wanted).square().mean().backward()
        optimizer.step()
        plain.step()
        for p, moment in zip(matrices, moments, strict=True):
            moment.copy_(momentum * moment + (1 - momentum) * p.grad)
            direction = (momentum * moment + (1 - momentum) * p.grad).flatten(1)
            step = by_singular_values(direction).view(p.shape).float() * 0.2 * max(direction.shape) ** 0.5
            p.data = (1 - rate * decay) * p.data - rate * step
        for one, other in zip(layers.parameters(), mine.parameters(), strict=True):
            torch.testing.assert_close(one.data, other.data, atol=2e-4, rtol=2e-3)
