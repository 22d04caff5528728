"""Nystrom attention as the published AdditiveTransMIL uses it (Xiong et al., "Nystromformer", AAAI 2021).

The n x n attention matrix is approximated through 256 landmarks, which are means of consecutive instances:
softmax(q k'^T) pinv(softmax(q' k'^T)) softmax(q' k^T) v. Bags are padded on the left with zeros that are not masked,
and a depthwise convolution of the values over the order of the instances is added.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

LANDMARKS, ITERATIONS, KERNEL = 256, 6, 33


class NystromAttention(nn.Module):
    def __init__(self, heads: int):
        super().__init__()
        self.over_order = nn.Conv2d(
            heads, heads, (KERNEL, 1), padding=(KERNEL // 2, 0), groups=heads, bias=False
        )  # one filter per head

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:  # each (bags, heads, size, width) -> same shape
        size, width = q.shape[2:]  # padding here equals padding before qkv, which has no bias
        q, k, v = (pad(x, (0, 0, -size % LANDMARKS, 0)) for x in (q * width**-0.5, k, v))
        q_marks, k_marks = landmarks(q), landmarks(k)  # (bags, heads, 256, width)
        to_marks = (q @ k_marks.mT).softmax(dim=-1)
        among_marks = (q_marks @ k_marks.mT).softmax(dim=-1)
        from_marks = (q_marks @ k.mT).softmax(dim=-1)
        mixed = to_marks @ pseudo_inverse(among_marks) @ (from_marks @ v) + self.over_order(v)
        return mixed[:, :, -size:]


def landmarks(x: Tensor) -> Tensor:
    """(..., a multiple of 256, width) -> (..., 256, width): means of consecutive rows."""
    return torch.unflatten(x, -2, (LANDMARKS, -1)).mean(dim=-2)


def pseudo_inverse(a: Tensor) -> Tensor:
    """(bags, heads, m, m) -> (bags, heads, m, m), by six steps of a third-order iteration from a^T / (|a|_1 |a|_inf).

    As published, both norms are maxima over all matrices of the batch, so that its bags depend on each other.
    """
    eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
    z = a.mT / (a.abs().sum(dim=-1).max() * a.abs().sum(dim=-2).max())
    for _ in range(ITERATIONS):
        az = a @ z
        z = 0.25 * z @ (13 * eye - az @ (15 * eye - az @ (7 * eye - az)))
    return z
