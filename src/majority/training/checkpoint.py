"""Weights as files, and the one from which training goes on: weights, best weights, the optimizer's state.

Safetensors, never pickle.
No generator state is kept: every random draw comes from a generator seeded by (seed, epoch).
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import nn

from ..errors import InputError
from ..inference.weights import Weights, write_weights


def save_checkpoint(
    path: Path, model: nn.Module, best: Weights, optimizer: torch.optim.Optimizer, progress: dict
) -> None:
    tensors = {f"model.{name}": value for name, value in model.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in best.items()}
    for number, state in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in state.items()}
    write_weights(path, tensors, {"progress": json.dumps(progress)})


def load_checkpoint(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> tuple[Weights, dict]:
    """Put model and optimizer where they were; return the best weights and the progress."""
    try:
        with safe_open(path, "pt", device=str(device)) as file:
            progress = json.loads(file.metadata()["progress"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): remove it and run again from the start") from None
    model.load_state_dict(_below(tensors, "model"))
    states: dict[int, Weights] = {}
    for name, value in _below(tensors, "optimizer").items():
        number, _, key = name.partition(".")
        states.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, state in optimizer.state.items():  # laid out alike: a fused step reads memory, not axes
        laid_out = {key: torch.empty_like(parameter).copy_(value) for key, value in state.items() if value.ndim}
        state.update(laid_out)
    return _below(tensors, "best"), progress


def _below(tensors: Weights, prefix: str) -> Weights:
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
