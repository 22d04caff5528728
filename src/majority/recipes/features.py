"""What a network says of all bags, and bags of its features in place of instances."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from ..data.bags import Bags
from ..data.device import choose_device
from ..data.loader import Batch
from ..nn.model import Model
from ..predict.evaluate import all_batches, batch_features


def gather_rows(model: Model, bags: Bags, device: str, rows_of: Callable[[Batch, Tensor], Tensor]) -> Tensor:
    """The rows that the function makes of each batch and its features, in the order of the bags. The network is in eval
    mode."""
    chosen = choose_device(device)
    model.to(chosen).eval()  # outside inference mode: weights moved inside it could not be trained again
    with torch.inference_mode():
        return torch.cat([rows_of(batch, batch_features(model, batch)) for batch in all_batches(bags, chosen)])


def bags_of_features(model: Model, bags: Bags, device: str = "auto") -> Bags:
    """The same bags with the network's features (float32 vectors) as instances, to train a head on them."""
    alone = bags.one_per_instance()
    features = gather_rows(model, alone, device, lambda batch, features: features.cpu())
    return bags._with(store=features.numpy(), index=np.searchsorted(alone.index, bags.index))


def instance_probabilities(model: Model, bags: Bags, device: str = "auto") -> Tensor:  # (n, C)
    """Probability of each class for each instance, in the order of the bags."""

    def probabilities(batch: Batch, features: Tensor) -> Tensor:
        return model.aggregate(features, batch.segments).instance_log_probs.exp()

    return gather_rows(model, bags, device, probabilities)
