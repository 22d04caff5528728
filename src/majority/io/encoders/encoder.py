"""Encoder: a pretrained network of your own under a name, and how it takes images; Network: one that is open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...errors import InputError
from ...registry import Registry
from ..embedding import Embedding

if TYPE_CHECKING:  # PyTorch takes long to import
    from torch import nn

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Encoder:
    """A network under a name: `create()` returns a module from normalised images to features, with its weights.

    The module gets float32 images (n, channels, height, width): pixels divided by 255, minus `mean`, divided by `std`
    (one number per channel). It returns (n, features). `majority.register(encoder)` makes it known to
    `majority embed --model NAME`.

    >>> from torch import nn
    >>> encoder = Encoder("corners", lambda: nn.Sequential(nn.AvgPool2d(16), nn.Flatten()), "means", image_size=32)
    >>> encoder.image_size, encoder.channels
    (32, 3)
    """

    name: str
    create: Callable[[], nn.Module]
    about: str = ""
    image_size: int | tuple[int, int] = 224  # pixels per side, or (height, width)
    channels: int = 3  # 1: grey
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD


ENCODERS: Registry[Encoder] = Registry("encoder", Encoder)


@dataclass(frozen=True)
class Network:
    """An encoder that is ready to use, with the facts that it takes to embed further images alike."""

    embedding: Embedding
    run: Callable[[np.ndarray], np.ndarray]  # normalised images (n, channels, height, width) -> (n, features)
    on_gpu: bool = False

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """The features (n, d) float32 of images (n, height, width, channels) uint8 of the encoder's shape."""
        mean, std = (np.asarray(values, np.float32) for values in (self.embedding.mean, self.embedding.std))
        scaled = (images.astype(np.float32) / 255 - mean) / std
        features = self.run(np.ascontiguousarray(scaled.transpose(0, 3, 1, 2)))
        if not np.isfinite(features).all():
            model = self.embedding.model
            raise InputError(f"{model} returned NaN or infinity: check --mean and --std, or use another model")
        return features
