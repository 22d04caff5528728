"""Encoder: a pretrained network of your own under a name, and how it takes images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...registry import Registry

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
