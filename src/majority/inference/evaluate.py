"""A model over whole sets of bags: streamed in batches, counted on the device, read once at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import torch
from torch import Tensor

from ..data.bags import Bags
from ..data.batches import Batch
from ..data.device import choose_device, instances_per_pass
from ..data.instance_labels import UNKNOWN
from ..data.streaming import stream_loader
from ..errors import InputError
from ..methods import BagOutput
from ..model import Model
from .metrics import CALIBRATION_BINS, Outcome


@torch.inference_mode()
def outputs(model: Model, batches: Iterable[Batch]) -> Iterator[tuple[Batch, BagOutput]]:
    """Each batch's output in eval mode."""
    model.eval()
    for batch in batches:
        yield batch, model.aggregate(batch_features(model, batch), batch.segments)


def batch_features(model: Model, batch: Batch) -> Tensor:  # (n, d)
    """A bag of any size, so many at a time through the backbone."""
    most = instances_per_pass(model.spec.instance_shape, on_gpu=batch.target.labels.is_cuda)
    pieces = [model.features(piece) for piece in batch.pieces(most)]
    return pieces[0] if len(pieces) == 1 else torch.cat(pieces)


def all_batches(bags: Bags, device: torch.device) -> Iterable[Batch]:
    """Every bag once, in order, on the device."""
    return stream_loader(bags, device).in_order(instances_per_pass(bags.store.shape[1:]))


def evaluate(model: Model, bags: Bags, device: str = "auto") -> Outcome:
    """What the model makes of these bags; instance figures over the instances whose class is known."""
    if bags.classes != model.spec.classes:
        raise InputError(f"bags of classes {bags.classes}, a model of {model.spec.classes}: name the model's, in order")
    model.spec.check(bags.store)
    background = model.spec.background
    if background is not None:
        bags = bags.with_background(bags.classes[background.index])
    device = choose_device(device)
    model.to(device)
    n_classes, n_true, some_known = len(bags.classes), len(bags.true_classes), bags.instance_labels is not None
    predicted, hard_counts = [], []
    confusion = torch.zeros(n_true * n_true + 1, dtype=torch.int64, device=device)  # the last: class not known
    calibration = torch.zeros(CALIBRATION_BINS, 3, dtype=torch.float64, device=device)
    for batch, output in outputs(model, all_batches(bags, device)):
        confidence, guess = output.instance_log_probs.max(dim=1)  # (n,)
        predicted.append(output.bag_log_probs.argmax(dim=1))
        hard_counts.append(batch.segments.sum(_one_hot(guess, n_classes)))
        if some_known:
            truth = batch.target.instance_labels
            known = truth != UNKNOWN
            cells = torch.where(known, truth * n_true + guess, n_true * n_true)
            confusion.index_add_(0, cells, torch.ones_like(cells))  # bincount would wait for the device
            calibrate(calibration, confidence.exp(), guess == truth, known)
    return Outcome(
        bags.labels if bags.labelled else None,
        torch.cat(predicted).cpu().numpy(),
        torch.cat(hard_counts).cpu().numpy(),
        bags.class_counts() if some_known else None,
        confusion[:-1].view(n_true, n_true).cpu().numpy() if some_known else None,
        calibration.cpu().numpy() if some_known else None,
        bags.background,
    )


def _one_hot(classes: Tensor, n_classes: int) -> Tensor:  # (n,) -> (n, C)
    return torch.nn.functional.one_hot(classes, n_classes)


def calibrate(table: Tensor, confidence: Tensor, right: Tensor, known: Tensor) -> None:
    """Add the known instances to the bins (0, 1/15], (1/15, 2/15], ... of their confidence."""
    bins = (confidence * CALIBRATION_BINS).ceil().long().clamp(1, CALIBRATION_BINS) - 1
    rows = torch.stack([torch.ones_like(confidence), confidence, right.to(confidence.dtype)], dim=1).double()
    table.index_add_(0, bins, rows * known[:, None])
