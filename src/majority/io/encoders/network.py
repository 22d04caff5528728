"""Encoders as open networks: images in, features out."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from ...data.device import choose_device
from ...errors import InputError
from ...files import user_path
from ...nn.backbones import TIMM
from ..embedding import Embedding
from .encoder import ENCODERS, Encoder, Network
from .onnx_file import ONNX, hash_files, open_onnx


def open_network(
    model: str | Path,
    weights: str | Path | None = None,
    *,
    image_size: int | None = None,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    device: str = "auto",
) -> Network:
    """Open the encoder that `model` names: an ONNX file, timm:NAME, or a registered encoder.

    `image_size`, `mean` and `std` replace what the model says about itself. `weights` is a safetensors file for a timm
    model or a registered encoder.
    """
    if image_size is not None and not 1 <= image_size <= 4096:
        raise InputError(f"--image-size {image_size}: give the pixels per side, 1 to 4096")
    network = _open(str(model), None if weights is None else str(weights), image_size, device)
    facts = network.embedding
    if image_size is not None:
        facts = facts._replace(image_size=(image_size, image_size))
    facts = facts._replace(mean=_per_channel("mean", mean, facts), std=_per_channel("std", std, facts))
    return Network(facts._replace(features=_count_features(network.run, facts)), network.run, network.on_gpu)


def reopen_network(embedding: Embedding, folder: Path, device: str = "auto") -> Network:
    """The network that made the features of a run. Its files may have been moved into the run's folder."""
    model, weights = (_locate(name, embedding, folder) for name in (embedding.model, embedding.weights))
    assert model is not None
    found = hash_files(Path(model)) if _is_file_name(model) else None  # before another file of this name is opened
    network = _open(model, weights, None, device) if found in (None, embedding.sha256) else None
    if network is None or network.embedding.sha256 != embedding.sha256:
        raise InputError(
            f"{model} has other weights than the model that made the features of {folder} (sha256 "
            f"{embedding.sha256[:12]}...): put the old model back, or train again"
        )
    return Network(embedding, network.run, network.on_gpu)


def _locate(name: str | None, embedding: Embedding, folder: Path) -> str | None:
    """Where a file of the model is now; the name itself if it is not a file."""
    if name is None or not _is_file_name(name) or Path(name).is_file():
        return name
    copied = folder / Path(name).name
    if not copied.is_file():
        raise InputError(
            f"{folder} was trained on features of the model {name} (sha256 {embedding.sha256[:12]}...), and there is "
            f"no such file: put it back, or copy it to {copied}; or give features that `majority embed` made with it"
        )
    return str(copied)


def _is_file_name(name: str) -> bool:
    return Path(name).suffix.lower() in (ONNX, ".safetensors")


def _open(model: str, weights: str | None, image_size: int | None, device: str) -> Network:
    if Path(model).suffix.lower() == ONNX:
        if weights is not None:
            raise InputError(f"--weights {weights}: an ONNX file contains its weights; leave it out")
        return open_onnx(Path(model), image_size, device)
    if model.startswith(TIMM):
        encoder = timm_encoder(model, pretrained=weights is None)
    else:
        encoder = ENCODERS.find(model, f", {TIMM}NAME, or the path of an .onnx file")
    return open_module(encoder, weights, device)


def _per_channel(name: str, given: Sequence[float] | None, facts: Embedding) -> tuple[float, ...]:
    """One number per channel, from the option or from the model."""
    values = tuple(map(float, getattr(facts, name) if given is None else given))
    if facts.channels == 1 and given is None:
        values = (sum(values) / len(values),)
    if len(values) == 1:
        values *= facts.channels
    if len(values) != facts.channels or not all(map(math.isfinite, values)) or (name == "std" and min(values) <= 0):
        shown = ",".join(f"{value:g}" for value in values)
        need = f"one number, or {facts.channels}, and a standard deviation above 0"
        raise InputError(f"--{name} {shown}: give {need} (pixels are divided by 255 first)")
    return values


def _count_features(run: Callable[[np.ndarray], np.ndarray], facts: Embedding) -> int:
    """The width of the features of one black image. Any error of the network is one message."""
    shape = (1, facts.channels, *facts.image_size)
    try:
        features = run(np.zeros(shape, np.float32))
    except InputError:
        raise
    except Exception as error:  # torch, onnxruntime and code of the user raise different exceptions
        reason = str(error).strip().split("\n")[0]
        cure = "give --image-size as the model needs it"
        raise InputError(f"{facts.model} fails for an image of shape {shape} ({reason}): {cure}") from error
    if features.ndim != 2 or len(features) != 1 or features.shape[1] == 0:
        cure = "give a model without its last layers that returns (n, features)"
        raise InputError(f"{facts.model} returns {features.shape} for an image of shape {shape}: {cure}")
    return int(features.shape[1])


# ---------------------------------------------------------------------- torch modules


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


def open_module(encoder: Encoder, weights: str | None, device: str) -> Network:
    """A registered encoder, ready to use."""
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
    return Network(facts, run, place.type != "cpu")


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
