"""The work of an epoch on the device: a training step, and one pass over the validation bags.

`Steps` runs both as they are. `CapturedSteps` records them as CUDA graphs and replays these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import Tensor

from ..data.device import default_generator, instances_per_pass
from ..data.loader import BagLoader, Batch
from ..data.segments import Segments
from ..data.targets import Target
from ..losses.base import in_float32
from ..nn.model import Model
from ..predict.evaluate import outputs
from . import distributed
from .augment import Augment, AugmentStep
from .checkpoint import TrainingState
from .cuda_graphs import Captured, uncompiled
from .objectives import Objective
from .optimizers import moments
from .settings import Settings


class Steps:
    """Runs training steps and validation. Results are added to `sums` on the device, so that no step waits for it."""

    def __init__(
        self,
        model: Model,
        objective: Objective,
        state: TrainingState,
        settings: Settings,
        train: BagLoader,
        val: BagLoader | None,
        step_size: int | None,  # the number of instances that every bag has in a step; None: they differ
        can_fill: bool,  # whether batches of ragged bags are filled up, so that they have few shapes
    ):
        self.model, self.objective, self.state, self.device = model, objective, state, train.device
        self.train, self.val, self.step_size, self.can_fill = train, val, step_size, can_fill
        self.captured: list[Captured] = []
        self.bf16 = settings.precision == "bf16" and self.device.type == "cuda"
        self.augment = _seeded_augment(settings.augment, self.device)
        self.sums = torch.zeros(4, device=self.device)  # training loss, bags right by count; the same of validation
        self.val_batches: list[Batch] | None = None  # made once if the instances are on the device
        self.val_has_few_shapes = val is not None and val.bags.sizes.min() == val.bags.sizes.max()
        if val is not None and val.store is not None:
            self.val_batches = list(_in_order(val, fill=can_fill and not self.val_has_few_shapes))
            self.val_has_few_shapes |= can_fill

    @property
    def capture_seconds(self) -> float:
        return sum(captured.seconds for captured in self.captured)

    def step(self, batch: Batch) -> None:
        """One step of the optimizer on a batch."""
        with self._autocast():
            losses, right = self.objective.losses(self.model, batch, self.augment)
        self.state.optimizer.zero_grad(set_to_none=True)
        self._backward(losses)
        self.state.optimizer.step()
        self.objective.after_step(self.model)
        self.sums[0] += losses.detach().sum()
        self.sums[1] += right.sum()

    def _backward(self, losses: Tensor) -> None:
        losses.mean().backward()

    @torch.no_grad()
    def validate(self) -> None:
        """One pass over all validation bags."""
        assert self.val is not None
        model = self.objective.model_to_keep(self.model)
        with self._autocast(), nullcontext() if self.val_has_few_shapes else uncompiled(model):
            for batch, output in outputs(model, self.val_batches or _in_order(self.val)):
                with in_float32(output.bag_log_probs):
                    self.sums[2] += self.objective.val_losses(model, output, batch).sum()
                self.sums[3] += model.bags_right(output, batch.segments, batch.target).sum()

    def running(self) -> AbstractContextManager[object]:
        """The context for all epochs of a training."""
        return nullcontext()

    def _autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False)


class SharedSteps(Steps):
    """Steps of several processes, each of which has a part of the bags: together, the steps of one process.

    Gradients are added up, and so are the changes of the model's buffers, such as running means; both are weighted by
    the bags of each process. Each process has the sums of its own part.
    """

    def running(self) -> AbstractContextManager[object]:
        parts = (self.model.backbone, self.model.head)  # the normalisation stays as it is
        self.buffers = [buffer for part in parts for buffer in part.buffers() if buffer.is_floating_point()]
        return distributed.shared_norms(self.state.network)

    def step(self, batch: Batch) -> None:
        assert batch.parts is not None
        self.share = batch.parts[distributed.rank()] / sum(batch.parts)
        self.before = [buffer.clone() for buffer in self.buffers]
        super().step(batch)

    def _backward(self, losses: Tensor) -> None:
        (self.share * losses.mean()).backward()
        gradients = [weight.grad for weight in self.state.network.parameters() if weight.grad is not None]
        changes = [(after - before) * self.share for after, before in zip(self.buffers, self.before, strict=True)]
        distributed.add_up([*gradients, *changes])
        for after, before, change in zip(self.buffers, self.before, changes, strict=True):
            after.copy_(before + change)


class CapturedSteps(Steps):
    """Validation is captured if its bags are on the device; so are training steps if they have few shapes: if all bags
    have one size in a step, or ragged batches are filled."""

    captured_validation: Captured | None = None
    captured_step: Captured | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        if self.val_batches is not None:
            self.captured_validation = Captured(super().validate, self._changed_tensors)
        if self.train.store is not None and (self.step_size is not None or self.can_fill):
            self.captured_step = Captured(self._step_on_tensors, self._changed_tensors)
        self.captured = [*filter(None, [self.captured_validation, self.captured_step])]
        yield
        self.captured, self.captured_validation, self.captured_step = [], None, None  # frees the memory of the graphs

    def step(self, batch: Batch) -> None:
        if self.captured_step is None:
            super().step(batch)
        else:
            sizes = batch.segments.sizes if self.step_size is None else None
            self.captured_step(batch.index, sizes, batch.segments.keep, batch.segments.weights, *batch.target)

    def validate(self) -> None:
        if self.captured_validation is None:
            super().validate()
        else:
            self.captured_validation()

    def _step_on_tensors(
        self,
        index: Tensor,
        sizes: Tensor | None,
        keep: Tensor | None,
        weights: Tensor | None,
        allowed: Tensor,
        *more: Tensor | None,
    ) -> None:
        bags = len(allowed)
        if sizes is None:
            equal = np.full(bags, self.step_size)
            segments = Segments(equal, torch.full((bags,), int(equal[0]), device=self.device), keep, weights)
        else:
            segments = Segments.on_device(sizes, len(index), keep, weights)
        super().step(Batch(np.arange(bags), segments, Target(allowed, *more), store=self.train.store, index=index))

    def _changed_tensors(self) -> dict[object, Tensor]:
        """All tensors that a step or a validation changes."""
        return {"sums": self.sums} | self.state.network.state_dict() | moments(self.state.optimizer)


def _in_order(val: BagLoader, fill: bool = False) -> Iterable[Batch]:
    return val.in_order(instances_per_pass(val.bags.store.shape[1:]), fill)


def _seeded_augment(plan: tuple[AugmentStep, ...], device: torch.device) -> Callable[[Tensor], Tensor] | None:
    """The augmentations, drawing from the generator that every epoch seeds."""
    augment, generator = Augment(plan), default_generator(device)
    return (lambda images: augment(images, generator)) if plan else None
