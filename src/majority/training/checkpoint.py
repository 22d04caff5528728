"""The checkpoint of a training: the network's weights, the best weights and the optimizer's state in one file.

The format is safetensors, never pickle. No generator state is saved: every random draw comes from a generator that is
seeded by (seed, epoch).
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open

from ..errors import InputError
from ..inference.weights import Weights, write_weights
from .state import Fitted, TrainingState


def save_checkpoint(path: Path, state: TrainingState) -> None:
    tensors = {f"model.{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best_weights.items()}
    for number, values in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
    progress = {"epochs": state.fitted.epochs, **state.fitted.outcome}
    write_weights(path, tensors, {"progress": json.dumps(progress)})


def load_checkpoint(path: Path, state: TrainingState, device: torch.device) -> int:
    """Restore the state, all but its history, and return the number of epochs that were trained."""
    try:
        with safe_open(path, "pt", device=str(device)) as file:
            progress = json.loads(file.metadata()["progress"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, TypeError, KeyError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): remove it and run again from the start") from None
    epochs: int = progress.pop("epochs")
    state.fitted = Fitted(**progress)
    state.best_weights = _with_prefix(tensors, "best")
    state.network.load_state_dict(_with_prefix(tensors, "model"))
    _restore_optimizer(state.optimizer, _with_prefix(tensors, "optimizer"))
    return epochs


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Weights) -> None:
    states: dict[int, Weights] = {}
    for name, value in tensors.items():
        number, _, key = name.partition(".")
        states.setdefault(int(number), {})[key] = value
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, values in optimizer.state.items():  # in the parameter's memory layout, which a fused step needs
        values.update({key: torch.empty_like(parameter).copy_(value) for key, value in values.items() if value.ndim})


def _with_prefix(tensors: Weights, prefix: str) -> Weights:
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
