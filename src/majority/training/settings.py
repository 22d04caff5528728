"""Settings: how one network is trained. They are checked when they are created."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from annotated_types import Ge, Gt, Le

from ..fields import check_fields
from .augment import Augment, AugmentStep

SEEDS = 2**62  # torch accepts twice as many; the stages of one run use larger seeds than the first
Epochs = Annotated[int, Ge(1), Le(10**6)]
AtLeastOne = Annotated[int, Ge(1), Le(10**9)]


@dataclass(frozen=True)
class Settings:
    """How to train. The defaults are those of the recipe `quick`: for small data on a CPU.

    >>> Settings(epochs=5, learning_rate=1e-3).batch_bags
    16
    """

    epochs: Epochs = 40
    batch_bags: AtLeastOne = 16  # bags per step; the memory of a step grows with their instances
    drop_last: bool = False  # skip a smaller last step of an epoch; its bags come in other epochs
    optimizer: Literal["adam", "adamw", "muon"] = "adamw"
    learning_rate: Annotated[float, Gt(0)] = 3e-3
    weight_decay: Annotated[float, Ge(0), Le(10**6)] = 1e-2  # ignored by adam
    schedule: Literal["constant", "cosine"] = "cosine"
    warmup_epochs: Annotated[float, Ge(0), Le(10**6)] = 3.0  # with a linear rise of the learning rate; cosine only
    patience: AtLeastOne | None = None  # stop after this many epochs without a lower validation loss
    max_instances: AtLeastOne | None = 65_536  # per bag and step: a new random part of larger bags in every epoch
    augment: tuple[AugmentStep, ...] = ()  # of images: names, or pairs (name, settings)
    precision: Literal["float32", "bf16"] = "float32"  # bf16: autocast on a GPU; counts and losses stay float32
    compile: bool | None = None  # torch.compile, on a GPU; None: if the run is long enough to save time
    seed: Annotated[int, Ge(0), Le(SEEDS - 1)] = 0

    def __post_init__(self) -> None:
        check_fields(self)
        Augment(self.augment)

    def sizes_in_step(self, sizes: np.ndarray) -> np.ndarray:
        """(b,) sizes of bags -> (b,) how many of their instances are used in a step.

        >>> Settings(max_instances=5).sizes_in_step(np.array([2, 5, 90])).tolist()
        [2, 5, 5]
        """
        return np.minimum(sizes, self.max_instances or sizes.max())

    def rate(self, step: int, steps_per_epoch: int) -> float:
        """The learning rate of a step, counted from 0 over all epochs: constant, or a linear warm-up and a cosine."""
        rate = self.learning_rate
        if self.schedule == "cosine":
            warmup = self.warmup_epochs * steps_per_epoch
            rate *= min((step + 1) / max(warmup, 1), 1)
            if step >= warmup:
                falling = max(self.epochs * steps_per_epoch - warmup, 1)
                rate *= 0.5 * (1 + math.cos(math.pi * (step - warmup) / falling))
        return rate
