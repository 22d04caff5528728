"""Patches: what small squares of an image look like, without any training, followed by a small network.

After Coates, Lee and Ng (AISTATS 2011): patches are whitened and compared with typical patches, which k-means finds
among the training images; the similarities are averaged over the four quarters of the image, and their principal
components are the features. `recipes.patches` finds all of this; here it is applied.
"""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor, nn
from torch.nn import functional

PATCH = 6  # side, in pixels
CENTROIDS, COMPONENTS = 400, 512
COARSEST = 32  # larger images are reduced to at least this many pixels per side
THRESHOLD = 0.2  # similarities (cosines) below this count as none
IMAGES_AT_ONCE = 64  # one image needs about a megabyte


class PatchFeatures(nn.Module):
    """Images (n, channels, height, width) -> (n, COMPONENTS). All of it is fixed: there are no weights to train."""

    whitening: Tensor  # (values, channels, PATCH, PATCH)
    shift: Tensor  # (values,)
    centroids: Tensor  # (CENTROIDS, values), of length 1
    mean: Tensor  # (4 CENTROIDS,)
    components: Tensor  # (COMPONENTS, 4 CENTROIDS)

    def __init__(self, channels: int):
        super().__init__()
        values = channels * PATCH**2
        self.out_features = COMPONENTS
        self.register_buffer("whitening", torch.zeros(values, channels, PATCH, PATCH))
        self.register_buffer("shift", torch.zeros(values))
        self.register_buffer("centroids", torch.zeros(CENTROIDS, values))
        self.register_buffer("mean", torch.zeros(4 * CENTROIDS))
        self.register_buffer("components", torch.zeros(COMPONENTS, 4 * CENTROIDS))

    def reduced(self, images: Tensor) -> Tensor:
        """Large images with fewer pixels: their patches would show nothing but texture."""
        factor = min(images.shape[2:]) // COARSEST
        return functional.avg_pool2d(images, factor) if factor > 1 else images

    def similarities(self, images: Tensor) -> Tensor:  # (n, channels, height, width) -> (n, 4 CENTROIDS)
        white = functional.conv2d(self.reduced(images), self.whitening, self.shift)
        white = functional.normalize(white, dim=1)
        near = functional.relu(functional.conv2d(white, self.centroids[:, :, None, None]) - THRESHOLD)
        rows, columns = (near.shape[2] // 2, near.shape[3] // 2)
        quarters = product((slice(rows), slice(rows, None)), (slice(columns), slice(columns, None)))
        return torch.cat([near[:, :, across, along].mean(dim=(2, 3)) for across, along in quarters], dim=1).sqrt()

    def forward(self, images: Tensor) -> Tensor:
        pieces = [images] if torch.compiler.is_exporting() else images.split(IMAGES_AT_ONCE)
        found = torch.cat([self.similarities(piece) for piece in pieces])
        return (found - self.mean) @ self.components.T
