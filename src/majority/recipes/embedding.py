"""Instances apart from their bags, and features in the place of instances."""

from __future__ import annotations

import numpy as np
import torch

from ..data.bags import Bags
from ..data.device import choose_device
from ..inference.evaluate import all_batches, batch_features
from ..model import Model


def as_single_bags(bags: Bags) -> Bags:
    """Every instance in the bags once, in a bag of its own; the labels say nothing."""
    used = np.unique(bags.index)
    alone = Bags(bags.store, used, np.arange(len(used) + 1), np.zeros(len(used), np.int64), bags.classes)
    return alone._with(background=bags.background)


def embed_bags(model: Model, bags: Bags, device: str = "auto") -> Bags:
    """The same bags with the network's features (float32 vectors) as instances: what a head is trained on alone."""
    device = choose_device(device)
    model.to(device).eval()  # not in inference mode: weights that are moved there can never be trained again
    alone = as_single_bags(bags)
    with torch.inference_mode():
        features = torch.cat([batch_features(model, batch).cpu() for batch in all_batches(alone, device)])
    return bags._with(store=features.numpy(), index=np.searchsorted(alone.index, bags.index))
