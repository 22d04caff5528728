"""Settings: how one network is trained, checked when they are made."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real

from ..errors import InputError
from .augment import Augment

SEEDS = 2**62  # torch takes twice as many, and the trainings of one run have seeds further on
NAMED = {"optimizer": ("adam", "adamw", "muon"), "schedule": ("constant", "cosine"), "precision": ("float32", "bf16")}
WHOLE = {"epochs": 1, "batch_bags": 1, "patience": 1, "max_instances": 1, "seed": 0}  # and the least each may be
SWITCHES = ("whole_steps", "compile")
OPEN = ("patience", "max_instances", "compile")  # may be None


@dataclass(frozen=True)
class Settings:
    """How to train. The defaults are the `quick` recipe's: for small data on a CPU."""

    epochs: int = 40
    batch_bags: int = 16  # a step's memory grows with the instances in so many bags, or with max_instances in each
    whole_steps: bool = False  # a smaller last step is left out; its bags come in other epochs
    optimizer: str = "adamw"  # or "adam", "muon"
    learning_rate: float = 3e-3
    weight_decay: float = 1e-2  # ignored by adam
    schedule: str = "cosine"  # or "constant"
    warmup_epochs: float = 3.0  # of linear rise; cosine only
    patience: int | None = None  # epochs without a better validation loss before stopping
    max_instances: int | None = None  # of a bag in a step: a fresh random part of larger bags
    augment: tuple = ()  # of images: names, or (name, settings) pairs
    precision: str = "float32"  # or "bf16": autocast on a GPU; counts and losses stay float32
    compile: bool | None = None  # on a GPU: fewer kernels, after compilation; None: where the run is long enough
    seed: int = 0

    def __post_init__(self):
        for name, allowed in NAMED.items():
            self._check(name, getattr(self, name) in allowed, f"take {' or '.join(allowed)}")
        for name, least in WHOLE.items():
            self._check(name, _is(Integral, getattr(self, name), least), f"give a whole number from {least} up")
        for name in SWITCHES:
            self._check(name, isinstance(getattr(self, name), bool), "take true or false")
        for name in ("weight_decay", "warmup_epochs"):
            self._check(name, _is(Real, getattr(self, name), 0), "give a number from 0 up")
        self._check("seed", self.seed < SEEDS, f"give a number below {SEEDS}")
        rate = self.learning_rate
        self._check("learning_rate", _is(Real, rate, 0) and rate > 0, "give a number above 0")
        Augment(self.augment)

    def _check(self, name: str, well: bool, cure: str) -> None:
        value = getattr(self, name)
        if not well and not (value is None and name in OPEN):
            raise InputError(f"{name} is {value!r}: {cure}")


def _is(kind: type, value: object, least: float) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and least <= value < float("inf")
