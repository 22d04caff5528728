"""Bags of features in place of instances."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..data.bags import Bags
from ..data.device import choose_device
from ..nn.model import Model
from ..predict.evaluate import all_batches, batch_features
from ..training.distributed import gather_pass


def bags_of_features(model: Model, bags: Bags, device: str = "auto") -> Bags:
    """The same bags with the network's features (float32 vectors) as instances, to train a head on them."""
    chosen = choose_device(device)
    model.to(chosen).eval()  # outside inference mode: weights moved inside it could not be trained again
    alone = bags.one_per_instance()

    def features_of(part: Bags) -> Tensor:
        return torch.cat([batch_features(model, batch).cpu() for batch in all_batches(part, chosen)])

    with torch.inference_mode():
        features = gather_pass(alone, features_of)
    return bags._with(store=features.numpy(), index=np.searchsorted(alone.index, bags.index))
