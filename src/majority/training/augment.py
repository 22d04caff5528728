"""Augmentations of images, in batches, on the device of the images.

Each function takes float images (n, channels, height, width) in 0..1, before normalisation, and a generator on the
same device. It draws new random numbers for every image, has no loop over images and never waits for the device.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample

from ..descriptions import AUGMENTATIONS as ABOUT
from ..errors import InputError
from ..registry import Registry, register

# Red, green and blue to luminance (Y) and two colour differences (I, Q), as in analogue television (NTSC).
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))
FROM_YIQ = np.linalg.inv(np.array(YIQ)).tolist()


def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Mirror half of the images, left to right."""
    return torch.where(_draw(images, generator) < 0.5, images.flip(3), images)


def rotate90(images: Tensor, generator: torch.Generator) -> Tensor:
    """Turn each image by 0 to 3 quarter turns (only by half turns if the images are not square)."""
    square = images.shape[2] == images.shape[3]
    turns = torch.randint(4 if square else 2, (len(images), 1, 1, 1), generator=generator, device=images.device)
    if square:
        images = torch.where(turns % 2 == 1, images.transpose(2, 3), images)
    else:
        turns = 2 * turns
    images = torch.where((turns == 1) | (turns == 2), images.flip(2), images)
    return torch.where(turns >= 2, images.flip(3), images)


def pad_and_crop(images: Tensor, generator: torch.Generator, pad: int | None = None) -> Tensor:
    """Shift each image by -pad..pad pixels in both directions and fill with black (default: an eighth of the side)."""
    n, _, height, width = images.shape
    pad = max(1, min(height, width) // 8) if pad is None else pad
    shifts = torch.randint(-pad, pad + 1, (2, n, 1, 1), generator=generator, device=images.device)
    rows = pad + shifts[0] + torch.arange(height, device=images.device).view(1, -1, 1)  # (n, height, 1)
    columns = pad + shifts[1] + torch.arange(width, device=images.device).view(1, 1, -1)  # (n, 1, width)
    image = torch.arange(n, device=images.device).view(-1, 1, 1)
    padded = torch.nn.functional.pad(images, (pad, pad, pad, pad)).permute(0, 2, 3, 1)
    return padded[image, rows, columns].permute(0, 3, 1, 2)


def cutout(images: Tensor, generator: torch.Generator, size: int | None = None) -> Tensor:
    """Set a square around a random pixel to the mean of the image (default size: a quarter of the side).

    DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017.
    """
    _, _, height, width = images.shape
    size = max(1, min(height, width) // 4) if size is None else size
    covered = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=images.device)
    for side, shape in ((height, (1, 1, -1, 1)), (width, (1, 1, 1, -1))):
        pixels = torch.arange(side, device=images.device).view(shape)
        start = (_draw(images, generator) * side).floor() - size // 2
        covered = covered & (pixels >= start) & (pixels < start + size)
    return torch.where(covered, images.mean(dim=(2, 3), keepdim=True), images)


def resized_crop(
    images: Tensor,
    generator: torch.Generator,
    scale: tuple[float, float] = (0.2, 1.0),  # area of the rectangle, as a share of the image
    ratio: tuple[float, float] = (3 / 4, 4 / 3),  # width to height of the rectangle, relative to the image
    side: int | tuple[int, int] | None = None,  # side of the result, or height and width; None: those of the image
) -> Tensor:
    """Crop a random rectangle of each image and resize it to the size of the image or to `side` (bilinear)."""
    n, _, height, width = images.shape
    if side is not None:
        height, width = (side, side) if isinstance(side, int) else side
    area = scale[0] + (scale[1] - scale[0]) * _draw(images, generator)
    low, high = (math.log(bound) for bound in ratio)
    stretch = (low + (high - low) * _draw(images, generator)).exp()
    centres = []  # of the pixels of the crop: (n, 1, width) and (n, height, 1); -1..1 is the whole image
    for length, share, shape in ((width, area * stretch, (1, 1, -1)), (height, area / stretch, (1, -1, 1))):
        share = share.sqrt().clamp(max=1).view(-1, 1, 1)
        centre = (1 - share) * (2 * _draw(images, generator).view(-1, 1, 1) - 1)
        pixels = (2 * torch.arange(length, device=images.device) + 1) / length - 1
        centres.append((centre + share * pixels.view(shape)).expand(n, height, width))
    return _sample(images, torch.stack(centres, dim=3))


def affine(
    images: Tensor,
    generator: torch.Generator,
    turn: float = 10.0,  # degrees
    scale: float = 0.1,
    shift: float = 0.125,  # as a share of the side
) -> Tensor:
    """Rotate by -turn..turn degrees, stretch each axis by 1 - scale .. 1 + scale, move by -shift..shift of the side."""
    n, _, height, width = images.shape
    angle, across, down, right, below = (2 * torch.rand(5, n, generator=generator, device=images.device) - 1).unbind()
    cos, sin = (angle * math.radians(turn)).cos(), (angle * math.radians(turn)).sin()
    across, down = 1 + scale * across, 1 + scale * down
    rows = [
        torch.stack([cos * across, -sin * down * height / width, 2 * shift * right], dim=1),
        torch.stack([sin * across * width / height, cos * down, 2 * shift * below], dim=1),
    ]
    return _sample(images, affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False))


def noise(images: Tensor, generator: torch.Generator, strength: float = 0.05) -> Tensor:
    """Add normal noise to every pixel."""
    drawn = torch.randn(images.shape, generator=generator, device=images.device)
    return (images + strength * drawn).clamp(0, 1)


def _sample(images: Tensor, grid: Tensor) -> Tensor:  # (n, height, width, 2) from -1 to 1
    return grid_sample(images, grid.to(images.dtype), padding_mode="border", align_corners=False)


def colour(images: Tensor, generator: torch.Generator, strength: float = 0.4, share: float = 1.0) -> Tensor:
    """Multiply brightness, contrast and, in colour images, saturation by 1 - strength .. 1 + strength each.

    Only a random `share` of the images is changed, here and in the functions below.
    """
    factors = [(1 + strength * (2 * _draw(images, generator) - 1)).clamp(min=0) for _ in range(3)]
    chosen = _draw(images, generator) < share
    brightness, contrast, saturation = (torch.where(chosen, factor, 1.0) for factor in factors)
    images = (images * brightness).clamp(0, 1)
    mean = _luminance(images).mean(dim=(2, 3), keepdim=True)
    images = (mean + contrast * (images - mean)).clamp(0, 1)
    if images.shape[1] != 3:
        return images
    grey = _luminance(images)
    return (grey + saturation * (images - grey)).clamp(0, 1)


def hue(images: Tensor, generator: torch.Generator, turn: float = 0.1, share: float = 1.0) -> Tensor:
    """Turn all hues of colour images by -turn..turn of the colour circle; the luminance stays the same."""
    if images.shape[1] != 3:
        return images
    angle = 2 * math.pi * turn * (2 * _draw(images, generator) - 1)
    angle = torch.where(_draw(images, generator) < share, angle, 0.0)
    _, i, q = (_weighted_sum(images, weights) for weights in YIQ)  # (n, 1, height, width) each
    cos, sin = angle.cos() - 1, angle.sin()
    more_i, more_q = cos * i - sin * q, sin * i + cos * q
    added = [of_i * more_i + of_q * more_q for _, of_i, of_q in FROM_YIQ]
    return (images + torch.cat(added, dim=1)).clamp(0, 1)


def grey(images: Tensor, generator: torch.Generator, share: float = 0.2) -> Tensor:
    """Remove the colour of colour images."""
    return torch.where(_draw(images, generator) < share, _luminance(images), images)


def _luminance(images: Tensor) -> Tensor:  # (n, 1, height, width)
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    return _weighted_sum(images, YIQ[0])


def _weighted_sum(images: Tensor, weights: tuple[float, ...]) -> Tensor:
    """(n, 1, height, width): the weighted sum of the channels. The weights are plain numbers, as a tensor that is
    created here could not be captured on a GPU."""
    channels = torch.split(images, 1, dim=1)
    return reduce(torch.add, (weight * channel for weight, channel in zip(weights, channels, strict=True)))


def _draw(images: Tensor, generator: torch.Generator) -> Tensor:
    """(n, 1, 1, 1), uniform in 0..1."""
    return torch.rand(len(images), 1, 1, 1, generator=generator, device=images.device)


@dataclass(frozen=True)
class Augmentation:
    """A named augmentation: `register` adds it, and `Settings(augment=...)` uses it by its name.

    The function takes float images (n, channels, height, width) in 0..1, with any number of channels, and a generator
    on the same device, from which it must draw all its random numbers. Further parameters are its settings; they need
    defaults. It returns the changed images.

    >>> def darken(images, generator, lowest=0.5):
    ...     factor = torch.rand(len(images), 1, 1, 1, generator=generator, device=images.device)
    ...     return images * (lowest + (1 - lowest) * factor)
    >>> Augmentation("darken", darken, "darker images").settings
    {'lowest': 0.5}
    """

    name: str
    function: Callable[..., Tensor]
    about: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """The defaults of its settings by name."""
        parameters = list(inspect.signature(self.function).parameters.values())[2:]
        return {parameter.name: parameter.default for parameter in parameters}


AUGMENTATIONS: Registry[Augmentation] = Registry("augmentation", Augmentation)
for function in (flip, rotate90, pad_and_crop, resized_crop, cutout, colour, hue, grey, affine, noise):
    name = {"pad_and_crop": "crop"}.get(function.__name__, function.__name__.replace("_", "-"))
    register(Augmentation(name, function, ABOUT[name]))

AugmentStep = str | tuple[str, dict[str, Any]]  # the name of an augmentation, or its name and settings


class Augment:
    """Applies augmentations one after the other. Each is a name, or a name and its settings.

    >>> augment = Augment(("flip", ("crop", {"pad": 2})))
    >>> augment(torch.zeros(5, 3, 8, 8), torch.Generator().manual_seed(0)).shape
    torch.Size([5, 3, 8, 8])
    """

    def __init__(self, plan: Sequence[AugmentStep] = ()):
        self.plan = tuple((step, {}) if isinstance(step, str) else (step[0], dict(step[1])) for step in plan)
        for name, settings in self.plan:
            _try(AUGMENTATIONS.find(name), settings)

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        for name, settings in self.plan:
            images = AUGMENTATIONS[name].function(images, generator, **settings)
        return images


def _try(augmentation: Augmentation, settings: dict[str, Any]) -> None:
    """Refuse settings that fail on two random images."""
    generator = torch.Generator()  # the trial must not change what other generators draw
    try:
        augmentation.function(torch.rand(2, 3, 16, 16, generator=generator), generator, **settings)
    except (TypeError, ValueError, RuntimeError, AttributeError) as error:
        shown = ", ".join(f"{name}={value}" for name, value in augmentation.settings.items()) or "none"
        raise InputError(
            f"augmentation {augmentation.name} cannot take {settings}: {error}; its settings are {shown}"
        ) from None
