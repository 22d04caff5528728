"""Images as vectors, for a CPU: features of patches, found without labels.

After Coates, Lee and Ng (AISTATS 2011): patches are whitened and compared with typical patches, which k-means finds
among the training images; the similarities are averaged over the four quarters of the image, and their principal
components are the features. Bag labels suffice to train a head on them, and a network learns its soft labels.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ...data.bags import Bags
from ...data.stores import iterate_chunks
from ...nn.backbones import reduce_images
from ...nn.model import Model, Normalise
from ...nn.weights import Weights
from ...training.distributed import from_first
from ..stages import Run, Stage
from .parts import PATCHES, learned_bags

PATCH = 6  # side, in pixels
CENTROIDS, COMPONENTS = 400, 512
THRESHOLD = 0.2  # similarities (cosines) below this count as none
IMAGES_AT_ONCE = 64  # one image needs about a megabyte
IMAGES, PER_IMAGE = 4_000, 40  # from which patches are drawn, and how many from each
IMAGES_OF_COMPONENTS = 8_000  # from which the principal components are found
ROUNDS = 12  # of k-means
NOISE = 0.01  # variance that is added before whitening, relative to the mean: it keeps noise from being amplified
ROWS_AT_ONCE = 20_000


class PatchFeatures(nn.Module):
    """Images (n, channels, height, width) -> (n, COMPONENTS). All of it is fixed: there are no weights to train."""

    mean: Tensor  # (4 CENTROIDS,)

    def __init__(self, channels: int):
        super().__init__()
        values, self.out_features = channels * PATCH**2, COMPONENTS
        self.whiten = nn.Conv2d(channels, values, PATCH)
        self.compare = nn.Conv2d(values, CENTROIDS, 1, bias=False)
        self.register_buffer("mean", torch.zeros(4 * CENTROIDS))
        self.components = nn.Linear(4 * CENTROIDS, COMPONENTS, bias=False)
        self.requires_grad_(False)

    def similarities(self, images: Tensor) -> Tensor:  # (n, channels, height, width) -> (n, 4 CENTROIDS)
        white = functional.normalize(self.whiten(reduce_images(images)), dim=1)
        near = functional.relu(self.compare(white) - THRESHOLD)
        rows, columns = (near.shape[2] // 2, near.shape[3] // 2)
        quarters = product((slice(rows), slice(rows, None)), (slice(columns), slice(columns, None)))
        return torch.cat([near[:, :, across, along].mean(dim=(2, 3)) for across, along in quarters], dim=1).sqrt()

    def forward(self, images: Tensor) -> Tensor:
        found = torch.cat([self.similarities(piece) for piece in images.split(IMAGES_AT_ONCE)])
        components: Tensor = self.components(found - self.mean)
        return components


def stage_of_patches() -> Stage:
    return Stage(PATCHES, start=_untrained, train=_train, once=True)


def _untrained(run: Run) -> Model:
    whole = run.fresh_model()
    with torch.random.fork_rng(devices=[]):
        features = PatchFeatures(whole.spec.backbone_shape[0])
        return Model(replace(whole.spec, backbone=None), whole.normalise, features)


def _train(run: Run, model: Model) -> None:
    run.log(f"stage {PATCHES}: looking for typical patches of the images, without labels")
    features: Any = model.backbone
    given = (model.normalise, learned_bags(run), run.plan.training.seed)
    features.load_state_dict(from_first(lambda: find_patches(features, *given)))


@torch.no_grad()
def find_patches(features: PatchFeatures, normalise: Normalise, bags: Bags, seed: int) -> Weights:
    """Fill the buffers of `features` from the images of these bags. Labels are not used."""
    used, generator = np.unique(bags.index), torch.Generator().manual_seed(seed)
    order = torch.randperm(len(used), generator=generator).numpy()
    some, more = (used[np.sort(order[:number])] for number in (IMAGES, IMAGES_OF_COMPONENTS))
    patches = torch.cat([_draw(reduce_images(images), generator) for images in _images(bags, some, normalise)])
    mean = patches.mean(dim=0)
    variances, directions = torch.linalg.eigh(torch.cov((patches - mean).T.double()))
    scales = (variances.clamp(min=0) + NOISE * variances.mean() + torch.finfo(torch.float32).tiny).rsqrt()
    whitening = (directions * scales @ directions.T).float()  # symmetric
    whiten = features.whiten
    whiten.load_state_dict({"weight": whitening.view_as(whiten.weight), "bias": -(whitening @ mean)})
    white = functional.normalize((patches - mean) @ whitening, dim=1)
    centroids, width = _k_means_of_directions(white, CENTROIDS, generator), len(features.mean)
    features.compare.weight.copy_(centroids[:, :, None, None])
    sums, squares = torch.zeros(width, dtype=torch.float64), torch.zeros(width, width, dtype=torch.float64)
    for images in _images(bags, more, normalise):
        found = features.similarities(images).double()
        sums += found.sum(dim=0)
        squares += found.T @ found
    mean = sums / len(more)
    _, directions = torch.linalg.eigh(squares / len(more) - torch.outer(mean, mean))
    features.mean.copy_(mean)
    features.components.weight.copy_(directions.flip(1)[:, :COMPONENTS].T)
    return features.state_dict()


def _images(bags: Bags, rows: np.ndarray, normalise: Normalise) -> Iterator[Tensor]:
    """Normalised images (n, channels, height, width), some at a time."""
    for chunk in iterate_chunks(bags.store, rows):
        for piece in torch.from_numpy(chunk).split(IMAGES_AT_ONCE):
            yield normalise(piece)


def _draw(images: Tensor, generator: torch.Generator) -> Tensor:
    """Patches at random places: (n * PER_IMAGE, values), or all of them if an image has fewer."""
    patches = functional.unfold(images, PATCH).transpose(1, 2)  # (n, places, values)
    places = torch.rand(patches.shape[:2], generator=generator).argsort(dim=1)[:, :PER_IMAGE]
    return patches.gather(1, places.unsqueeze(2).expand(-1, -1, patches.shape[2])).flatten(0, 1)


def _k_means_of_directions(rows: Tensor, clusters: int, generator: torch.Generator) -> Tensor:
    """(n, d) rows of length 1 -> (clusters, d) centroids of length 1. A cluster without rows gets a random row."""
    centroids = rows[torch.randint(len(rows), (clusters,), generator=generator)]
    for _ in range(ROUNDS):
        nearest = torch.cat([(some @ centroids.T).argmax(dim=1) for some in rows.split(ROWS_AT_ONCE)])
        sums = torch.zeros_like(centroids).index_add_(0, nearest, rows)
        empty = torch.bincount(nearest, minlength=clusters) == 0
        sums[empty] = rows[torch.randint(len(rows), (int(empty.sum()),), generator=generator)]
        centroids = functional.normalize(sums, dim=1)
    return centroids
