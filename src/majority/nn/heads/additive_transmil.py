"""AdditiveTransMIL: a transformer over the bag (Shao et al., "TransMIL", NeurIPS 2021) with additive predictions
(Javed et al., "Additive MIL", NeurIPS 2022). The logits of the bag are the sum of those of its instances after
self-attention.

Attention is exact and stays within the bag. This differs from the published program on purpose: its Nystrom attention
depends on the ORDER of the instances (a convolution over it, landmarks that average neighbours), attends to the zeros
that pad the bag, and scales its iteration by a maximum over all bags of the batch. A bag is a set: its prediction must
not depend on an order or on other bags.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ...data.segments import Segments
from ...losses import BagOutput
from .base import Head

WIDTH, HEADS, HIDDEN = 512, 8, 256


class SelfAttention(nn.Module):
    """Instances attend to the instances of their bag."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.out = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: Tensor, groups: list[tuple[int, int]]) -> Tensor:  # (n, width) -> (n, width)
        """`groups` are (bags, size) of consecutive bags of one size."""
        mixed = []
        for (bags, size), qkv in zip(groups, self.qkv(self.norm(x)).split([b * s for b, s in groups]), strict=True):
            q, k, v = qkv.view(bags, size, 3, HEADS, -1).permute(2, 0, 3, 1, 4)  # (bags, heads, size, width / heads)
            attended = scaled_dot_product_attention(q, k, v)
            mixed.append(attended.transpose(1, 2).reshape(bags * size, WIDTH))
        return x + self.out(torch.cat(mixed))


class AdditiveTransMIL(Head):
    needs_bag = True

    def __init__(self, in_features: int, n_classes: int):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(in_features, WIDTH), nn.ReLU())
        self.layers = nn.ModuleList(SelfAttention() for _ in range(2))
        self.classifier = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_classes)
        )

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        groups, order = segments.by_size
        x = self.embed(features[order])  # (n, width)
        for layer in self.layers:
            x = layer(x, groups)
        logits = self.classifier(x)  # (n, C)
        logits = torch.empty_like(logits).index_copy(0, order, logits)
        return BagOutput(logits.log_softmax(dim=1), segments.sum(logits).log_softmax(dim=1))
