"""Optimizers by name: Adam, AdamW and Muon, whose momentum is orthogonalised before each step."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

NEWTON_SCHULZ_STEPS = 5
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)  # of one step: five bring singular values between 0 and 1 close to 1
ADAM_RMS = 0.2  # root mean square of the entries of a step, relative to the learning rate, as for Adam


def create_optimizer(
    name: str, weights: Iterable[nn.Parameter], rate: float, decay: float, device: torch.device
) -> torch.optim.Optimizer:
    """On a GPU, the optimizer can be captured, and its learning rate is a tensor."""
    on_gpu = device.type == "cuda"
    lr = torch.tensor(rate, device=device) if on_gpu else rate
    kind = Muon if name == "muon" else AdamW
    return kind(weights, lr=lr, weight_decay=0 if name == "adam" else decay, fused=True, capturable=on_gpu)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def moments(optimizer: torch.optim.Optimizer) -> dict[object, Tensor]:
    """All tensors that the optimizer keeps between steps, by weight and name."""
    states = optimizer.state.items()
    return {(weight, name): value for weight, state in states for name, value in state.items()}


class Uncompiled(torch.optim.Optimizer):
    """An optimizer without the wrappers that torch.compile needs: optimizers are not compiled here, and the first call
    of a wrapper imports torch._dynamo, which takes longer than a short training."""

    add_param_group = inspect.unwrap(torch.optim.Optimizer.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.Optimizer.zero_grad)
    state_dict = inspect.unwrap(torch.optim.Optimizer.state_dict)
    load_state_dict = inspect.unwrap(torch.optim.Optimizer.load_state_dict)


class AdamW(Uncompiled, torch.optim.AdamW):
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


class LBFGS(Uncompiled, torch.optim.LBFGS):
    step = torch.no_grad()(inspect.unwrap(torch.optim.LBFGS.step))


class Muon(AdamW):
    """All directions of a weight matrix are learned at the same speed, whatever the scale of the gradient.

    Jordan et al., "Muon: An optimizer for hidden layers in neural networks", 2024. Steps are as large as those of Adam
    (Liu et al., "Muon is scalable for LLM training", 2025), so that the same learning rate fits both. The filters of a
    convolution are the rows of a matrix. The first and the last layer are no exception. Weights that are not matrices
    (norms, biases) are trained by AdamW.
    """

    def __init__(self, weights: Iterable[nn.Parameter], momentum: float = 0.95, **adamw_options: Any):
        super().__init__(weights, **adamw_options)
        for group in (self.defaults, *self.param_groups):
            group["momentum"] = momentum

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            self._step_matrices(group)
        super().step()  # all other weights: the matrices have no gradient left

    def _step_matrices(self, group: dict[str, Any]) -> None:
        rate, decay, momentum = group["lr"], group["weight_decay"], group["momentum"]
        by_shape: dict[torch.Size, list[nn.Parameter]] = defaultdict(list)
        for weight in group["params"]:
            if weight.ndim > 1 and weight.grad is not None:
                by_shape[weight.shape].append(weight)
        for weights in by_shape.values():
            gradients = [weight.grad for weight in weights if weight.grad is not None]
            for weight in weights:
                if not self.state[weight]:
                    self.state[weight]["moment"] = torch.zeros_like(weight)
            averages = [self.state[weight]["moment"] for weight in weights]
            torch._foreach_lerp_(averages, gradients, 1 - momentum)
            directions = torch._foreach_lerp(gradients, averages, momentum)
            steps = orthogonalize(torch.stack(directions).flatten(2)).view(len(weights), *weights[0].shape)
            larger_side = max(len(weights[0]), weights[0][0].numel())
            for weight, step in zip(weights, steps * (rate * ADAM_RMS * larger_side**0.5), strict=True):
                weight.mul_(1 - rate * decay).sub_(step)
                weight.grad = None

    def __setstate__(self, state: dict[str, Any]) -> None:
        torch.optim.Optimizer.__setstate__(self, state)  # that of AdamW expects step counts in every state


def orthogonalize(matrices: Tensor) -> Tensor:
    """(k, rows, columns) -> (k, rows, columns) with singular values near 1."""
    a, b, c = NEWTON_SCHULZ
    wide = matrices.shape[1] <= matrices.shape[2]
    x = matrices if wide else matrices.mT
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    if x.is_cuda:
        x = x.bfloat16()
    for _ in range(NEWTON_SCHULZ_STEPS):
        squares = x @ x.mT
        x = a * x + (b * squares + c * squares @ squares) @ x
    return (x if wide else x.mT).to(matrices.dtype)
