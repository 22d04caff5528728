"""ResNet-18 (He et al., "Deep Residual Learning for Image Recognition", CVPR 2016), and weights from a local file.

Its parameters have the names and shapes of torchvision's, without the last layer, so that torchvision's weights can be
loaded.
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, pixel_unshuffle

from ...errors import InputError
from .norm import BatchNorm2d

STEMS = ("imagenet", "small")


class Conv3x3(nn.Conv2d):
    """A 3x3 convolution with padding 1. On maps of 1x1 and 2x2 pixels, products with the padding are skipped.

    In the last stages a 32x32 image is a map of 2x2 or 1x1 pixels, where most of the nine taps see only padding.
    """

    def __init__(self, inputs: int, outputs: int, stride: int = 1):
        super().__init__(inputs, outputs, 3, stride, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        side, stride = tuple(x.shape[2:]), self.stride[0]
        if side == (1, 1):
            return conv2d(x, self.weight[:, :, 1:2, 1:2])
        if side == (2, 2) and stride == 2:
            return conv2d(x, self.weight[:, :, 1:, 1:])
        if side == (2, 2):  # each pixel of the output uses another 2x2 window of the taps
            windows = [self.weight[:, :, 1 - i : 3 - i, 1 - j : 3 - j] for i in (0, 1) for j in (0, 1)]
            pixels = conv2d(x, torch.cat(windows))  # (n, 4 outputs, 1, 1)
            return torch.unflatten(pixels.flatten(1), 1, (2, 2, -1)).permute(0, 3, 1, 2)
        return super().forward(x)


class Block(nn.Module):
    """A residual block: x plus two 3x3 convolutions of x."""

    def __init__(self, inputs: int, outputs: int, stride: int):
        super().__init__()
        self.conv1 = Conv3x3(inputs, outputs, stride)
        self.bn1 = BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = Conv3x3(outputs, outputs)
        self.bn2 = BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet18(nn.Module):
    """Four stages of two blocks, then the mean over positions.

    With the imagenet stem (7x7 with stride 2, then max-pooling) an image is reduced 32-fold, with the small stem (3x3)
    8-fold.
    """

    def __init__(self, shape: tuple[int, ...], stem: str = "imagenet"):
        super().__init__()
        if stem not in STEMS:
            raise InputError(f"resnet18 has no stem {stem!r}: use one of {', '.join(STEMS)}")
        self.out_features = 512
        self.large_stem = stem == "imagenet"
        self.maxpool: nn.Module
        if self.large_stem:
            self.conv1 = nn.Conv2d(shape[0], 64, 7, stride=2, padding=3, bias=False)
            self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            self.conv1 = Conv3x3(shape[0], 64)
            self.maxpool = nn.Identity()
        self.bn1 = BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = nn.Sequential(Block(64, 64, 1), Block(64, 64, 1))
        self.layer2 = nn.Sequential(Block(64, 128, 2), Block(128, 128, 1))
        self.layer3 = nn.Sequential(Block(128, 256, 2), Block(256, 256, 1))
        self.layer4 = nn.Sequential(Block(256, 512, 2), Block(512, 512, 1))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Tensor) -> Tensor:  # (n, channels, height, width) -> (n, 512)
        x = blockwise_conv(x, self.conv1.weight) if self.large_stem and x.is_cuda else self.conv1(x)
        x = self.maxpool(self.relu(self.bn1(x)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean(dim=(2, 3))


def blockwise_conv(x: Tensor, weight: Tensor) -> Tensor:
    """The 7x7 convolution with stride 2 and padding 3, as a 4x4 one over 2x2 blocks of pixels as channels.

    The sums are the same, but far faster on a GPU, whose matrix units three channels do not fill.
    """
    bottom, right = (3 + side % 2 for side in x.shape[2:])
    blocks = pixel_unshuffle(pad(x, (3, right, 3, bottom)), 2)  # (n, 4 channels, ...)
    return conv2d(blocks, pixel_unshuffle(pad(weight, (0, 1, 0, 1)), 2))


def load_weights(backbone: nn.Module, path: str | Path) -> None:
    """Load weights from a local .safetensors, .pth or .pt file, such as torchvision's resnet18.

    The last layer of the file, fc, is left out. For a backbone of grey images, a first convolution of colour images is
    summed over its channels: the result is the same as for grey repeated in three channels.
    """
    path = Path(path)
    weights = {name: tensor for name, tensor in _read_weights(path).items() if not name.startswith("fc.")}
    expected = backbone.state_dict()
    first = next((f"{name}.weight" for name, module in backbone.named_modules() if isinstance(module, nn.Conv2d)), None)
    if first in weights and expected[first].shape[1] == 1 and weights[first].shape[1:2] == (3,):
        weights[first] = weights[first].sum(dim=1, keepdim=True)
    _check_fit(weights, expected, path)
    backbone.load_state_dict(weights, strict=False)


def _read_weights(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise InputError(f"there is no weights file {path}: check the path (nothing is downloaded)")
    if path.suffix not in (".safetensors", ".pth", ".pt"):
        raise InputError(f"weights file {path}: give one that ends in .safetensors, .pth or .pt")
    try:
        weights = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except Exception as error:  # torch.load and safetensors raise many kinds of errors
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"weights file {path} cannot be read ({reason}): it must hold tensors by name, "
            "as written by torch.save(model.state_dict(), path) or by safetensors"
        ) from error
    named = isinstance(weights, dict) and all(isinstance(name, str) for name in weights)
    if not named or not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise InputError(f"weights file {path} does not hold tensors by name: save model.state_dict() alone")
    return weights


def _check_fit(weights: dict[str, Tensor], expected: dict[str, Tensor], path: Path) -> None:
    missing = [name for name in expected if name not in weights and not name.endswith("num_batches_tracked")]
    foreign = [name for name in weights if name not in expected]
    for names, what in ((missing, "lacks"), (foreign, "holds, but this backbone does not have,")):
        if names:
            more = f" and {len(names) - 1} more" if len(names) > 1 else ""
            raise InputError(f"weights file {path} {what} {names[0]}{more}: give weights of the same architecture")
    for name, tensor in weights.items():
        if tensor.shape != expected[name].shape:
            raise InputError(
                f"weights file {path}: {name} has shape {tuple(tensor.shape)}, in this backbone "
                f"{tuple(expected[name].shape)}: give weights made with the same stem and number of channels"
            )
