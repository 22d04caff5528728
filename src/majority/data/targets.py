"""Target: what a loss may see of some bags, as tensors on their device."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Target(NamedTuple):
    """What the labels of b bags say. Instance labels are None unless the method declares that it sees them."""

    allowed: Tensor  # (b, C) the classes that may have won: one, several, or none in a bag without a label
    runner_up: Tensor | None = None  # (b, C) at most one class per bag; None: no label names a runner-up
    instance_labels: Tensor | None = None  # (n,)
    soft_labels: Tensor | None = None  # (n, C) probabilities that an earlier model predicted; None: there are none
    training_labels: Tensor | None = None  # (n,) classes of instances that the user allows to use, else -1
    training_weights: Tensor | None = None  # (n,) 1 / how many bags such an instance is in, else 0
    proportions: Tensor | None = None  # (b, C) true proportions, which only a loss for them is given

    @classmethod
    def of(cls, labels: Tensor, n_classes: int, runner_up: Tensor | None = None) -> Target:
        """(b,) class numbers, -1 where a bag has no label, or a mask (b, C) of the classes that may have won.

        >>> Target.of(torch.tensor([1, -1]), 3).allowed.tolist()
        [[False, True, False], [False, False, False]]
        """
        allowed = labels != 0 if labels.ndim == 2 else as_mask(labels, n_classes)
        return cls(allowed, None if runner_up is None else as_mask(runner_up, n_classes))

    @property
    def labels(self) -> Tensor:  # (b,) the class that the label names; the first one if it names several
        return self.allowed.int().argmax(dim=1)

    @property
    def known(self) -> Tensor:  # (b,) whether the bag has a label
        return self.allowed.any(dim=1)

    def allows(self, predicted: Tensor) -> Tensor:  # (b,) -> (b,)
        """Whether each label allows the predicted winner; False in bags without a label."""
        return self.allowed.gather(1, predicted.unsqueeze(1)).squeeze(1)


def as_mask(numbers: Tensor, n_classes: int) -> Tensor:  # (b,) -> (b, C); no class where the number is -1
    return numbers.unsqueeze(1) == torch.arange(n_classes, device=numbers.device)
