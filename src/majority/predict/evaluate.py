"""One pass of a model over all bags, batch by batch, and what it predicts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import torch
from torch import Tensor

from ..data.bags import Bags
from ..data.device import choose_device, instances_per_pass
from ..data.loader import BagLoader, Batch
from ..losses import BagOutput
from ..losses.base import in_float32
from ..nn.heads.base import InstanceHead
from ..nn.model import Model
from .predictions import Predictions


@torch.inference_mode()
def outputs(model: Model, batches: Iterable[Batch]) -> Iterator[tuple[Batch, BagOutput]]:
    """Yield each batch with the output of the model in eval mode."""
    model.eval()
    for batch in batches:
        yield batch, _output(model, batch)


def _output(model: Model, batch: Batch) -> BagOutput:
    """Of a linear classifier of instances, the features of all instances are never in memory at the same time."""
    head = model.head
    if not isinstance(head, InstanceHead):
        return model.aggregate(batch_features(model, batch), batch.segments)

    def classify(instances: Tensor) -> Tensor:
        features = model.features(instances)
        with in_float32(features):
            return head.classifier(features)

    logits = _in_pieces(model, batch, classify)
    with in_float32(logits):
        return head.loss.predict(logits, batch.segments)


def batch_features(model: Model, batch: Batch) -> Tensor:  # (n, d)
    """The features of all instances. Large batches go through the backbone in pieces."""
    return _in_pieces(model, batch, model.features)


def _in_pieces(model: Model, batch: Batch, rows_of: Callable[[Tensor], Tensor]) -> Tensor:
    """The rows of all instances. They are put into one tensor at once: small ones between large ones that are freed
    would leave holes, so that the memory of a large bag would grow with every piece."""
    most = instances_per_pass(model.spec.instance_shape, on_gpu=batch.target.labels.is_cuda)
    rows, start = torch.empty(0), 0
    for piece in batch.pieces(most):
        found = rows_of(piece)
        if len(found) == batch.segments.n:
            return found
        if start == 0:
            rows = found.new_empty(batch.segments.n, *found.shape[1:])
        rows[start : start + len(found)] = found
        start += len(found)
    return rows


def all_batches(bags: Bags, device: torch.device) -> Iterable[Batch]:
    """Every bag once, in order, on the device."""
    loader = BagLoader(bags, device, stream=device.type == "cuda")  # only a batch takes memory there
    return loader.in_order(instances_per_pass(bags.store.shape[1:]))


def predict(model: Model, bags: Bags, device: torch.device) -> Predictions:
    """Predict all bags and their instances in one pass. The model must be on the device."""
    spec = model.spec
    spec.check(bags.store)
    bag_classes, instance_classes, confidences = [], [], []
    for _, output in outputs(model, all_batches(bags, device)):
        log_confidence, instances = output.instance_log_probs.max(dim=1)  # (n,)
        bag_classes.append(output.bag_log_probs.argmax(dim=1))
        instance_classes.append(instances.int())
        confidences.append(log_confidence.exp().float())
    of_bags, classes, confidence = (  # read once at the end: the host waits for the device only here
        torch.cat(batches).cpu().numpy() for batches in (bag_classes, instance_classes, confidences)
    )
    background = None if spec.background is None else spec.background.index
    return Predictions(bags, spec.classes, classes, confidence, of_bags, background)


def evaluate(model: Model, bags: Bags, device: str = "auto") -> Predictions:
    """Predict bags; figures compare that with their labels, and with instance labels where they are known.

    Args:
        model: A trained model.
        bags: The bags to predict; labels are needed for figures only.
        device: auto, cpu, cuda, cuda:N or mps.

    >>> from majority import build_model
    >>> bags = Bags.from_lists([[[0.0, 0.0], [0.0, 1.0]], [[1.0, 1.0]]], labels=["cat", "dog"])
    >>> evaluate(build_model(bags, "log-mean"), bags).summary()["instances"]
    3
    """
    model.spec.check_bags(bags)
    background = model.spec.background
    if background is not None:
        bags = bags.with_background(bags.classes[background.index])
    chosen_device = choose_device(device)
    return predict(model.to(chosen_device), bags, chosen_device)
