"""Optimizers by name: Adam, AdamW, and Muon, whose momentum is made orthogonal before it becomes a step."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

ROUNDS = 5
QUINTIC = (3.4445, -4.7750, 2.0315)  # of one round: singular values from 0 to 1 all come near 1 within five
AS_LARGE_AS_ADAM = 0.2  # root mean square of a step's entries, of the learning rate


def create_optimizer(
    name: str, weights: Iterable[nn.Parameter], rate: float, decay: float, device: torch.device
) -> torch.optim.Optimizer:
    """On a GPU it can be captured: its rate is a tensor there."""
    on_gpu = device.type == "cuda"
    common = {"lr": torch.tensor(rate, device=device) if on_gpu else rate, "fused": True, "capturable": on_gpu}
    if name == "adam":
        return torch.optim.Adam(weights, **common)
    return (Muon if name == "muon" else torch.optim.AdamW)(weights, weight_decay=decay, **common)


def moments(optimizer: torch.optim.Optimizer) -> dict[object, Tensor]:
    """All that it remembers."""
    states = optimizer.state.items()
    return {(weight, name): value for weight, state in states for name, value in state.items()}


class Muon(torch.optim.AdamW):
    """Every direction of a weight matrix is learned at one pace, whatever the gradient's scale in it.

    Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024; steps are as large as Adam's are
    (Liu et al., "Muon is scalable for LLM training", 2025), so that one learning rate serves all. Filters count as
    the rows of a matrix. First and last layers are no exception here. Weights without rows and columns (norms, biases)
    learn by AdamW.
    """

    def __init__(self, weights: Iterable[nn.Parameter], momentum: float = 0.95, **of_adamw):
        super().__init__(weights, **of_adamw)
        for group in (self.defaults, *self.param_groups):
            group["momentum"] = momentum

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step_of_matrices(group)
        super().step()  # of all others: no slope is left of those
        return loss

    def _step_of_matrices(self, group: dict) -> None:
        rate, decay, momentum = group["lr"], group["weight_decay"], group["momentum"]
        alike = defaultdict(list)
        for weight in group["params"]:
            if weight.ndim > 1 and weight.grad is not None:
                alike[weight.shape].append(weight)
        for weights in alike.values():
            slopes, past = [weight.grad for weight in weights], [self._moment(weight) for weight in weights]
            torch._foreach_lerp_(past, slopes, 1 - momentum)
            ahead = torch._foreach_lerp(slopes, past, momentum)
            steps = orthogonal(torch.stack(ahead).flatten(2)).view(len(weights), *weights[0].shape)
            larger = max(len(weights[0]), weights[0][0].numel())
            for weight, step in zip(weights, steps * (rate * AS_LARGE_AS_ADAM * larger**0.5), strict=True):
                weight.mul_(1 - rate * decay).sub_(step)
                weight.grad = None

    def __setstate__(self, state: dict) -> None:
        torch.optim.Optimizer.__setstate__(self, state)  # AdamW's looks for its own counts in every state

    def _moment(self, weight: nn.Parameter) -> Tensor:
        state = self.state[weight]
        if not state:
            state["moment"] = torch.zeros_like(weight)
        return state["moment"]


def orthogonal(matrices: Tensor) -> Tensor:  # (k, rows, columns) -> the same, singular values near 1
    a, b, c = QUINTIC
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    if x.is_cuda:
        x = x.bfloat16()
    for _ in range(ROUNDS):
        squares = x @ x.mT
        x = a * x + (b * squares + c * squares @ squares) @ x
    return (x if wide else x.mT).to(matrices.dtype)
