"""AdditiveTransMIL: a transformer over the bag (Shao et al., "TransMIL", NeurIPS 2021) with additive predictions
(Javed et al., "Additive MIL", NeurIPS 2022). The logits of the bag are the sum of those of its instances after
self-attention.

By default, attention is exact and stays within the bag. This differs from the published program on purpose: its
Nystrom attention depends on the ORDER of the instances (a convolution over it, landmarks that average neighbours),
attends to the zeros that pad the bag, and scales its iteration by a maximum over all bags of the batch. A bag is a set:
its prediction must not depend on an order or on other bags. ``attention="published"`` is the published form, for
comparison with published results.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ...data.segments import Segments
from ...losses import BagOutput
from .base import Head
from .nystrom import NystromAttention

WIDTH, HEADS, HIDDEN = 512, 8, 256
ATTENTIONS = ("exact", "published")

Groups = list[tuple[int, int]]  # (bags, size) of consecutive bags of one size


class SelfAttention(nn.Module):
    """Instances attend to the instances of their bag."""

    def __init__(self, attention: str):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.attend = NystromAttention(HEADS) if attention == "published" else scaled_dot_product_attention
        self.out = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.1))

    def forward(self, x: Tensor, groups: Groups) -> Tensor:  # (n, width) -> (n, width)
        qkv = self.qkv(self.norm(x)).split([bags * size for bags, size in groups])
        mixed = [self._within_bags(piece, *group) for piece, group in zip(qkv, groups, strict=True)]
        return x + self.out(mixed[0] if len(mixed) == 1 else torch.cat(mixed))

    def _within_bags(
        self, qkv: Tensor, bags: int, size: int
    ) -> Tensor:  # (bags * size, 3 width) -> (bags * size, width)
        q, k, v = qkv.view(bags, size, 3, HEADS, -1).permute(2, 0, 3, 1, 4)  # each (bags, heads, size, width / heads)
        return self.attend(q, k, v).transpose(1, 2).reshape(bags * size, WIDTH)


class AdditiveTransMIL(Head):
    needs_bag = True

    def __init__(self, in_features: int, n_classes: int, attention: str = "exact"):
        super().__init__()
        if attention not in ATTENTIONS:
            raise ValueError(f"attention={attention!r}: use one of {', '.join(ATTENTIONS)}")
        self.embed = nn.Sequential(nn.Linear(in_features, WIDTH), nn.ReLU())
        self.layers = nn.ModuleList(SelfAttention(attention) for _ in range(2))
        self.classifier = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_classes)
        )

    def aggregate(self, features: Tensor, segments: Segments) -> BagOutput:
        groups, order = segments.by_size
        x = self.embed(features if order is None else features[order])  # (n, width)
        for layer in self.layers:
            x = layer(x, groups)
        logits = self.classifier(x)  # (n, C)
        if order is not None:
            logits = torch.empty_like(logits).index_copy(0, order, logits)
        return BagOutput(logits.log_softmax(dim=1), segments.sum(logits).log_softmax(dim=1))
