"""The state of a training: everything that its checkpoint holds, and the summary that is left at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import torch
from annotated_types import Ge
from torch import nn

from ..nn.weights import Weights


@dataclass
class Fitted:
    """How a training went. The model itself was left with the weights of the best epoch."""

    best_epoch: Annotated[int, Ge(-1)] = -1  # counted from 0
    best_loss: float = math.inf
    loss_name: Literal["val_loss", "train_loss"] = "val_loss"  # of best_loss; train_loss: the last epoch was kept
    seconds: float = 0.0  # of all epochs, without the one-time capture on a GPU
    capture_seconds: float = 0.0
    history: list[dict[str, Any]] = field(default_factory=list)  # one record per epoch

    @property
    def epochs(self) -> int:
        return len(self.history)

    @property
    def outcome(self) -> dict[str, Any]:
        """All fields but the history, which has its own file. `fields.from_json` reads them back."""
        return {name: value for name, value in vars(self).items() if name != "history"}


@dataclass
class TrainingState:
    """What changes from epoch to epoch. Training can continue from a copy of it."""

    network: nn.Module  # the model and its objective
    optimizer: torch.optim.Optimizer
    fitted: Fitted = field(default_factory=Fitted)
    best_weights: Weights = field(default_factory=dict)  # of the best epoch; empty if the last epoch is kept
