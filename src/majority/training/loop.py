"""fit: one training loop for every method. An interrupted training continues with the same result (bit for bit on a
CPU)."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..data.bags import Bags
from ..data.device import choose_device, is_out_of_memory, make_current
from ..data.loader import BagLoader
from ..errors import TrainingError
from ..nn.model import Model
from . import distributed
from .callbacks import Callback, Fitted
from .checkpoint import CHECKPOINT_SECONDS, RunFiles
from .objectives import BagLoss, Objective
from .progress import show_progress
from .settings import Settings
from .steps import CapturedSteps, SharedSteps, Steps
from .validation import check_callbacks, check_processes, check_training, select_bags

SMALL_STEP = 200_000_000  # multiply-adds: threads wait for each other longer than they would compute


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

    Args:
        model: From `build_model`; it is trained in place.
        train: The bags to learn from.
        val: The bags that choose the epoch.
        settings: Epochs, optimizer and so on (default: `Settings()`).
        device: auto, cpu, cuda, cuda:N or mps.
        folder: Where epochs and checkpoints are written (default: nowhere).
        title: Names the training in its progress; None shows none.
        eager: Launch every step from Python.
        keep: Which instances are aggregated.
        soft_labels: Of instances, for an `objective` that learns them.
        objective: What is learned (default: the labels of bags).
        callbacks: Objects that follow the training.

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
    check_processes(train, val, settings)
    if not distributed.is_first():
        folder, title, callbacks = None, None, []
    on_gpu = chosen_device.type == "cuda"
    kind: type[Steps] = CapturedSteps if on_gpu and not eager else Steps
    if distributed.size() > 1:
        kind = SharedSteps
    with (
        make_current(chosen_device),
        enough_threads(model, train, settings, chosen_device),
        torch.random.fork_rng(devices=[chosen_device] if on_gpu else []),
        show_progress(title, callbacks) as callbacks,
    ):
        try:
            loader = BagLoader(train, chosen_device, keep=keep, soft_labels=soft_labels)
            steps = kind(model, loader, val, settings, objective)
            return run(steps, title, Path(folder) if folder else None, callbacks)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(out_of_memory_message(train, settings, chosen_device)) from error


def run(steps: Steps, title: str | None, folder: Path | None, callbacks: Sequence[Callback]) -> Fitted:
    """All epochs, from the first one that was not trained before."""
    state, settings = steps.state, steps.settings
    files = None if folder is None else RunFiles(folder, state, steps.device)
    distributed.from_first(files.resume if files else lambda: None)
    if distributed.size() > 1:
        state.share()
    fitted = state.fitted
    fitted.loss_name = "train_loss" if steps.val_bags == 0 or steps.objective.keeps_last else "val_loss"
    if files:
        callbacks = [files, *callbacks]  # its files are complete before any other callback may fail
    for callback in callbacks:
        callback.on_fit_start(title, fitted.epochs, settings.epochs)
    most = settings.patience or settings.epochs  # epochs after the best one
    with steps.running():
        while fitted.epochs < settings.epochs and fitted.epochs - 1 - fitted.best_epoch < most:
            record = _train_epoch(steps)
            fitted.history.append(record)
            for callback in callbacks:
                callback.on_epoch_end(dict(record))
    state.network.zero_grad()  # those of the last step take as much memory as the weights
    if files:  # before the model gets the weights of the best epoch
        files.save_after(CHECKPOINT_SECONDS)
    steps.model.load_state_dict(state.best_weights or steps.objective.model_to_keep(steps.model).state_dict())
    for callback in callbacks:
        callback.on_fit_end(fitted)
    return fitted


def _train_epoch(steps: Steps) -> dict[str, Any]:
    """Train an epoch, keep its weights if it is the best, and return its record."""
    state, fitted = steps.state, steps.state.fitted
    start = time.perf_counter() - fitted.capture_seconds
    record = steps.run_epoch(fitted.epochs)
    _check_finite(record)
    loss = record[fitted.loss_name]
    if fitted.loss_name == "train_loss":
        fitted.best_epoch, fitted.best_loss, state.best_weights = fitted.epochs, loss, {}
    elif loss < fitted.best_loss:  # the first of equal epochs is kept
        fitted.best_epoch, fitted.best_loss = fitted.epochs, loss
        kept = steps.objective.model_to_keep(steps.model).state_dict()
        state.best_weights = {name: value.clone() for name, value in kept.items()}
    record["seconds"] = time.perf_counter() - fitted.capture_seconds - start
    fitted.seconds += record["seconds"]
    return record


def _check_finite(record: dict[str, Any]) -> None:
    for name in ("train_loss", "val_loss"):
        if not math.isfinite(record.get(name, 0)):
            raise TrainingError(
                f"{name} is {record[name]} in epoch {record['epoch'] + 1}: training stopped, and this epoch was not "
                "saved. Try a lower learning rate (in a new folder), or look for extreme values in the instances"
            )


# ---------------------------------------------------------------------- memory, and threads of a CPU


def largest_step(train: Bags, settings: Settings) -> int:
    """The number of instances in the largest possible step."""
    return int(np.sort(settings.sizes_in_step(train.sizes))[-settings.batch_bags :].sum())


def out_of_memory_message(train: Bags, settings: Settings, device: torch.device) -> str:
    """The message for a step that has failed because memory ran out."""
    return (
        f"{'the GPU' if device.type == 'cuda' else 'this machine'} has too little memory for steps of "
        f"{settings.batch_bags} bags, up to {largest_step(train, settings):,} instances of shape "
        f"{train.store.shape[1:]}: use fewer bags per step (--batch-bags; for a stage with settings of its own, --set "
        "RECIPE.STAGE.batch_bags=N), a part of large bags (--max-instances), or smaller images (--image-size)"
    )


@contextmanager
def enough_threads(model: Model, train: Bags, settings: Settings, device: torch.device) -> Iterator[None]:
    """Use one thread for small steps on vectors, and as many as torch has otherwise.

    Threads that share tiny operations spend their time waiting. On a machine that other programs keep busy, that
    multiplies the time of a training.
    """
    multiply_adds = largest_step(train, settings) * sum(weight.numel() for weight in model.parameters())
    if device.type != "cpu" or model.spec.images or multiply_adds >= SMALL_STEP:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
