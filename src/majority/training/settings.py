"""Settings: how one network is trained. They are checked when they are created."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import InputError
from .augment import Augment, AugmentStep

SEEDS = 2**62  # torch accepts twice as many; the stages of one run use larger seeds than the first
CHOICES = {"optimizer": ("adam", "adamw", "muon"), "schedule": ("constant", "cosine"), "precision": ("float32", "bf16")}
MINIMA = {"epochs": 1, "batch_bags": 1, "patience": 1, "max_instances": 1, "seed": 0}  # of the whole numbers
SWITCHES = ("drop_last", "compile")
OPTIONAL = ("patience", "max_instances", "compile")  # may be None


@dataclass(frozen=True)
class Settings:
    """How to train. The defaults are those of the recipe `quick`: for small data on a CPU."""

    epochs: int = 40
    batch_bags: int = 16  # bags per step; the memory of a step grows with their instances
    drop_last: bool = False  # skip a smaller last step of an epoch; its bags come in other epochs
    optimizer: str = "adamw"  # or "adam", "muon"
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2  # ignored by adam
    schedule: str = "cosine"  # or "constant"
    warmup_epochs: float = 3.0  # with a linear rise of the learning rate; cosine only
    patience: int | None = None  # stop after this many epochs without a lower validation loss
    max_instances: int | None = None  # per bag and step: a new random part of larger bags in every epoch
    augment: tuple[AugmentStep, ...] = ()  # of images: names, or pairs (name, settings)
    precision: str = "float32"  # or "bf16": autocast on a GPU; counts and losses stay float32
    compile: bool | None = None  # torch.compile, on a GPU; None: if the run is long enough to save time
    seed: int = 0

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            self._check(name, getattr(self, name) in allowed, f"use {' or '.join(allowed)}")
        for name, minimum in MINIMA.items():
            is_valid = _is_number(Integral, getattr(self, name), minimum)
            self._check(name, is_valid, f"give a whole number of at least {minimum}")
        for name in SWITCHES:
            self._check(name, isinstance(getattr(self, name), bool), "use true or false")
        for name in ("weight_decay", "warmup_epochs"):
            self._check(name, _is_number(Real, getattr(self, name), 0), "give a number of at least 0")
        self._check("seed", self.seed < SEEDS, f"give a number below {SEEDS}")
        rate = self.learning_rate
        self._check("learning_rate", _is_number(Real, rate, 0) and rate > 0, "give a number above 0")
        Augment(self.augment)

    def sizes_in_step(self, sizes: np.ndarray) -> np.ndarray:
        """(b,) sizes of bags -> (b,) how many of their instances are used in a step.

        >>> Settings(max_instances=5).sizes_in_step(np.array([2, 5, 90])).tolist()
        [2, 5, 5]
        """
        return np.minimum(sizes, self.max_instances or sizes.max())

    def _check(self, name: str, is_valid: bool, cure: str) -> None:
        value = getattr(self, name)
        if not is_valid and not (value is None and name in OPTIONAL):
            raise InputError(f"{name} is {value!r}: {cure}")


def _is_number(kind: type[Any], value: Any, minimum: float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and bool(minimum <= value < float("inf"))
