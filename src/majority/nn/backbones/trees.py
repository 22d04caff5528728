"""Trees: a forest as tensors, which PyTorch evaluates and exports. It is grown elsewhere; there is nothing to train."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

PREFIX = "trees:"  # of the names of such backbones, which say how large their tensors are
SMALLEST = 1e-4  # probability of a class


class Trees(nn.Module):
    """(n, d) -> (n, C) log-probabilities: the mean of what the leaves hold, corrected by an affine map. A network
    beside the trees has a share of the result.

    A node sends an instance to its left child if the feature is at most the threshold. A leaf is its own child.
    """

    feature: Tensor  # (trees, nodes)
    threshold: Tensor  # (trees, nodes)
    child: Tensor  # (2, trees, nodes): left and right
    scores: Tensor  # (trees, nodes, C)
    shift: Tensor  # (C,)
    matrix: Tensor  # (C, C)
    lowest: Tensor  # (C,)
    weight: Tensor  # ()
    offsets: Tensor  # (C,)
    share: Tensor  # () of the network
    network: nn.Module | None  # (n, d) -> (n, C) logits
    of_network = ""  # the name of its backbone

    def __init__(self, trees: int, nodes: int, depth: int, classes: int):
        super().__init__()
        self.depth, self.out_features = depth, classes
        self.register_module("network", None)
        buffers = {
            "feature": torch.zeros(trees, nodes, dtype=torch.int64),
            "threshold": torch.zeros(trees, nodes),
            "child": torch.zeros(2, trees, nodes, dtype=torch.int64),
            "scores": torch.zeros(trees, nodes, classes),
            "shift": torch.zeros(classes),
            "matrix": torch.eye(classes),
            "lowest": torch.full((classes,), SMALLEST),
            "weight": torch.tensor(1.0),
            "offsets": torch.zeros(classes),
            "share": torch.tensor(0.0),
        }
        for name, buffer in buffers.items():
            self.register_buffer(name, buffer)

    @property
    def name(self) -> str:
        trees, nodes, classes = self.scores.shape
        return f"{PREFIX}{trees}x{nodes}x{self.depth}x{classes}{self.of_network and '+' + self.of_network}"

    def add_network(self, name: str, backbone: nn.Module, features: int) -> None:
        self.of_network, self.network = name, nn.Sequential(backbone, nn.Linear(features, self.out_features))

    @classmethod
    def of(cls, trees: Sequence[Any], classes: int) -> Trees:
        """Fitted trees of scikit-learn, whose classes are numbers."""
        grown = [(tree.tree_, tree.classes_) for tree in trees]
        nodes, depth = max(tree.node_count for tree, _ in grown), max(tree.max_depth for tree, _ in grown)
        found = cls(len(grown), nodes, depth, classes)
        for number, (tree, of_classes) in enumerate(grown):
            used, own = slice(0, tree.node_count), np.arange(tree.node_count)
            is_leaf = tree.children_left < 0
            found.feature[number, used] = torch.from_numpy(np.where(is_leaf, 0, tree.feature))
            found.threshold[number, used] = torch.from_numpy(_round_down(tree.threshold))
            for side, children in enumerate((tree.children_left, tree.children_right)):
                found.child[side, number, used] = torch.from_numpy(np.where(is_leaf, own, children))
            shares = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
            found.scores[number, used, :][:, torch.from_numpy(of_classes)] = torch.from_numpy(shares).float()
        return found

    def label_scores(self, x: Tensor) -> Tensor:  # (n, d) -> (n, C)
        trees, nodes = self.threshold.shape
        first = torch.arange(trees, device=x.device) * nodes  # of the nodes of each tree
        node = first.expand(x.shape[0], trees)  # not len(x), which an export takes as a constant
        features, thresholds, children = self.feature.flatten(), self.threshold.flatten(), self.child.flatten()
        for _ in range(self.depth):
            goes_right = x.gather(1, features[node]) > thresholds[node]
            node = children[node + goes_right * (trees * nodes)] + first
        return self.scores.flatten(0, 1)[node].mean(dim=1)

    def forward(self, x: Tensor) -> Tensor:
        found = torch.maximum(self.shift + self.label_scores(x) @ self.matrix.T, self.lowest)
        found = (found / found.sum(dim=1, keepdim=True)).clamp(min=SMALLEST)
        log_probs = (self.weight * found.log() + self.offsets).log_softmax(dim=1)
        return log_probs if self.network is None else log_probs.lerp(self.network(x).log_softmax(dim=1), self.share)


def _round_down(values: np.ndarray) -> np.ndarray:
    """To float32: a feature in float32 is at most the result exactly if it is at most the value."""
    rounded = values.astype(np.float32)
    return np.where(rounded > values, np.nextafter(rounded, np.float32(-np.inf)), rounded)


def create_trees(name: str, create_backbone: Callable[[str], Any]) -> Trees:
    """An empty forest of the size that its name says, with a network if the name has one.

    >>> create_trees("trees:2x7x3x4", nn.Identity).scores.shape
    torch.Size([2, 7, 4])
    """
    sizes, _, network = name.removeprefix(PREFIX).partition("+")
    trees = Trees(*map(int, sizes.split("x")))
    if network:
        backbone = create_backbone(network)
        trees.add_network(network, backbone, backbone.out_features)
    return trees
