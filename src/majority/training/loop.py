"""fit: one training loop for every method. An interrupted training continues with the same result (bit for bit on a
CPU)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
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
from .callbacks import Callback, Fitted
from .checkpoint import CHECKPOINT_SECONDS, RunFiles, TrainingState
from .cuda_graphs import compiled, cudnn_benchmark
from .memory import enough_threads, out_of_memory_message
from .objectives import BagLoss, Objective
from .optimizers import create_optimizer, set_rate
from .progress import show_progress
from .settings import Settings
from .steps import CapturedSteps, SharedSteps, Steps
from .validation import check_callbacks, check_processes, check_training, ignores_filling, select_bags

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
    check_training(model, train, val, settings, objective, soft_labels)
    soft_labels = None if soft_labels is None else soft_labels.astype(np.float32, copy=False)
    callbacks = check_callbacks(callbacks)
    chosen_device = choose_device(device)
    check_processes(model, train, val, settings, objective)
    if not distributed.is_first():
        folder, title, callbacks = None, None, []
    on_gpu = chosen_device.type == "cuda"
    capture = on_gpu and not eager and distributed.size() == 1
    with (
        make_current(chosen_device),
        enough_threads(model, train, settings, chosen_device),
        torch.random.fork_rng(devices=[chosen_device] if on_gpu else []),
        show_progress(title, callbacks) as callbacks,
    ):
        try:
            loader = BagLoader(train, chosen_device, keep=keep, soft_labels=soft_labels)
            loop = _Loop(model, loader, val, settings, objective, capture)
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
        train: BagLoader,
        val: Bags | None,
        settings: Settings,
        objective: Objective,
        capture: bool = False,
    ):
        self.model, self.train, self.settings, self.objective = model, train, settings, objective
        self.device = train.device
        network = nn.ModuleDict({"model": model, "objective": objective}).to(self.device)
        if model.spec.images:  # the memory layout of the stored images
            network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # torch's stub lacks it
        self.val_bags = 0 if val is None else len(val)
        own_val = None if val is None else distributed.own_part(val)
        val_loader = None if own_val is None else BagLoader(own_val, self.device, share_store_with=train)
        trainable = [weight for weight in network.parameters() if weight.requires_grad]
        rate, decay = settings.learning_rate, settings.weight_decay
        self.state = TrainingState(network, create_optimizer(settings.optimizer, trainable, rate, decay, self.device))
        bags, per_step = len(train.bags), settings.batch_bags
        self.bags_per_epoch, self.steps_per_epoch = bags, math.ceil(bags / per_step)
        last = bags % per_step
        if bags > per_step and (settings.drop_last or last < distributed.size()):  # a bag per process
            self.bags_per_epoch, self.steps_per_epoch = bags - last, bags // per_step
        self.labelled_per_epoch = min(self.bags_per_epoch, max(int(train.bags.bag_labels.known.sum()), 1))
        sizes = settings.sizes_in_step(train.bags.sizes)
        step_size = int(sizes[0]) if sizes.min() == sizes.max() else None
        can_fill = capture and not isinstance(train.bags.store, RowsOnDisk) and ignores_filling(model)
        few_shapes, self.fill = step_size is not None or can_fill, can_fill and step_size is None
        self.tuned = self.device.type == "cuda" and few_shapes
        self.to_compile = _modules_to_compile(model, train.bags, settings) if capture and few_shapes else []
        kind = SharedSteps if distributed.size() > 1 else CapturedSteps if capture else Steps
        self.steps: Steps = kind(model, objective, self.state, settings, train, val_loader, step_size, can_fill)
        self.next_batches: Iterable[Batch] | None = None  # of the next epoch, prepared while the GPU works

    def run(self, title: str | None, folder: Path | None, callbacks: Sequence[Callback]) -> Fitted:
        state, settings = self.state, self.settings
        files = None if folder is None else RunFiles(folder, state, self.device)
        distributed.from_first(files.resume if files else lambda: None)
        if distributed.size() > 1:
            state.share()
        fitted = state.fitted
        fitted.loss_name = "train_loss" if self._keeps_last else "val_loss"
        if files:
            callbacks = [files, *callbacks]  # its files are complete before any other callback may fail
        for callback in callbacks:
            callback.on_fit_start(title, fitted.epochs, settings.epochs)
        most = settings.patience or settings.epochs  # epochs after the best one
        with cudnn_benchmark(self.tuned), compiled(*self.to_compile), self.steps.running():
            while fitted.epochs < settings.epochs and fitted.epochs - 1 - fitted.best_epoch < most:
                record = self._train_epoch(fitted.epochs)
                fitted.history.append(record)
                for callback in callbacks:
                    callback.on_epoch_end(dict(record))
        if files:  # before the model gets the weights of the best epoch
            files.save_after(CHECKPOINT_SECONDS)
        self.model.load_state_dict(state.best_weights or self.objective.model_to_keep(self.model).state_dict())
        self.next_batches = None
        for callback in callbacks:
            callback.on_fit_end(fitted)
        return fitted

    @property
    def _keeps_last(self) -> bool:
        return self.val_bags == 0 or self.objective.keeps_last

    def _train_epoch(self, epoch: int) -> dict[str, Any]:
        """Train an epoch, keep its weights if it is the best, and return its record."""
        state, fitted = self.state, self.state.fitted
        start, captured_before = time.perf_counter(), self.steps.capture_seconds
        record = self._run_steps(epoch)
        _check_finite(record)
        loss = record[fitted.loss_name]
        if self._keeps_last:
            fitted.best_epoch, fitted.best_loss, state.best_weights = epoch, loss, {}
        elif loss < fitted.best_loss:  # the first of equal epochs is kept
            fitted.best_epoch, fitted.best_loss = epoch, loss
            kept = self.objective.model_to_keep(self.model).state_dict()
            state.best_weights = {name: value.clone() for name, value in kept.items()}
        capture_seconds = self.steps.capture_seconds - captured_before
        record["seconds"] = time.perf_counter() - start - capture_seconds
        fitted.seconds += record["seconds"]
        fitted.capture_seconds += capture_seconds
        return record

    def _run_steps(self, epoch: int) -> dict[str, Any]:
        """All steps of an epoch and its validation."""
        numbers = np.random.SeedSequence((self.settings.seed, epoch, distributed.rank()))
        seed_generators(self.device, int(numbers.generate_state(1, np.uint64)[0]))  # for dropout and augmentation
        self.steps.sums.zero_()
        self.state.network.train()
        batches = self.next_batches or self._batches(epoch)
        for step, batch in enumerate(batches, start=epoch * self.steps_per_epoch):
            rate = self.settings.rate(step, self.steps_per_epoch)
            set_rate(self.state.optimizer, rate)
            self.steps.step(batch)
        if self.steps.val is not None:
            self.steps.validate()
        if self.device.type == "cuda":  # the GPU is still working
            self.next_batches = self._batches(epoch + 1)
        loss, right, val_loss, val_right = distributed.total(self.steps.sums).tolist()  # waits for the device, once
        record = {
            "epoch": epoch,
            "train_loss": loss / self.bags_per_epoch,
            "train_bag_accuracy": min(1.0, right / self.labelled_per_epoch),
            "learning_rate": rate,
        }
        if self.val_bags:
            record |= {"val_loss": val_loss / self.val_bags, "val_bag_accuracy": val_right / self.val_bags}
        return record

    def _batches(self, epoch: int) -> Iterable[Batch]:
        rng = np.random.default_rng([self.settings.seed, epoch])  # for the order of bags and the parts of large bags
        settings, bags = self.settings, self.bags_per_epoch
        part, n_parts = distributed.rank(), distributed.size()
        return self.train.shuffled(settings.batch_bags, rng, settings.max_instances, bags, self.fill, part, n_parts)


def _modules_to_compile(model: Model, train: Bags, settings: Settings) -> list[nn.Module]:
    is_long = settings.epochs * len(train.index) >= COMPILED_FROM
    if not (is_long if settings.compile is None else settings.compile):
        return []
    return [model.backbone] if settings.augment else [model.normalise, model.backbone]  # not random draws


def _check_finite(record: dict[str, Any]) -> None:
    for name in ("train_loss", "val_loss"):
        if not math.isfinite(record.get(name, 0)):
            raise TrainingError(
                f"{name} is {record[name]} in epoch {record['epoch'] + 1}: training stopped, and this epoch was not "
                "saved. Try a lower learning rate (in a new folder), or look for extreme values in the instances"
            )
