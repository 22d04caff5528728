"""Encoders that are torch modules: models of timm, and those that a plugin registers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ...data.device import choose_device
from ...errors import InputError
from ...files import user_path
from ...nn.backbones import TIMM
from ..embedding import Embedding
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


def open_module(
    encoder: Encoder, weights: str | None, device: str
) -> tuple[Embedding, Callable[[np.ndarray], np.ndarray], bool]:
    """The facts of a registered encoder, how to run it on normalised images, and whether on a GPU."""
    module, model = encoder.create(), encoder.name
    if not isinstance(module, nn.Module):
        raise InputError(f"encoder {model} created an object of type {type(module).__name__}: return a torch module")
    path = None if weights is None else user_path(weights).resolve()
    if path is not None:
        _load_weights(module, path, model)
    place, sha256 = choose_device(device), _hash_weights(module)
    module = module.to(place).eval()

    @torch.inference_mode()
    def run(images: np.ndarray) -> np.ndarray:
        features = module(torch.from_numpy(images).to(place))
        if not isinstance(features, Tensor):
            raise InputError(f"{model} returns an object of type {type(features).__name__}: return a tensor")
        return features.float().cpu().numpy()

    size = encoder.image_size
    sides = (size, size) if isinstance(size, int) else (size[0], size[1])
    facts = Embedding(
        model, None if path is None else str(path), sha256, sides, encoder.channels, encoder.mean, encoder.std, 0
    )
    return facts, run, place.type != "cpu"


def _load_weights(module: nn.Module, path: Path, model: str) -> None:
    """Load a safetensors file. Weights of layers that the module does not have, as a classifier, are left out."""
    from safetensors.torch import load_file

    try:
        missing, _ = module.load_state_dict(load_file(path), strict=False)
    except Exception as error:  # no such file, another format, or weights of another shape
        reason = str(error).strip().split("\n")[-1].strip()
        cure = "give the weights of this model as a safetensors file"
        raise InputError(f"--weights {path} cannot be loaded into {model} ({reason}): {cure}") from None
    if missing:
        raise InputError(f"--weights {path} has no {missing[0]} of {model}: give the weights of this model")


def _hash_weights(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        array = tensor.detach().cpu().contiguous()
        digest.update(f"{name} {array.dtype} {tuple(array.shape)}\n".encode())
        digest.update(array.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
