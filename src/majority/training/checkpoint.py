"""The checkpoint of a training: the network's weights, the best weights and the optimizer's state in one file.

The format is safetensors, never pickle. No generator state is saved: every random draw comes from a generator that is
seeded by (seed, epoch).
"""

from __future__ import annotations

import json
from pathlib import Path

import torch

from ..errors import InputError
from ..fields import from_json
from ..files import decode_json
from ..nn.weights import Weights, check_weights, read_weights, write_weights
from . import distributed
from .state import Fitted, TrainingState

CURE = "remove it and run again from the start"
STATES = ({"moment"}, {"step", "exp_avg", "exp_avg_sq"})  # what Muon and AdamW keep of a weight


def save_checkpoint(path: Path, state: TrainingState) -> None:
    progress = {"epochs": state.fitted.epochs, **state.fitted.outcome}
    write_weights(path, _tensors_of(state), {"progress": json.dumps(progress)})


def load_checkpoint(path: Path, state: TrainingState, device: torch.device) -> int:
    """Restore the state, all but its history, and return the number of epochs that were trained.

    Everything is checked before anything is restored.
    """
    tensors, notes = read_weights(path, CURE, str(device))
    progress = decode_json(notes.get("progress", ""), path, CURE)
    epochs = progress.pop("epochs", None)
    fitted = from_json(Fitted, progress, path, CURE)
    if not isinstance(epochs, int) or not 0 <= fitted.best_epoch < epochs:
        raise InputError(f"{path} is damaged (best epoch {fitted.best_epoch} of {epochs}): {CURE}")
    check_weights(_with_prefix(tensors, "model"), state.network.state_dict(), path, CURE)
    if best := _with_prefix(tensors, "best"):
        check_weights(best, state.network.get_submodule("model").state_dict(), path, CURE)
    _check_states(_states(tensors), state.optimizer, path)
    _restore(state, tensors)
    state.fitted = fitted
    return epochs


def share_state(state: TrainingState) -> None:
    """Every process of a training gets the state of the first one."""

    def copied() -> tuple[Weights, Fitted]:
        return {name: value.cpu() for name, value in _tensors_of(state).items()}, state.fitted

    tensors, fitted = distributed.from_first(copied)
    if not distributed.is_first():
        _restore(state, tensors)
        state.fitted = fitted


def _tensors_of(state: TrainingState) -> Weights:
    tensors = {f"model.{name}": value for name, value in state.network.state_dict().items()}
    tensors |= {f"best.{name}": value for name, value in state.best_weights.items()}
    for number, values in state.optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{number}.{name}": value for name, value in values.items()}
    return tensors


def _restore(state: TrainingState, tensors: Weights) -> None:
    state.best_weights = _with_prefix(tensors, "best")
    state.network.load_state_dict(_with_prefix(tensors, "model"))
    _restore_optimizer(state.optimizer, _states(tensors))


def _states(tensors: Weights) -> dict[str, Weights]:
    """The optimizer's state of each weight by its number. A weight that no step has changed yet has none."""
    states: dict[str, Weights] = {}
    for name, value in _with_prefix(tensors, "optimizer").items():
        number, _, key = name.partition(".")
        states.setdefault(number, {})[key] = value
    return states


def _check_states(states: dict[str, Weights], optimizer: torch.optim.Optimizer, path: Path) -> None:
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    for number, values in states.items():
        weight = weights[int(number)] if number.isdecimal() and int(number) < len(weights) else None
        shapes = {name: torch.Size() if name == "step" or weight is None else weight.shape for name in values}
        fits = weight is not None and {*values} in STATES
        if not fits or any(v.shape != shapes[name] or v.dtype != torch.float32 for name, v in values.items()):
            raise InputError(f"{path} does not fit: the optimizer has another state of weight {number}: {CURE}")


def _restore_optimizer(optimizer: torch.optim.Optimizer, states: dict[str, Weights]) -> None:
    by_number = {int(number): values for number, values in states.items()}
    optimizer.load_state_dict({"state": by_number, "param_groups": optimizer.state_dict()["param_groups"]})
    for parameter, values in optimizer.state.items():  # in the parameter's memory layout, which a fused step needs
        values.update({key: torch.empty_like(parameter).copy_(value) for key, value in values.items() if value.ndim})


def _with_prefix(tensors: Weights, prefix: str) -> Weights:
    return {name.removeprefix(f"{prefix}."): value for name, value in tensors.items() if name.startswith(f"{prefix}.")}
