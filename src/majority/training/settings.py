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
WHOLE = {  # range of each whole number
    "epochs": (1, 10**6),
    "batch_bags": (1, 10**9),
    "patience": (1, 10**9),
    "max_instances": (1, 10**9),
    "seed": (0, SEEDS - 1),
}
REAL = {"weight_decay": (0, 1e6), "warmup_epochs": (0, 1e6), "learning_rate": (0, 1e100)}
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
            value = getattr(self, name)
            self._check(name, isinstance(value, str) and value in allowed, f"use {' or '.join(allowed)}")
        for name, (low, high) in WHOLE.items():
            is_valid = _is_number(Integral, getattr(self, name), low, high)
            self._check(name, is_valid, f"give a whole number from {low} to {high:,}")
        for name in SWITCHES:
            self._check(name, isinstance(getattr(self, name), bool), "use true or false")
        for name, (smallest, largest) in REAL.items():
            is_valid = _is_number(Real, getattr(self, name), smallest, largest)
            self._check(name, is_valid, f"give a number from {smallest} to {largest:g}")
        self._check("learning_rate", self.learning_rate > 0, "give a number above 0")
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


def _is_number(kind: type[Any], value: Any, low: float, high: float) -> bool:
    if not isinstance(value, kind) or isinstance(value, bool):
        return False
    return bool(low <= (value if isinstance(value, int) else float(value)) <= high)  # a numpy float16 would overflow
