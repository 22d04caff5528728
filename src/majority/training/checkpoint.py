"""The checkpoint of a training: the network's weights, the best weights and the optimizer's state in one file.

The format is safetensors, never pickle. No generator state is saved: every random draw comes from a generator that is
seeded by (seed, epoch).
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from ..errors import InputError
from ..files import decode_json
from ..inference.weights import Weights, check_weights, read_weights, write_weights
from ..parsing import parse_record
from ..records import Progress
from .optimizers import state_shapes
from .state import Fitted, TrainingState

CURE = "remove it and run again from the start"


def save_checkpoint(path: Path, state: TrainingState) -> None:
    tensors = {f"model.{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best_weights.items()}
    for number, values in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
    progress = {"epochs": state.fitted.epochs, **state.fitted.outcome}
    write_weights(path, tensors, {"progress": json.dumps(progress)})


def load_checkpoint(path: Path, state: TrainingState, device: torch.device) -> int:
    """Restore the state, all but its history, and return the number of epochs that were trained.

    Everything is checked before anything is restored.
    """
    tensors, notes = read_weights(path, CURE, str(device))
    progress = parse_record(Progress, decode_json(notes.get("progress", ""), path, CURE), path, CURE)
    if progress["best_epoch"] >= progress["epochs"]:
        raise InputError(f"{path} is damaged (best epoch {progress['best_epoch']} of {progress['epochs']}): {CURE}")
    weights, best, of_optimizer = (_with_prefix(tensors, prefix) for prefix in ("model", "best", "optimizer"))
    check_weights(weights, state.network.state_dict(), path, CURE)
    if best:
        check_weights(best, state.network.get_submodule("model").state_dict(), path, CURE)
    states = _checked_states(of_optimizer, state.optimizer, path)
    state.fitted, state.best_weights = Fitted.from_outcome(progress), best
    state.network.load_state_dict(weights)
    _restore_optimizer(state.optimizer, states)
    return progress["epochs"]


def _checked_states(tensors: Weights, optimizer: torch.optim.Optimizer, path: Path) -> dict[int, Weights]:
    """The state of each weight by its number. A weight that no step has changed yet has none."""
    expected = state_shapes(optimizer)
    states: dict[int, Weights] = {}
    for name, value in tensors.items():
        number, _, key = name.partition(".")
        if not number.isdecimal() or int(number) not in expected:
            raise InputError(f"{path} does not fit: the optimizer has no weight {number}: {CURE}")
        states.setdefault(int(number), {})[key] = value
    for i, values in states.items():
        found = {key: tuple(value.shape) for key, value in values.items()}
        if found != expected[i] or any(value.dtype != torch.float32 for value in values.values()):
            raise InputError(f"{path} does not fit: the optimizer's state of weight {i} has another shape: {CURE}")
    return states


def _restore_optimizer(optimizer: torch.optim.Optimizer, states: dict[int, Weights]) -> None:
    optimizer.load_state_dict({"state": states, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, values in optimizer.state.items():  # in the parameter's memory layout, which a fused step needs
        values.update({key: torch.empty_like(parameter).copy_(value) for key, value in values.items() if value.ndim})


def _with_prefix(tensors: Weights, prefix: str) -> Weights:
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
