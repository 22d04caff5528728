"""ResNet-18 (He et al., "Deep Residual Learning for Image Recognition", CVPR 2016).

Its parameters have the names and shapes of torchvision's, without the last layer, so that torchvision's weights can be
loaded.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad, pixel_unshuffle

from .norm import BatchNorm2d


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

    With the stem of ImageNet (7x7 with stride 2, then max-pooling) an image is reduced 32-fold, with the small stem
    (3x3) 8-fold.
    """

    def __init__(self, shape: tuple[int, ...], small_stem: bool = False):
        super().__init__()
        self.out_features = 512
        self.small_stem = small_stem
        self.conv1 = Conv3x3(shape[0], 64) if small_stem else nn.Conv2d(shape[0], 64, 7, 2, padding=3, bias=False)
        self.maxpool = nn.Identity() if small_stem else nn.MaxPool2d(3, stride=2, padding=1)
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
        x = blockwise_conv(x, self.conv1.weight) if x.is_cuda and not self.small_stem else self.conv1(x)
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
