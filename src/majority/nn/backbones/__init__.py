"""Backbones: networks from normalised instances to features. Any module that returns (n, features) can be used too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...descriptions import BACKBONES as ABOUT
from ...errors import InputError
from ...registry import Registry, register
from .norm import BatchNorm1d, BatchNorm2d
from .resnet import ResNet18
from .trees import PREFIX as TREES
from .trees import create_trees

COARSEST = 32  # pixels per side that reduced images have at least


class MLP(nn.Module):
    """Two hidden layers, for vectors or flattened images."""

    def __init__(self, shape: tuple[int, ...], width: int = 128):
        super().__init__()
        inputs = torch.Size(shape).numel()
        self.out_features = width
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )

    def forward(self, x: Tensor) -> Tensor:  # (n, ...) -> (n, width)
        return self.layers(x)


class Linear(nn.Module):
    """No layers: the head is applied to the vectors themselves."""

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.out_features = shape[0]

    def forward(self, x: Tensor) -> Tensor:  # (n, d)
        return x


class CNN(nn.Module):
    """Three 3x3 convolutions with batch norm and two poolings, then the mean over positions: for small images.

    Poolings come before the norm, which then has a quarter of the values to work on.
    """

    def __init__(self, shape: tuple[int, ...], width: int = 32, reduce: bool = False):
        super().__init__()
        self.reduce = reduce  # large images to fewer pixels
        self.out_features = 4 * width
        self.layers = nn.Sequential(
            *(_conv(shape[0], width), _pool(), BatchNorm2d(width), nn.ReLU()),
            *(_conv(width, 2 * width), _pool(), BatchNorm2d(2 * width), nn.ReLU()),
            *(_conv(2 * width, 4 * width), BatchNorm2d(4 * width), nn.ReLU()),
        )

    def forward(self, x: Tensor) -> Tensor:  # (n, channels, height, width) -> (n, 4 width)
        return self.layers(reduce_images(x) if self.reduce else x).mean(dim=(2, 3))


def reduce_images(images: Tensor) -> Tensor:  # (n, channels, height, width)
    """Images of twice COARSEST pixels or more per side with fewer pixels: squares of them are averaged.

    >>> reduce_images(torch.zeros(1, 3, 224, 260)).shape[2:], reduce_images(torch.zeros(1, 3, 40, 63)).shape[2:]
    (torch.Size([32, 37]), torch.Size([40, 63]))
    """
    factor = min(images.shape[2:]) // COARSEST
    return functional.avg_pool2d(images, factor) if factor > 1 else images


class Tiny(nn.Module):
    """Two 3x3 convolutions with batch norm and pooling, then a dense layer over all positions: for tiny images."""

    def __init__(self, shape: tuple[int, ...], width: int = 16, hidden: int = 128):
        super().__init__()
        channels, *sides = shape
        rows, columns = (-(-side // 4) for side in sides)
        self.out_features = hidden
        self.layers = nn.Sequential(
            *(_conv(channels, width), BatchNorm2d(width), nn.ReLU(), _pool()),
            *(_conv(width, 2 * width), BatchNorm2d(2 * width), nn.ReLU(), _pool()),
            *(nn.Flatten(), nn.Linear(2 * width * rows * columns, hidden, bias=False)),
            *(BatchNorm1d(hidden), nn.ReLU()),
        )

    def forward(self, x: Tensor) -> Tensor:  # (n, channels, height, width) -> (n, hidden)
        return self.layers(x)


def _conv(inputs: int, outputs: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)


def _pool() -> nn.MaxPool2d:
    return nn.MaxPool2d(2, ceil_mode=True)


@dataclass(frozen=True)
class Backbone:
    """A network under a name: `create(shape)` returns a module from instances of this shape to (n, features).

    `majority.register(backbone)` makes it known to `--backbone` and `build_model`.

    Args:
        name: By which commands and functions know it.
        create: From the shape of an instance to a module.
        about: One line for `majority list --all`.
        takes: Kinds of instances.

    >>> backbone = Backbone("flat", lambda shape: nn.Flatten(), "the pixels themselves", takes="images")
    >>> backbone.create((3, 8, 8))(torch.zeros(2, 3, 8, 8)).shape
    torch.Size([2, 192])
    """

    name: str
    create: Callable[..., nn.Module]  # shape is (d,) or (channels, height, width)
    about: str = ""
    takes: Literal["images", "vectors", "both"] = "both"


BACKBONES: Registry[Backbone] = Registry("backbone", Backbone)
for backbone in (
    Backbone("mlp", MLP, ABOUT["mlp"]),
    Backbone("linear", Linear, ABOUT["linear"], takes="vectors"),
    Backbone("tiny", Tiny, ABOUT["tiny"], takes="images"),
    Backbone("cnn", CNN, ABOUT["cnn"], takes="images"),
    Backbone("cnn-reduced", partial(CNN, reduce=True), ABOUT["cnn-reduced"], takes="images"),
    Backbone("resnet18", ResNet18, ABOUT["resnet18"], takes="images"),
    Backbone("resnet18-small", partial(ResNet18, small_stem=True), ABOUT["resnet18-small"], takes="images"),
):
    register(backbone)

TIMM = "timm:"  # prefix of the names of timm's models


def check_backbone(name: str) -> None:
    """Raise an InputError if there is no backbone of this name."""
    if not name.startswith((TIMM, TREES)):
        BACKBONES.find(name, f", or {TIMM}NAME")


def create_backbone(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    """Create an untrained backbone for instances of this shape, (d,) or (channels, height, width).

    >>> create_backbone("cnn", (3, 32, 32)).out_features
    128
    """
    check_backbone(name)
    if name.startswith(TREES):
        return create_trees(name, lambda network: create_backbone(network, shape))
    takes = "images" if name.startswith(TIMM) else BACKBONES[name].takes
    found = "images" if len(shape) == 3 else "vectors"
    if takes not in (found, "both"):
        what = found if len(shape) == 3 else f"vectors of {shape[0]} values"
        raise InputError(f"backbone {name} needs {takes}, these instances are {what}: use mlp")
    if name.startswith(TIMM):
        return _create_timm(name.removeprefix(TIMM), shape, **options)
    return BACKBONES[name].create(shape, **options)


def _create_timm(name: str, shape: tuple[int, ...], **options: Any) -> nn.Module:
    try:
        import timm
    except ImportError:
        raise InputError(f"backbone {TIMM}{name} needs the package timm: pip install timm") from None
    if not timm.is_model(name):
        raise InputError(f"timm has no model {name!r}: timm.list_models() has the names")
    return timm.create_model(name, pretrained=False, num_classes=0, in_chans=shape[0], **options)


@torch.no_grad()
def count_features(backbone: nn.Module, shape: tuple[int, ...]) -> int:
    """Return the number of features of a module: its `out_features`, or the width of its output for one instance."""
    if isinstance(out_features := getattr(backbone, "out_features", None), int):
        return out_features
    training = backbone.training
    out = backbone.eval()(torch.zeros(1, *shape))
    backbone.train(training)
    if not isinstance(out, Tensor) or out.ndim != 2:
        found = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(f"the backbone returns {found} for one instance of shape {shape}: return (n, features)")
    return out.shape[1]
