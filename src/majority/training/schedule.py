"""The learning-rate schedule."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .settings import Settings


class LearningRateSchedule:
    """Sets the learning rate of the optimizer before each step: constant, or a linear warm-up and a cosine."""

    def __init__(self, settings: Settings, optimizer: torch.optim.Optimizer, steps_per_epoch: int):
        self.settings, self.optimizer = settings, optimizer
        self.total_steps = settings.epochs * steps_per_epoch
        self.warmup_steps = settings.warmup_epochs * steps_per_epoch

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0 over all epochs."""
        rate = self.settings.learning_rate
        if self.settings.schedule == "cosine":
            rate *= min((step + 1) / max(self.warmup_steps, 1), 1)
            if step >= self.warmup_steps:
                falling_steps = max(self.total_steps - self.warmup_steps, 1)
                rate *= 0.5 * (1 + math.cos(math.pi * (step - self.warmup_steps) / falling_steps))
        return rate

    def set_rate(self, step: int) -> float:
        """Set the learning rate of a step and return it."""
        rate = self.rate(step)
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        return rate
