"""AdditiveTransMIL: a transformer over the bag (Shao et al., "TransMIL", NeurIPS 2021) read additively (Javed et al.,
"Additive MIL", NeurIPS 2022). The bag's logits are the sum over its instances, each read after self-attention.

By default attention is exact and stays within the bag, which differs from the published program on purpose:
its Nystrom attention reads the ORDER of the instances (a convolution over it, landmarks that average
neighbours), attends to zeros that pad the bag, and scales its iteration by a maximum over all bags of the
batch. A bag is a set, and its prediction must depend neither on an order nor on its neighbours.
``attention="published"`` is that program's form, for comparison with its figures.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ..data.segments import Segments
from .base import BagOutput, Head
from .nystrom import NystromAttention

WIDTH, HEADS, HIDDEN = 512, 8, 256
ATTENTIONS = ("exact", "published")

Groups = list[tuple[int, int]]  # (bags, size) of consecutive bags of one size


class SelfAttention(nn.Module):
    """Instances attend to the instances of their own bag."""

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

    def _within_bags(self, qkv: Tensor, bags: int, size: int) -> Tensor:  # (bags * size, 3 width) -> (.., width)
        q, k, v = qkv.view(bags, size, 3, HEADS, -1).permute(2, 0, 3, 1, 4)  # each (bags, heads, size, width / heads)
        return self.attend(q, k, v).transpose(1, 2).reshape(bags * size, WIDTH)


class AdditiveTransMIL(Head):
    needs_bag = True

    def __init__(self, in_features: int, n_classes: int, attention: str = "exact"):
        super().__init__()
        if attention not in ATTENTIONS:
            raise ValueError(f"attention={attention!r}: take one of {', '.join(ATTENTIONS)}")
        self.embed = nn.Sequential(nn.Linear(in_features, WIDTH), nn.ReLU())
        self.layers = nn.ModuleList(SelfAttention(attention) for _ in range(2))
        self.classifier = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, n_classes)
        )

    def forward(self, features: Tensor, segments: Segments) -> BagOutput:
        groups, order = segments.by_size
        x = self.embed(features if order is None else features[order])  # (n, width)
        for layer in self.layers:
            x = layer(x, groups)
        summands = self.classifier(x)  # (n, C)
        if order is not None:
            summands = torch.empty_like(summands).index_copy(0, order, summands)
        return BagOutput(summands.log_softmax(dim=1), segments.sum(summands).log_softmax(dim=1))
