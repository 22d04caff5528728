"""fit: one training loop for every method. An interrupted training continues with the same result (bit for bit on a
CPU)."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..data.bags import Bags
from ..data.device import choose_device, is_out_of_memory, make_current, seed_generators
from ..data.loader import BagLoader, Batch
from ..data.stores import RowsOnDisk
from ..errors import TrainingError
from ..nn.model import Model
from . import distributed
from .callbacks import Callback
from .checkpoint import share_state
from .cuda_graphs import compiled, cudnn_benchmark
from .memory import out_of_memory_message
from .objectives import BagLoss, Objective
from .optimizers import create_optimizer
from .progress import show_progress
from .run_files import RunFiles
from .schedule import LearningRateSchedule
from .settings import Settings
from .state import Fitted, TrainingState
from .steps import CapturedSteps, SharedSteps, Steps
from .threads import enough_threads
from .validation import (
    check_callbacks,
    check_processes,
    check_soft_labels,
    check_training,
    ignores_filling,
    select_bags,
)

COMPILED_FROM = 10_000_000  # instances in all epochs: from here on, compilation saves more time than it takes


def fit(
    model: Model,
    train: Bags,
    val: Bags | None,
    settings: Settings | None = None,
    *,
    device: str = "auto",
    folder: str | Path | None = None,
    title: str | None = "training",  # of the progress bar; None: no progress is shown
    eager: bool = False,
    keep: np.ndarray | None = None,  # (n,)
    soft_labels: np.ndarray | None = None,  # (n, C)
    objective: Objective | None = None,  # None: the method's own loss
    callbacks: Sequence[Callback] = (),
) -> Fitted:
    """Train the model on bag labels and leave it with the weights of the best epoch.

    The best epoch is the one with the lowest loss of the validation bags. Without validation bags, or if the objective
    `keeps_last`, it is the last one.

    With a `folder`, every epoch is written to metrics.jsonl, and the same call continues an interrupted training from
    its checkpoint; the result is the same as without the interruption (bit for bit on a CPU). On a GPU, steps
    are captured and replayed unless `eager` is set. `keep` has one boolean per position of `train.index`: which
    instances are aggregated (None: all). The others still pass through the network. Validation bags stay whole.
    `soft_labels` has one row of probabilities per position of `train.index`, for an `objective` that learns them.
    Bags without a label are left out, unless the objective does not learn bag labels, and never validate.
    `callbacks` follow the training: see `Callback`.

    In a process group of torch.distributed, every process of the group makes this call with the same arguments. Each
    takes its part of the bags of a step, and all end with the same model. The first one alone writes to the folder,
    shows the progress and calls the callbacks.

    >>> from majority import build_model, load_source
    >>> train, val, _ = load_source("digits").make_parts(scenario="large", bags=20, bag_size=8)
    >>> model = build_model(train, "log-mean", backbone="mlp", seed=0)
    >>> fit(model, train, val, Settings(epochs=2), device="cpu", title=None).epochs
    2
    """
    settings, objective = settings or Settings(), objective or BagLoss()
    train, val, keep = select_bags(model, train, val, objective, keep)
    check_training(model, train, val, settings, objective)
    soft_labels = check_soft_labels(soft_labels, train, objective)
    callbacks = check_callbacks(callbacks)
    chosen_device = choose_device(device)
    check_processes(model, train, val, settings, objective)
    if not distributed.is_first():
        folder, title, callbacks = None, None, []
    on_gpu = chosen_device.type == "cuda"
    capture = on_gpu and not eager
    if capture and distributed.size() > 1:
        capture = False
        _note_eager_steps()
    step_size = _equal_step_size(train, settings)
    few_shapes = step_size is not None or (capture and _can_fill(model, train))
    to_compile = _modules_to_compile(model, train, settings) if capture and few_shapes else []
    with (
        make_current(chosen_device),
        enough_threads(model, train, settings, chosen_device),
        torch.random.fork_rng(devices=[chosen_device] if on_gpu else []),
        cudnn_benchmark(on_gpu and few_shapes),
        compiled(*to_compile),
        show_progress(title, callbacks) as callbacks,
    ):
        try:
            loop = _Loop(
                model,
                train,
                val,
                settings,
                chosen_device,
                objective,
                keep=keep,
                soft_labels=soft_labels,
                capture=capture,
            )
            return loop.run(title, Path(folder) if folder else None, callbacks)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(out_of_memory_message(train, settings, chosen_device)) from error


class _Loop:
    """The epochs of one training."""

    def __init__(
        self,
        model: Model,
        train: Bags,
        val: Bags | None,
        settings: Settings,
        device: torch.device,
        objective: Objective,
        *,
        keep: np.ndarray | None = None,
        soft_labels: np.ndarray | None = None,
        capture: bool = False,
    ):
        self.model, self.settings, self.device, self.objective = model, settings, device, objective
        network = nn.ModuleDict({"model": model, "objective": objective}).to(device)
        if model.spec.images:  # the memory layout of the stored images
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        self.train = BagLoader(train, device, keep=keep, soft_labels=soft_labels)
        self.val_bags = 0 if val is None else len(val)
        own_val = None if val is None else distributed.own_part(val)
        self.val = None if own_val is None else BagLoader(own_val, device, share_store_with=self.train)
        trainable = [weight for weight in network.parameters() if weight.requires_grad]
        rate, decay = settings.learning_rate, settings.weight_decay
        optimizer = create_optimizer(settings.optimizer, trainable, rate, decay, device)
        self.state = TrainingState(network, optimizer)
        self.bags_per_epoch, self.steps_per_epoch = len(train), math.ceil(len(train) / settings.batch_bags)
        last = len(train) % settings.batch_bags
        if len(train) > settings.batch_bags and (settings.drop_last or last < distributed.size()):  # a bag per process
            self.steps_per_epoch = len(train) // settings.batch_bags
            self.bags_per_epoch = self.steps_per_epoch * settings.batch_bags
        self.labelled_per_epoch = min(self.bags_per_epoch, max(int(train.bag_labels.known.sum()), 1))
        self.schedule = LearningRateSchedule(settings, optimizer, self.steps_per_epoch)
        size = _equal_step_size(train, settings)
        can_fill = capture and _can_fill(model, train)
        self.fill = can_fill and size is None
        common = (model, objective, self.state, settings, device, self.val)
        self.steps: Steps
        if distributed.size() > 1:
            self.steps = SharedSteps(*common)
        else:
            self.steps = CapturedSteps(*common, self.train, size, can_fill) if capture else Steps(*common)
        self.next_batches: Iterable[Batch] | None = None  # of the next epoch, prepared while the GPU works

    def run(self, title: str | None, folder: Path | None, callbacks: Sequence[Callback]) -> Fitted:
        files = None if folder is None else RunFiles(folder, self.state, self.device)
        if files is not None:
            callbacks = [files, *callbacks]  # its files are complete before any other callback may fail
        distributed.from_first(files.resume if files is not None else lambda: None)
        if distributed.size() > 1:
            share_state(self.state)
        fitted = self.state.fitted
        fitted.loss_name = "train_loss" if self._keeps_last else "val_loss"
        for callback in callbacks:
            callback.on_fit_start(title, fitted.epochs, self.settings.epochs)
        with self.steps.running():
            while fitted.epochs < self.settings.epochs and not self._out_of_patience():
                record = self._train_epoch(fitted.epochs)
                fitted.history.append(record)
                for callback in callbacks:
                    callback.on_epoch_end(dict(record))
        if files is not None:
            files.save_last_checkpoint()
        self.model.load_state_dict(self.state.best_weights or self._model_to_keep.state_dict())
        self.steps.release()
        self.next_batches = None
        for callback in callbacks:
            callback.on_fit_end(fitted)
        return fitted

    @property
    def _model_to_keep(self) -> Model:
        return self.objective.model_to_keep(self.model)

    @property
    def _keeps_last(self) -> bool:
        return self.val_bags == 0 or self.objective.keeps_last

    def _out_of_patience(self) -> bool:
        patience, fitted = self.settings.patience, self.state.fitted
        return patience is not None and fitted.epochs - 1 - fitted.best_epoch >= patience

    def _train_epoch(self, epoch: int) -> dict[str, Any]:
        """Train an epoch, keep its weights if it is the best, and return its record."""
        state, fitted = self.state, self.state.fitted
        start, captured_before = time.perf_counter(), self.steps.capture_seconds
        record = self._run_steps(epoch)
        _check_finite(record)
        if self._keeps_last:
            fitted.best_epoch, fitted.best_loss, state.best_weights = epoch, record["train_loss"], {}
        elif record["val_loss"] < fitted.best_loss:  # the first of equal epochs is kept
            fitted.best_epoch, fitted.best_loss = epoch, record["val_loss"]
            state.best_weights = {name: value.clone() for name, value in self._model_to_keep.state_dict().items()}
        capture_seconds = self.steps.capture_seconds - captured_before
        record["seconds"] = time.perf_counter() - start - capture_seconds
        fitted.seconds += record["seconds"]
        fitted.capture_seconds += capture_seconds
        return record

    def _run_steps(self, epoch: int) -> dict[str, Any]:
        """All steps of an epoch and its validation."""
        seed = _seed_of(self.settings.seed, epoch, distributed.rank())  # for dropout and augmentation
        seed_generators(self.device, seed)
        self.steps.sums.zero_()
        self.state.network.train()
        batches = self.next_batches or self._batches(epoch)
        for step, batch in enumerate(batches, start=epoch * self.steps_per_epoch):
            rate = self.schedule.set_rate(step)
            self.steps.step(batch)
        if self.val is not None:
            self.steps.validate()
        if self.device.type == "cuda":  # the GPU is still working
            self.next_batches = self._batches(epoch + 1)
        sums = distributed.total(self.steps.sums)
        loss, right, val_loss, val_right = sums.tolist()  # waits for the device, once per epoch
        accuracy = min(1.0, right / self.labelled_per_epoch)
        loss = loss / self.bags_per_epoch
        record = {"epoch": epoch, "train_loss": loss, "train_bag_accuracy": accuracy, "learning_rate": rate}
        if self.val_bags:
            bags = self.val_bags
            record |= {"val_loss": val_loss / bags, "val_bag_accuracy": val_right / bags}
        return record

    def _batches(self, epoch: int) -> Iterable[Batch]:
        rng = np.random.default_rng([self.settings.seed, epoch])  # for the order of bags and the parts of large bags
        settings, bags = self.settings, self.bags_per_epoch
        part, n_parts = distributed.rank(), distributed.size()
        return self.train.shuffled(settings.batch_bags, rng, settings.max_instances, bags, self.fill, part, n_parts)


@cache
def _note_eager_steps() -> None:
    if distributed.is_first():
        print("majority: several processes: steps are not captured as CUDA graphs, which is slower", file=sys.stderr)


def _equal_step_size(train: Bags, settings: Settings) -> int | None:
    """The number of instances that every bag has in a step; None if bags differ."""
    sizes = settings.sizes_in_step(train.sizes)
    return int(sizes[0]) if sizes.min() == sizes.max() else None


def _can_fill(model: Model, train: Bags) -> bool:
    """Whether batches of ragged bags can be filled up, so that steps of few shapes can be captured."""
    return not isinstance(train.store, RowsOnDisk) and ignores_filling(model)


def _modules_to_compile(model: Model, train: Bags, settings: Settings) -> list[nn.Module]:
    is_long = settings.epochs * len(train.index) >= COMPILED_FROM
    if not (is_long if settings.compile is None else settings.compile):
        return []
    if settings.augment:  # random draws cannot be compiled
        return [model.backbone]
    return [model.normalise, model.backbone]


def _seed_of(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _check_finite(record: dict[str, Any]) -> None:
    for name in ("train_loss", "val_loss"):
        if not math.isfinite(record.get(name, 0)):
            raise TrainingError(
                f"{name} is {record[name]} in epoch {record['epoch'] + 1}: training stopped, and this epoch was not "
                "saved. Try a lower learning rate (in a new folder), or look for extreme values in the instances"
            )
