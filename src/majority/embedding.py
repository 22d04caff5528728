"""Instances apart from their bags, and features in the place of instances."""

from __future__ import annotations

import numpy as np
import torch

from .bags import Bags
from .inference import BATCH_INSTANCES, all_batches, batch_features, choose_device
from .model import Model


def singles(bags: Bags) -> Bags:
    """Every instance in the bags once, in a bag of its own; the labels say nothing."""
    used = np.unique(bags.index)
    alone = Bags(bags.store, used, np.arange(len(used) + 1), np.zeros(len(used), np.int64), bags.classes)
    return alone._with(background=bags.background)


@torch.inference_mode()
def nearest(bags: Bags, k: int, features: np.ndarray | None = None, device: str = "auto") -> np.ndarray:
    """(N, k) store positions of the k other instances in the bags that point most alike.

    By `features`, a row for each instance in the bags in the order of the store, as `embedded` has them; without them
    by the instances themselves. Rows of the store that are in no bag hold their own position.
    """
    used = np.unique(bags.index)
    vectors = bags.store[used].reshape(len(used), -1) if features is None else features
    vectors = torch.from_numpy(vectors).to(choose_device(device)).float()
    vectors = torch.nn.functional.normalize(vectors, dim=1)
    k = min(k, len(used) - 1)
    rows = []
    for start in range(0, len(used), BATCH_INSTANCES):
        alike = vectors[start : start + BATCH_INSTANCES] @ vectors.T
        own = torch.arange(len(alike), device=alike.device)
        alike[own, start + own] = -torch.inf
        rows.append(alike.topk(k, dim=1).indices.cpu().numpy())
    table = np.arange(len(bags.store)).repeat(k).reshape(-1, k)
    table[used] = used[np.concatenate(rows)]
    return table


@torch.inference_mode()
def embedded(model: Model, bags: Bags, device: str = "auto") -> Bags:
    """The same bags with the network's features (float32 vectors) as instances: what a head is trained on alone."""
    device = choose_device(device)
    model.to(device).eval()
    alone = singles(bags)
    features = torch.cat([batch_features(model, batch).cpu() for batch in all_batches(alone, device)])
    return bags._with(store=features.numpy(), index=np.searchsorted(alone.index, bags.index))
