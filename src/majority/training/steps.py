"""The work of an epoch on the device: a training step, and one pass over the validation bags.

`Steps` runs both as they are. `CapturedSteps` records them as CUDA graphs and replays these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..data.bags import Bags
from ..data.device import default_generator, instances_per_pass, seed_generators
from ..data.loader import BagLoader, Batch
from ..data.segments import Segments
from ..data.stores import RowsOnDisk
from ..data.targets import Target
from ..losses.base import in_float32
from ..nn.model import Model
from ..predict.evaluate import outputs
from . import distributed
from .augment import Augment, AugmentStep
from .checkpoint import TrainingState
from .cuda_graphs import Captured, compiled, cudnn_benchmark, uncompiled
from .objectives import Objective
from .optimizers import create_optimizer, moments, set_rate
from .settings import Settings
from .validation import ignores_filling

COMPILED_FROM = 10_000_000  # instances in all epochs: from here on, compilation saves more time than it takes


class Steps:
    """Runs training steps and validation. Results are added to `sums` on the device, so that no step waits for it."""

    captures: ClassVar[bool] = False

    def __init__(
        self, model: Model, train: BagLoader, val: Bags | None, settings: Settings, objective: Objective
    ) -> None:
        self.model, self.train, self.settings, self.objective = model, train, settings, objective
        self.device = device = train.device
        network = nn.ModuleDict({"model": model, "objective": objective}).to(device)
        if model.spec.images:  # the memory layout of the stored images
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        trainable = [weight for weight in network.parameters() if weight.requires_grad]
        rate, decay = settings.learning_rate, settings.weight_decay
        self.state = TrainingState(network, create_optimizer(settings.optimizer, trainable, rate, decay, device))
        self.bf16 = settings.precision == "bf16" and device.type == "cuda"
        self.augment = _seeded_augment(settings.augment, device)
        self.sums = torch.zeros(4, device=device)  # training loss, bags right by count; the same of validation
        self.next_batches: Iterable[Batch] | None = None  # of the next epoch, prepared while the GPU works
        self._divide_epoch(train.bags)
        self._find_shapes(train.bags)
        self._prepare_validation(val)

    def _divide_epoch(self, train: Bags) -> None:
        """How many steps an epoch has, and how many bags take part in these."""
        settings, bags = self.settings, len(train)
        self.bags_per_epoch, self.steps_per_epoch = bags, math.ceil(bags / settings.batch_bags)
        last = bags % settings.batch_bags
        if bags > settings.batch_bags and (settings.drop_last or last < distributed.size()):  # a bag per process
            self.bags_per_epoch, self.steps_per_epoch = bags - last, bags // settings.batch_bags
        self.labelled_per_epoch = min(self.bags_per_epoch, max(int(train.bag_labels.known.sum()), 1))

    def _find_shapes(self, train: Bags) -> None:
        """Whether steps have few shapes: bags have one size, or batches of ragged bags are filled up."""
        sizes = self.settings.sizes_in_step(train.sizes)
        self.step_size = int(sizes[0]) if sizes.min() == sizes.max() else None  # of every bag; None: they differ
        self.can_fill = self.captures and not isinstance(train.store, RowsOnDisk) and ignores_filling(self.model)
        self.fill = self.can_fill and self.step_size is None
        self.few_shapes = self.can_fill or self.step_size is not None

    def _prepare_validation(self, val: Bags | None) -> None:
        self.val_bags = 0 if val is None else len(val)
        own_val = None if val is None else distributed.own_part(val)
        self.val = None if own_val is None else BagLoader(own_val, self.device, share_store_with=self.train)
        self.val_batches: list[Batch] | None = None  # made once if the instances are on the device
        self.val_has_few_shapes = own_val is not None and own_val.sizes.min() == own_val.sizes.max()
        if self.val is not None and self.val.store is not None:
            self.val_batches = list(_in_order(self.val, fill=self.can_fill and not self.val_has_few_shapes))
            self.val_has_few_shapes |= self.can_fill

    @contextmanager
    def running(self) -> Iterator[None]:
        """The context for all epochs of a training."""
        with cudnn_benchmark(self.device.type == "cuda" and self.few_shapes):
            yield

    def run_epoch(self, epoch: int) -> dict[str, Any]:
        """All steps of an epoch and its validation: the record of the epoch."""
        numbers = np.random.SeedSequence((self.settings.seed, epoch, distributed.rank()))
        seed_generators(self.device, int(numbers.generate_state(1, np.uint64)[0]))  # for dropout and augmentation
        self.sums.zero_()
        self.state.network.train()
        for step, batch in enumerate(self.next_batches or self.batches(epoch), start=epoch * self.steps_per_epoch):
            rate = self.settings.rate(step, self.steps_per_epoch)
            set_rate(self.state.optimizer, rate)
            self.step(batch)
        if self.val is not None:
            self.validate()
        if self.device.type == "cuda":  # the GPU is still working
            self.next_batches = self.batches(epoch + 1)
        loss, right, val_loss, val_right = distributed.total(self.sums).tolist()  # waits for the device, once
        record = {
            "epoch": epoch,
            "train_loss": loss / self.bags_per_epoch,
            "learning_rate": rate,
        }
        if self.objective.uses_bag_labels:  # else the bags of a step need not be those of the run
            record["train_bag_accuracy"] = min(1.0, right / self.labelled_per_epoch)
        if self.val_bags:
            record |= {"val_loss": val_loss / self.val_bags, "val_bag_accuracy": val_right / self.val_bags}
        return record

    def batches(self, epoch: int) -> Iterable[Batch]:
        rng = np.random.default_rng([self.settings.seed, epoch])  # for the order of bags and the parts of large bags
        settings, bags = self.settings, self.bags_per_epoch
        part, n_parts = distributed.rank(), distributed.size()
        return self.train.shuffled(settings.batch_bags, rng, settings.max_instances, bags, self.fill, part, n_parts)

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

    def _autocast(self) -> AbstractContextManager[object]:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16, cache_enabled=False)


class SharedSteps(Steps):
    """Steps of several processes, each of which has a part of the bags: together, the steps of one process.

    Gradients are added up, and so are the changes of the model's buffers, such as running means; both are weighted by
    the bags of each process. Each process has the sums of its own part.
    """

    @contextmanager
    def running(self) -> Iterator[None]:
        parts = (self.model.backbone, self.model.head)  # the normalisation stays as it is
        self.buffers = [buffer for part in parts for buffer in part.buffers() if buffer.is_floating_point()]
        with super().running(), distributed.shared_norms(self.state.network):
            yield

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

    captures = True
    captured_validation: Captured | None = None
    captured_step: Captured | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        if self.val_batches is not None:
            self.captured_validation = Captured(super().validate, self._changed_tensors, self.state.fitted)
        if self.train.store is not None and self.few_shapes:
            self.captured_step = Captured(self._step_on_tensors, self._changed_tensors, self.state.fitted)
        with super().running(), compiled(*(self._modules_to_compile() if self.few_shapes else ())):
            yield
        self.captured_validation = self.captured_step = None  # frees the memory of the graphs

    def _modules_to_compile(self) -> list[nn.Module]:
        settings, model = self.settings, self.model
        is_long = settings.epochs * len(self.train.bags.index) >= COMPILED_FROM
        if not (is_long if settings.compile is None else settings.compile):
            return []
        return [model.backbone] if settings.augment else [model.normalise, model.backbone]  # not random draws

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
    if not plan:
        return None
    augment, generator = Augment(plan), default_generator(device)

    def draw(images: Tensor) -> Tensor:
        return augment(images, generator)

    return draw
