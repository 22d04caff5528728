"""Encoders that are torch modules: models of timm, and those that a plugin registers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ...data.device import choose_device
from ...errors import InputError
from ...files import user_path
from ...nn.backbones import TIMM
from .encoder import Encoder


def timm_encoder(model: str, pretrained: bool) -> Encoder:
    """A model of timm without its classifier, with the size and the normalisation that timm knows of it."""
    name = model.removeprefix(TIMM)
    try:
        import timm
    except ImportError:
        raise InputError(f"{model} needs the package timm, which is not installed: pip install timm") from None
    if not timm.is_model(name):
        close = ", ".join(timm.list_models(f"*{name}*")[:5])
        raise InputError(f"timm has no model {name!r}{f' (it has {close})' if close else ''}: see timm.list_models()")
    try:
        module = timm.create_model(name, pretrained=pretrained, num_classes=0)
    except Exception as error:  # of the download, which has many kinds
        reason = str(error).strip().split("\n")[0]
        cure = "connect to the internet once, or give a file with --weights FILE.safetensors"
        raise InputError(f"the weights of {model} could not be downloaded ({reason}): {cure}") from error
    facts = timm.data.resolve_model_data_config(module)
    channels, *sides = facts["input_size"]
    return Encoder(model, lambda: module, "", (sides[0], sides[1]), channels, tuple(facts["mean"]), tuple(facts["std"]))


def load_weights(module: nn.Module, path: Path, model: str) -> None:
    """Load a safetensors file. Weights of layers that the module does not have, as a classifier, are left out."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    path = user_path(path)
    if not path.is_file():
        raise InputError(f"--weights {path}: there is no such file")
    try:
        weights = load_file(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"--weights {path} cannot be read ({error}): give a safetensors file") from None
    try:
        missing, _ = module.load_state_dict(weights, strict=False)
    except RuntimeError as error:  # of weights of another shape
        reason = str(error).strip().split("\n")[-1].strip()
        raise InputError(f"--weights {path} does not fit {model} ({reason}): give the weights of this model") from None
    if missing:
        raise InputError(f"--weights {path} has no {missing[0]} of {model}: give the weights of this model")


def from_module(module: Any, model: str, device: str) -> tuple[Callable[[np.ndarray], np.ndarray], str, bool]:
    """How to run the module on normalised images, the hash of its weights, and whether it runs on a GPU."""
    if not isinstance(module, nn.Module):
        raise InputError(f"encoder {model} created an object of type {type(module).__name__}: return a torch module")
    place = choose_device(device)
    sha256 = _hash_weights(module)
    module = module.to(place).eval()

    @torch.inference_mode()
    def run(images: np.ndarray) -> np.ndarray:
        features = module(torch.from_numpy(images).to(place))
        if not isinstance(features, Tensor):
            raise InputError(f"{model} returns an object of type {type(features).__name__}: return a tensor")
        return features.float().cpu().numpy()

    return run, sha256, place.type != "cpu"


def _hash_weights(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        array = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        digest.update(array.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
