"""fit: one loop for every method. Validation bags choose the epoch that is kept; killed at any moment, it goes on."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ..data.bags import Bags
from ..data.batches import Batch, ResidentLoader, Target
from ..data.device import choose_device, instances_per_pass, is_out_of_memory
from ..data.segments import Segments
from ..data.streaming import make_loader
from ..errors import InputError, TrainingError
from ..files import append_line, read_lines, write_lines
from ..inference.evaluate import outputs
from ..inference.weights import Weights
from ..model import Model, in_float32
from .augment import Augment
from .checkpoint import load_checkpoint, save_checkpoint
from .cuda_graphs import Captured, compiled, cudnn_benchmark, uncompiled
from .memory import out_of_memory_message
from .objectives import BagLoss, Objective
from .optimizers import create_optimizer, moments
from .progress import show_epochs
from .settings import Settings
from .validation import check_head, check_keep, check_objective, check_soft_labels, hide_instance_labels

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.jsonl"
GPU_CHECKPOINT_SECONDS = 30.0
COMPILED_FROM = 10_000_000  # instances in all epochs: from there on compilation is soon won back


@dataclass
class Fitted:
    """How training went; the model itself was left with the weights of the best epoch."""

    best_epoch: int = -1
    best_loss: float = math.inf
    loss_name: str = "val_loss"  # of best_loss; train_loss: the last epoch was kept
    seconds: float = 0.0  # of epochs, without a GPU's one-time capture
    capture_seconds: float = 0.0
    history: list[dict] = field(default_factory=list)

    @property
    def epochs(self) -> int:
        return len(self.history)

    @property
    def outcome(self) -> dict:
        """All but the history, which has a file of its own."""
        return {name: value for name, value in vars(self).items() if name != "history"}


def fit(
    model: Model,
    train: Bags,
    val: Bags | None,
    settings: Settings | None = None,
    *,
    device: str = "auto",
    folder: str | Path | None = None,
    title: str | None = "training",  # of the progress shown; None: none
    eager: bool = False,
    keep: np.ndarray | None = None,
    soft_labels: np.ndarray | None = None,
    objective: Objective | None = None,
) -> Fitted:
    """Train on bag labels alone, choose the epoch by the validation bags' loss, leave the model at that epoch.

    With a `folder`, every epoch is written to metrics.jsonl and a checkpoint lets the same call continue
    after it was killed; the end is the same as without the interruption. On a GPU the steps are captured
    and replayed unless `eager`. `keep`, a boolean for each position of `train.index`, says which instances are
    aggregated (None: all); the others still pass through the network. Validation bags stay whole. `soft_labels`, a row of
    probabilities for each position, are for an `objective` that learns them. One other than the method's loss may
    need no validation bags; then, or where it says `keeps_last`, the last epoch is kept.
    """
    settings, objective = settings or Settings(), objective or BagLoss()
    train, val = hide_instance_labels(model, train, objective), val and hide_instance_labels(model, val, objective)
    check_objective(model, train, settings, objective)
    if objective.uses_head:
        check_head(model, train)
    if keep is not None:
        check_keep(keep, train)
    soft_labels = check_soft_labels(soft_labels, train, objective)
    device = choose_device(device)
    on_gpu = device.type == "cuda"
    fast = on_gpu and not eager
    equal = _step_size(train, settings) is not None  # else every step has a shape of its own: nothing to prepare for
    to_compile = _to_compile(model, train, settings) if fast and equal else []
    with (
        torch.random.fork_rng(devices=[device] if on_gpu else []),
        cudnn_benchmark(on_gpu and equal),
        compiled(*to_compile),
    ):
        folder = Path(folder) if folder else None
        try:
            loop = _Loop(model, train, val, settings, device, folder, objective, keep, soft_labels)
            return loop.run(title, capture=fast)
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            raise TrainingError(out_of_memory_message(train, settings, device)) from error


class _Loop:
    def __init__(self, model: Model, train: Bags, val, settings: Settings, device, folder, objective, *positions):
        self.model, self.settings, self.device, self.folder = model, settings, device, folder
        self.objective: Objective = objective
        self.whole = nn.ModuleDict({"model": model, "objective": self.objective}).to(device)
        if model.spec.images:  # as the stored images are laid out
            self.whole.to(memory_format=torch.channels_last)
        self.train = make_loader(train, device, *positions)
        self.val = val and make_loader(val, device, beside=self.train)
        self.val_ragged = val is not None and val.sizes.min() < val.sizes.max()
        self.at_once = instances_per_pass(train.store.shape[1:])
        self.val_held = list(self.val.in_order(self.at_once)) if isinstance(self.val, ResidentLoader) else None
        self.size = _step_size(train, settings)
        trained = [weight for weight in self.whole.parameters() if weight.requires_grad]
        rate, decay = settings.learning_rate, settings.weight_decay
        self.optimizer = create_optimizer(settings.optimizer, trained, rate, decay, device)
        self.augment = self._augmentation(settings.augment)
        self.sums = torch.zeros(4, device=device)  # training loss and bags right, validation loss and bags right
        self.steps_per_epoch = math.ceil(len(train) / settings.batch_bags)
        self.bags_per_epoch = len(train)
        if settings.whole_steps and len(train) > settings.batch_bags:
            self.steps_per_epoch = len(train) // settings.batch_bags
            self.bags_per_epoch = self.steps_per_epoch * settings.batch_bags
        self.fitted = Fitted()
        self.best: Weights = {}
        self.saved_at = time.monotonic()
        self.planned: Iterable[Batch] | None = None  # of the epoch to come
        self.step: Callable[[Batch], None] = self._step
        self.validate: Callable[[], None] = self._validate
        self.captured: list[Captured] = []

    def run(self, title: str | None, capture: bool) -> Fitted:
        self._resume()
        fitted, settings = self.fitted, self.settings
        keeps_last = self.val is None or self.objective.keeps_last
        fitted.loss_name = "train_loss" if keeps_last else "val_loss"
        if capture:
            self._capture()
        with show_epochs(title, fitted.epochs, settings.epochs) as show:
            while fitted.epochs < settings.epochs and not self._out_of_patience():
                epoch, start, captured = fitted.epochs, time.perf_counter(), self._captured_seconds()
                record = self._epoch(epoch)
                _check_finite(record)
                if keeps_last:
                    fitted.best_epoch, fitted.best_loss, self.best = epoch, record["train_loss"], {}
                elif record["val_loss"] < fitted.best_loss:  # the first epoch wins ties
                    fitted.best_epoch, fitted.best_loss = epoch, record["val_loss"]
                    self.best = {name: value.clone() for name, value in self.product.state_dict().items()}
                captures = self._captured_seconds() - captured
                record["seconds"] = time.perf_counter() - start - captures
                fitted.seconds += record["seconds"]
                fitted.capture_seconds += captures
                fitted.history.append(record)
                self._note(record)
                show(record)
        self._checkpoint(force=True)
        self.model.load_state_dict(self.best or self.product.state_dict())
        self.step, self.validate, self.captured, self.planned = self._step, self._validate, [], None  # frees the GPU's
        return fitted

    def _captured_seconds(self) -> float:
        return sum(captured.seconds for captured in self.captured)

    @property
    def product(self) -> Model:
        return self.objective.product(self.model)

    # ------------------------------------------------------------------ one epoch

    def _plan(self, epoch: int) -> Iterable[Batch]:
        rng = np.random.default_rng([self.settings.seed, epoch])  # order of bags, parts of bags
        return self.train.shuffled(self.settings.batch_bags, rng, self.settings.max_instances, self.bags_per_epoch)

    def _epoch(self, epoch: int) -> dict:
        seed = _seed_of(self.settings.seed, epoch)  # of dropout and augmentation
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed every GPU there is
        if self.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        self.sums.zero_()
        self.whole.train()
        batches = self.planned or self._plan(epoch)
        for step, batch in enumerate(batches, start=epoch * self.steps_per_epoch):
            rate = self._set_rate(step)
            self.step(batch)
        if self.val is not None:
            self.validate()
        if self.device.type == "cuda":  # while it works
            self.planned = self._plan(epoch + 1)
        loss, right, val_loss, val_right = self.sums.tolist()  # the epoch's one wait for the device
        bags = self.bags_per_epoch
        record = {"epoch": epoch, "train_loss": loss / bags, "train_bag_accuracy": right / bags, "learning_rate": rate}
        if self.val is not None:
            bags = len(self.val.bags)
            record |= {"val_loss": val_loss / bags, "val_bag_accuracy": val_right / bags}
        return record

    def _step(self, batch: Batch) -> None:
        with self._autocast():
            losses, right = self.objective.losses(self.model, batch, self.augment)
        self.optimizer.zero_grad(set_to_none=True)
        losses.mean().backward()
        self.optimizer.step()
        self.objective.after_step(self.model)
        self.sums[0] += losses.detach().sum()
        self.sums[1] += right.sum()

    @torch.no_grad()
    def _validate(self) -> None:
        model = self.product
        with self._autocast(), uncompiled(model) if self.val_ragged else nullcontext():
            for batch, output in outputs(model, self.val_held or self.val.in_order(self.at_once)):
                with in_float32(output.bag_log_probs):
                    self.sums[2] += model.head.losses(output, batch.segments, batch.target).sum()
                self.sums[3] += (output.bag_log_probs.argmax(dim=1) == batch.target.labels).sum()

    def _autocast(self):
        enabled = self.settings.precision == "bf16" and self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=enabled, cache_enabled=False)

    def _augmentation(self, plan: tuple) -> Callable[[Tensor], Tensor] | None:
        if not plan:
            return None
        generator = torch.default_generator
        if self.device.type == "cuda":
            generator = torch.cuda.default_generators[torch.cuda.current_device()]
        augment = Augment(plan)
        return lambda images: augment(images, generator)

    def _set_rate(self, step: int) -> float:
        s = self.settings
        rate = s.learning_rate
        if s.schedule == "cosine":
            total, warm = s.epochs * self.steps_per_epoch, s.warmup_epochs * self.steps_per_epoch
            rate *= min((step + 1) / max(warm, 1), 1)
            if step >= warm:
                rate *= 0.5 * (1 + math.cos(math.pi * (step - warm) / max(total - warm, 1)))
        for group in self.optimizer.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate)
            else:
                group["lr"] = rate
        return rate

    def _out_of_patience(self) -> bool:
        patience = self.settings.patience
        return patience is not None and self.fitted.epochs - 1 - self.fitted.best_epoch >= patience

    # ------------------------------------------------------------------ on a GPU

    def _capture(self) -> None:
        """Replay work instead of launching it: of bags on the device, and training steps where they have one size."""
        state = lambda: {"sums": self.sums} | self.whole.state_dict() | moments(self.optimizer)
        if isinstance(self.val, ResidentLoader):
            self.validate = Captured(self._validate, state)
            self.captured.append(self.validate)
        if self.size is None or not isinstance(self.train, ResidentLoader):
            return

        def step(index: Tensor, keep: Tensor | None, labels: Tensor, *more: Tensor | None) -> None:
            bags = len(labels)
            sizes = torch.full((bags,), self.size, device=self.device)
            segments = Segments(np.full(bags, self.size), sizes, keep)
            self._step(Batch(np.arange(bags), self.train.store, index, segments, Target(labels, *more)))

        replayed = Captured(step, state)
        self.captured.append(replayed)
        self.step = lambda batch: replayed(batch.index, batch.segments.keep, *batch.target)

    # ------------------------------------------------------------------ files

    def _resume(self) -> None:
        if self.folder is None:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = []
        if (self.folder / CHECKPOINT).exists():
            self.best, progress = load_checkpoint(self.folder / CHECKPOINT, self.whole, self.optimizer, self.device)
            epochs = progress.pop("epochs")
            lines = read_lines(self.folder / METRICS)[:epochs]
            if len(lines) < epochs:
                raise InputError(
                    f"{self.folder} has a checkpoint of {epochs} epochs but {len(lines)} in {METRICS}: "
                    "put that file back, or remove the folder to begin again"
                )
            self.fitted = Fitted(**progress, history=lines)
        # Lines after the checkpoint belong to epochs that will be trained again.
        write_lines(self.folder / METRICS, lines)

    def _note(self, record: dict) -> None:
        if self.folder is None:
            return
        append_line(self.folder / METRICS, record)
        self._checkpoint()

    def _checkpoint(self, force: bool = False) -> None:
        """Every epoch on a CPU, at most every GPU_CHECKPOINT_SECONDS on a GPU."""
        waited = time.monotonic() - self.saved_at
        if self.folder is None or (not force and self.device.type == "cuda" and waited < GPU_CHECKPOINT_SECONDS):
            return
        progress = {"epochs": self.fitted.epochs, **self.fitted.outcome}
        save_checkpoint(self.folder / CHECKPOINT, self.whole, self.best, self.optimizer, progress)
        self.saved_at = time.monotonic()


def _step_size(train: Bags, settings: Settings) -> int | None:
    """Of all bags in a step; None where they are ragged."""
    sizes = np.minimum(train.sizes, settings.max_instances or train.sizes.max())
    return int(sizes[0]) if sizes.min() == sizes.max() else None


def _to_compile(model: Model, train: Bags, settings: Settings) -> list[nn.Module]:
    long = settings.epochs * len(train.index) >= COMPILED_FROM
    if not (long if settings.compile is None else settings.compile):
        return []
    drawn = settings.augment  # random draws cannot be compiled
    return [model.backbone] if drawn else [model.normalise, model.backbone]


def _seed_of(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _check_finite(record: dict) -> None:
    for name in ("train_loss", "val_loss"):
        if not math.isfinite(record.get(name, 0)):
            raise TrainingError(
                f"{name} is {record[name]} in epoch {record['epoch']}: training stopped, nothing of this epoch was "
                "saved. Try a lower learning rate (in a new folder), or look for extreme values in the instances"
            )
