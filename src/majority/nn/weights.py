"""Weights as safetensors files, and those of others for a backbone. What is read back is checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file, save
from torch import Tensor, nn

from ..errors import InputError
from ..files import check_regular, write_atomically

Weights = dict[str, Tensor]

SAME_NETWORK = "give weights of the same architecture, stem and number of channels"


def write_weights(path: Path, weights: Weights, notes: dict[str, str] | None = None) -> None:
    """Write weights and notes to one file. Weights that share memory are written once for each name."""
    copies = {name: value.to("cpu", copy=True).contiguous() for name, value in weights.items()}
    write_atomically(path, lambda place: place.write_bytes(save(copies, notes)))


def read_weights(path: Path, cure: str, device: str = "cpu") -> tuple[Weights, dict[str, str]]:
    """The weights and notes of a file. They take no more memory than the file: safetensors checks its header."""
    check_regular(path)
    try:
        with safe_open(path, "pt", device=device) as file:
            return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError, AttributeError, KeyError, TypeError) as error:  # of its header
        raise InputError(f"{path} is not a safetensors file or is damaged ({error}): {cure}") from None


def check_weights(weights: Weights, expected: Mapping[str, Tensor], path: Path, cure: str) -> None:
    """Refuse weights that lack a name, or that have another name, shape or kind of number, or NaN or infinity."""
    for name in [*expected, *weights]:
        if name not in weights or name not in expected:
            what = "has no" if name not in weights else "also has"
            raise InputError(f"{path} does not fit: it {what} {name!r}: {cure}")
    for name, value in weights.items():
        wanted = expected[name]
        same_kind = value.dtype == wanted.dtype or (value.is_floating_point() and wanted.is_floating_point())
        if value.shape != wanted.shape or not same_kind:
            found = f"{tuple(value.shape)} of {value.dtype}, not {tuple(wanted.shape)} of {wanted.dtype}"
            raise InputError(f"{path} does not fit: {name} is {found}: {cure}")
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise InputError(f"{path} is damaged ({name} has NaN or infinity): {cure}")


def load_weights(backbone: nn.Module, path: str | Path) -> None:
    """Load weights from a local .safetensors, .pth or .pt file, such as torchvision's resnet18.

    The last layer of the file, fc, is left out. For a backbone of grey images, a first convolution of colour images is
    summed over its channels: the result is the same as for grey repeated in three channels.
    """
    path = Path(path)
    weights = {name: tensor for name, tensor in _weights_of_others(path).items() if not name.startswith("fc.")}
    counters = {name: value for name, value in backbone.state_dict().items() if name.endswith("num_batches_tracked")}
    weights = counters | weights  # older files have none
    expected = backbone.state_dict()
    first = next((f"{name}.weight" for name, module in backbone.named_modules() if isinstance(module, nn.Conv2d)), None)
    if first in weights and expected[first].shape[1] == 1 and weights[first].shape[1:2] == (3,):
        weights[first] = weights[first].sum(dim=1, keepdim=True)
    check_weights(weights, expected, path, SAME_NETWORK)
    backbone.load_state_dict(weights)


def _weights_of_others(path: Path) -> Weights:
    if not path.is_file():
        raise InputError(f"there is no weights file {path}: check the path (nothing is downloaded)")
    if path.suffix not in (".safetensors", ".pth", ".pt"):
        raise InputError(f"weights file {path}: give one that ends in .safetensors, .pth or .pt")
    cure = "it must hold tensors by name, as torch.save(model.state_dict(), path) and safetensors write them"
    try:
        weights = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
    except Exception as error:  # torch.load and safetensors raise many kinds of errors
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"weights file {path} cannot be read ({reason}): {cure}") from error
    named = isinstance(weights, dict) and all(isinstance(name, str) for name in weights)
    if not named or not all(isinstance(tensor, Tensor) for tensor in weights.values()):
        raise InputError(f"weights file {path} is no weights: {cure}")
    return weights
