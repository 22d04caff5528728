"""Backbones: from normalised instances to features. Each has `out_features`; any nn.Module can stand in."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..errors import InputError, unknown_name
from .norm import BatchNorm1d, BatchNorm2d
from .resnet import ResNet18


class MLP(nn.Module):
    """Two hidden layers on vectors, or on images laid out flat."""

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
    """Nothing before the head: it reads vectors as they are."""

    def __init__(self, shape: tuple[int, ...]):
        super().__init__()
        self.out_features = shape[0]

    def forward(self, x: Tensor) -> Tensor:  # (n, d)
        return x


class CNN(nn.Module):
    """Three 3x3 convolutions with batch norm, halving twice, then the mean over positions: for small images."""

    def __init__(self, shape: tuple[int, ...], width: int = 32):
        super().__init__()
        channels = [shape[0], width, 2 * width, 4 * width]
        layers: list[nn.Module] = []
        for i in range(3):
            layers += [nn.Conv2d(channels[i], channels[i + 1], 3, padding=1, bias=False)]
            layers += [BatchNorm2d(channels[i + 1]), nn.ReLU()]
            layers += [nn.MaxPool2d(2, ceil_mode=True)] if i < 2 else []
        self.out_features = channels[-1]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:  # (n, channels, height, width) -> (n, 4 width)
        return self.layers(x).mean(dim=(2, 3))


class Tiny(nn.Module):
    """Two 3x3 convolutions with batch norm, halving twice, then a layer that sees where things are: for tiny images."""

    def __init__(self, shape: tuple[int, ...], width: int = 16, hidden: int = 128):
        super().__init__()
        channels, height, side = shape
        layers: list[nn.Module] = []
        for inputs, outputs in ((channels, width), (width, 2 * width)):
            layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), BatchNorm2d(outputs), nn.ReLU()]
            layers += [nn.MaxPool2d(2, ceil_mode=True)]
        quarter = [-(-length // 4) for length in (height, side)]
        layers += [nn.Flatten(), nn.Linear(2 * width * quarter[0] * quarter[1], hidden, bias=False)]
        layers += [BatchNorm1d(hidden), nn.ReLU()]
        self.out_features = hidden
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:  # (n, channels, height, width) -> (n, hidden)
        return self.layers(x)


class Backbone(NamedTuple):
    create: Callable[..., nn.Module]
    about: str


BACKBONES = {
    "mlp": Backbone(MLP, "two hidden layers of 128, for vectors and tiny images"),
    "linear": Backbone(Linear, "the head alone, on vectors"),
    "tiny": Backbone(Tiny, "two 3x3 convolutions and a hidden layer, for tiny images"),
    "cnn": Backbone(CNN, "three 3x3 convolutions, for small images on a CPU"),
    "resnet18": Backbone(ResNet18, "the paper's network: ImageNet's stem, at any image size"),
    "resnet18-small": Backbone(partial(ResNet18, stem="small"), "ResNet-18 with a 3x3 stem and no pooling"),
}
TIMM = "timm:"  # what a name of timm's starts with


def check_backbone(name: str) -> None:
    if name not in BACKBONES and not name.startswith(TIMM):
        raise unknown_name("backbone", name, BACKBONES, f", or {TIMM}NAME")


def create_backbone(name: str, shape: tuple[int, ...], **options) -> nn.Module:
    """A fresh backbone for instances of this shape, (d,) or (channels, height, width).

    >>> create_backbone("cnn", (3, 32, 32)).out_features
    128
    """
    check_backbone(name)
    if name not in ("mlp", "linear") and len(shape) != 3:
        raise InputError(f"backbone {name} needs images, these instances are vectors of {shape[0]} values: use mlp")
    if name == "linear" and len(shape) == 3:
        raise InputError("backbone linear reads vectors, these instances are images: use mlp")
    if name.startswith(TIMM):
        return _from_timm(name.removeprefix(TIMM), shape, **options)
    return BACKBONES[name].create(shape, **options)


def _from_timm(name: str, shape: tuple[int, ...], **options) -> nn.Module:
    try:
        import timm
    except ImportError:
        raise InputError(
            f"backbone {TIMM}{name} needs the package timm, which is not installed: "
            f"pip install timm, or take one of {', '.join(BACKBONES)}"
        ) from None
    if not timm.is_model(name):
        close = ", ".join(timm.list_models(f"*{name}*")[:5])
        raise InputError(f"timm has no model {name!r}{f' (it has {close})' if close else ''}: see timm.list_models()")
    return timm.create_model(name, pretrained=False, num_classes=0, in_chans=shape[0], **options)


@torch.no_grad()
def features_of(backbone: nn.Module, shape: tuple[int, ...]) -> int:
    """How many features a module gives: asked of it, or found by one instance of zeros."""
    if hasattr(backbone, "out_features"):
        return backbone.out_features
    training = backbone.training
    out = backbone.eval()(torch.zeros(1, *shape))
    backbone.train(training)
    if not isinstance(out, Tensor) or out.ndim != 2:
        shown = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise InputError(f"the backbone gives {shown} for one instance of shape {shape}: it must give (n, features)")
    return out.shape[1]
