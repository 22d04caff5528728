"""Augmentation in batches, on the device the images lie on.

Each function takes float images (n, channels, height, width) in 0..1, before normalisation, and a
generator on the same device; it draws for every image on its own, loops over none and waits for nothing.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError

# Red, green and blue to luminance (Y) and two colour differences (I, Q), as television did it.
YIQ = ((0.299, 0.587, 0.114), (0.5959, -0.2746, -0.3213), (0.2115, -0.5227, 0.3112))
FROM_YIQ = np.linalg.inv(np.array(YIQ)).tolist()


def flip(images: Tensor, generator: torch.Generator) -> Tensor:
    """Half of the images mirrored left to right."""
    return torch.where(_draw(images, generator) < 0.5, images.flip(3), images)


def rotate90(images: Tensor, generator: torch.Generator) -> Tensor:
    """Quarter turns, 0 to 3 (half turns alone where the images are not square)."""
    square = images.shape[2] == images.shape[3]
    turns = torch.randint(4 if square else 2, (len(images), 1, 1, 1), generator=generator, device=images.device)
    if square:
        images = torch.where(turns % 2 == 1, images.transpose(2, 3), images)
    else:
        turns = 2 * turns
    images = torch.where((turns == 1) | (turns == 2), images.flip(2), images)
    return torch.where(turns >= 2, images.flip(3), images)


def pad_and_crop(images: Tensor, generator: torch.Generator, pad: int | None = None) -> Tensor:
    """Shifted by -pad..pad pixels both ways, black where nothing was (pad: an eighth of the side)."""
    n, _, height, width = images.shape
    pad = max(1, min(height, width) // 8) if pad is None else pad
    shifts = torch.randint(-pad, pad + 1, (2, n, 1, 1), generator=generator, device=images.device)
    rows = shifts[0] + torch.arange(height, device=images.device).view(1, -1, 1)  # (n, height, 1)
    columns = shifts[1] + torch.arange(width, device=images.device).view(1, 1, -1)  # (n, 1, width)
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)  # (n, height, width)
    image = torch.arange(n, device=images.device).view(-1, 1, 1)
    shifted = images.permute(0, 2, 3, 1)[image, rows.clamp(0, height - 1), columns.clamp(0, width - 1)]
    return (shifted * inside.unsqueeze(3)).permute(0, 3, 1, 2)


def cutout(images: Tensor, generator: torch.Generator, size: int | None = None) -> Tensor:
    """A square around a random pixel, cut off at the border, set to the image's mean (size: a quarter of the side).

    DeVries and Taylor, "Improved Regularization of Convolutional Neural Networks with Cutout", 2017.
    """
    _, _, height, width = images.shape
    size = max(1, min(height, width) // 4) if size is None else size
    covered = []
    for dim, side in ((2, height), (3, width)):
        start = (_draw(images, generator) * side).floor() - size // 2
        shape = [1, 1, 1, 1]
        shape[dim] = side
        pixels = torch.arange(side, device=images.device).view(shape)
        covered.append((pixels >= start) & (pixels < start + size))
    return torch.where(covered[0] & covered[1], images.mean(dim=(2, 3), keepdim=True), images)


def resized_crop(
    images: Tensor,
    generator: torch.Generator,
    scale: tuple[float, float] = (0.2, 1.0),  # share of the image's area
    ratio: tuple[float, float] = (3 / 4, 4 / 3),  # width to height, relative to the image's
    side: int | tuple[int, int] | None = None,  # of the result, in pixels, or its height and width; None: as the image
) -> Tensor:
    """A random rectangle of each image, brought to the full size or to `side` (bilinear)."""
    n, _, height, width = images.shape
    if side is not None:
        height, width = (side, side) if isinstance(side, int) else side
    area = scale[0] + (scale[1] - scale[0]) * torch.rand(n, 1, generator=generator, device=images.device)
    low, high = (math.log(bound) for bound in ratio)
    stretch = (low + (high - low) * torch.rand(n, 1, generator=generator, device=images.device)).exp()
    x = _crop_positions(width, (area * stretch).sqrt().clamp(max=1), generator)  # (n, width)
    y = _crop_positions(height, (area / stretch).sqrt().clamp(max=1), generator)  # (n, height)
    grid = torch.stack(torch.broadcast_tensors(x.unsqueeze(1), y.unsqueeze(2)), dim=3)  # (n, height, width, 2)
    return torch.nn.functional.grid_sample(images, grid.to(images.dtype), padding_mode="border", align_corners=False)


def affine(
    images: Tensor,
    generator: torch.Generator,
    turn: float = 10.0,  # degrees
    scale: float = 0.1,
    shift: float = 0.125,  # of the side
) -> Tensor:
    """Turned by -turn..turn degrees, each axis stretched by 1 - scale .. 1 + scale, moved by -shift..shift sides."""
    n, _, height, width = images.shape
    angle, across, down, right, below = (2 * torch.rand(5, n, generator=generator, device=images.device) - 1).unbind()
    cos, sin = (angle * math.radians(turn)).cos(), (angle * math.radians(turn)).sin()
    across, down = 1 + scale * across, 1 + scale * down
    rows = [
        torch.stack([cos * across, -sin * down * height / width, 2 * shift * right], dim=1),
        torch.stack([sin * across * width / height, cos * down, 2 * shift * below], dim=1),
    ]
    grid = torch.nn.functional.affine_grid(torch.stack(rows, dim=1), list(images.shape), align_corners=False)
    return torch.nn.functional.grid_sample(images, grid.to(images.dtype), padding_mode="border", align_corners=False)


def noise(images: Tensor, generator: torch.Generator, strength: float = 0.05) -> Tensor:
    """Normal noise on every pixel."""
    drawn = torch.randn(images.shape, generator=generator, device=images.device)
    return (images + strength * drawn).clamp(0, 1)


def _crop_positions(side: int, share: Tensor, generator: torch.Generator) -> Tensor:
    """(n, 1) shares -> (n, side): where the pixel centres of a random part fall, with -1..1 the whole image."""
    centre = (1 - share) * (2 * torch.rand(share.shape, generator=generator, device=share.device) - 1)
    pixels = (2 * torch.arange(side, device=share.device) + 1) / side - 1
    return centre + share * pixels


def colour(images: Tensor, generator: torch.Generator, strength: float = 0.4, share: float = 1.0) -> Tensor:
    """Brightness, contrast and, of colour images, saturation, each times 1 - strength .. 1 + strength.

    Only a random `share` of the images is changed, here and below.
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
    """Of colour images, all hues turned by -turn..turn of the colour circle; luminance stays."""
    if images.shape[1] != 3:
        return images
    angle = 2 * math.pi * turn * (2 * _draw(images, generator) - 1)
    angle = torch.where(_draw(images, generator) < share, angle, 0.0)
    _, i, q = (_mixed(images, weights) for weights in YIQ)  # (n, 1, height, width) each
    cos, sin = angle.cos() - 1, angle.sin()
    more_i, more_q = cos * i - sin * q, sin * i + cos * q
    added = [of_i * more_i + of_q * more_q for _, of_i, of_q in FROM_YIQ]
    return (images + torch.cat(added, dim=1)).clamp(0, 1)


def grey(images: Tensor, generator: torch.Generator, share: float = 0.2) -> Tensor:
    """Colour images without their colour."""
    return torch.where(_draw(images, generator) < share, _luminance(images), images)


def _luminance(images: Tensor) -> Tensor:  # (n, 1, height, width)
    if images.shape[1] != 3:
        return images.mean(dim=1, keepdim=True)
    return _mixed(images, YIQ[0])


def _mixed(images: Tensor, weights: tuple[float, ...]) -> Tensor:
    """Channels summed with these weights. Plain numbers: a tensor made here could not be captured on a GPU."""
    return sum(weight * channel for weight, channel in zip(weights, images.split(1, dim=1), strict=True))


def _draw(images: Tensor, generator: torch.Generator) -> Tensor:
    """(n, 1, 1, 1), uniform in 0..1."""
    return torch.rand(len(images), 1, 1, 1, generator=generator, device=images.device)


AUGMENTATIONS: dict[str, Callable[..., Tensor]] = {
    "flip": flip,
    "rotate90": rotate90,
    "crop": pad_and_crop,
    "resized-crop": resized_crop,
    "cutout": cutout,
    "colour": colour,
    "hue": hue,
    "grey": grey,
    "affine": affine,
    "noise": noise,
}


class Augment:
    """Augmentations one after the other, each a name or a name and its settings.

    >>> augment = Augment(("flip", ("crop", {"pad": 2})))
    >>> augment(torch.zeros(5, 3, 8, 8), torch.Generator().manual_seed(0)).shape
    torch.Size([5, 3, 8, 8])
    """

    def __init__(self, plan: Sequence[str | tuple[str, dict]] = ()):
        try:
            self.plan = tuple((step, {}) if isinstance(step, str) else (step[0], dict(step[1])) for step in plan)
        except (TypeError, ValueError, IndexError):
            cure = "give a list of names, or of pairs [name, {setting: value}]"
            raise InputError(f"augment is {plan!r}: {cure}") from None
        for name, settings in self.plan:
            if name not in AUGMENTATIONS:
                raise InputError(f"there is no augmentation {name!r}: take one of {', '.join(AUGMENTATIONS)}")
            self._check(name, settings)

    def _check(self, name: str, settings: dict) -> None:
        _, _, *known = inspect.signature(AUGMENTATIONS[name]).parameters.values()
        for setting in settings:
            if setting not in [parameter.name for parameter in known]:
                takes = ", ".join(parameter.name for parameter in known) or "none"
                raise InputError(f"augmentation {name} has no setting {setting!r}: it takes {takes}")
        own = torch.Generator()  # all others go on as if nothing had been tried
        try:
            tried = AUGMENTATIONS[name](torch.rand(2, 3, 16, 16, generator=own), own, **settings)
            well, why = tried.numel() and tried.isfinite().all(), "it leaves no pixels, or some that are no numbers"
        except (TypeError, ValueError, RuntimeError) as error:
            well, why = False, str(error).partition("\n")[0]
        if not well:
            defaults = ", ".join(f"{parameter.name}={parameter.default}" for parameter in known)
            raise InputError(f"augmentation {name} cannot take {settings}: {why}; its defaults are {defaults}")

    def __call__(self, images: Tensor, generator: torch.Generator) -> Tensor:
        if images.ndim != 4 or not images.is_floating_point():
            raise InputError(
                f"augmentation needs float images (n, channels, height, width) in 0..1, got {images.dtype} "
                f"of shape {tuple(images.shape)}: leave it out for vectors, divide uint8 by 255"
            )
        for name, settings in self.plan:
            images = AUGMENTATIONS[name](images, generator, **settings)
        return images

    def __repr__(self) -> str:
        return f"Augment({self.plan})"
