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
    if differing := sorted(weights.keys() ^ expected.keys()):
        what = "also has" if differing[0] in weights else "has no"
        raise InputError(f"{path} does not fit: it {what} {differing[0]!r}: {cure}")
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
    path, expected = Path(path), backbone.state_dict()
    weights = {name: value for name, value in expected.items() if name.endswith("num_batches_tracked")}  # old files
    weights |= {name: tensor for name, tensor in _weights_of_others(path).items() if not name.startswith("fc.")}
    first = next((f"{name}.weight" for name, module in backbone.named_modules() if isinstance(module, nn.Conv2d)), None)
    if first in weights and expected[first].shape[1] == 1 and weights[first].shape[1:2] == (3,):
        weights[first] = weights[first].sum(dim=1, keepdim=True)
    check_weights(weights, expected, path, "give weights of the same architecture, stem and number of channels")
    backbone.load_state_dict(weights)


def _weights_of_others(path: Path) -> Weights:
    if not path.is_file():
        raise InputError(f"there is no weights file {path}: check the path (nothing is downloaded)")
    try:
        weights = load_file(path) if path.suffix == ".safetensors" else torch.load(path, "cpu", weights_only=True)
        if all(isinstance(name, str) and isinstance(tensor, Tensor) for name, tensor in weights.items()):
            return dict(weights)
        reason = "other entries"
    except Exception as error:  # torch.load and safetensors raise many kinds of errors
        reason = str(error).partition("\n")[0]
    cure = "it must hold tensors by name, as torch.save(model.state_dict(), path) and safetensors write them"
    raise InputError(f"weights file {path} cannot be read ({reason}): {cure}")
