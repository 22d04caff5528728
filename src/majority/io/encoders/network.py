"""Network: an open encoder. Images in, features out, with the facts that it takes to embed further images alike."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ...data.device import instances_per_pass
from ...errors import InputError
from ...files import user_path
from ...nn.backbones import TIMM
from ..embedding import Embedding
from .encoder import ENCODERS
from .modules import from_module, load_weights, timm_encoder
from .onnx_file import ONNX, hash_files, open_onnx

Run = Callable[[np.ndarray], np.ndarray]  # normalised images (n, channels, height, width) -> (n, features)


@dataclass(frozen=True)
class Network:
    """An encoder that is ready to use."""

    embedding: Embedding
    run: Run
    on_gpu: bool = False

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """The features (n, d) float32 of images (n, height, width, channels) uint8 of the encoder's shape."""
        facts, step = self.embedding, instances_per_pass(self.embedding.image_shape, self.on_gpu)
        features = np.empty((len(images), facts.features), np.float32)
        for start in range(0, len(images), step):
            features[start : start + step] = self.run(self._normalise(images[start : start + step]))
        if not np.isfinite(features).all():
            raise InputError(f"{facts.model} returned NaN or infinity: check --mean and --std, or use another model")
        return features

    def _normalise(self, images: np.ndarray) -> np.ndarray:
        mean, std = (np.asarray(values, np.float32) for values in (self.embedding.mean, self.embedding.std))
        scaled = (images.astype(np.float32) / 255 - mean) / std
        return np.ascontiguousarray(scaled.transpose(0, 3, 1, 2))


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
    facts, run, on_gpu = _open(str(model), None if weights is None else str(weights), image_size, device)
    network = Network(_with_options(facts, image_size, mean, std), run, on_gpu)
    return replace(network, embedding=network.embedding._replace(features=_count_features(network)))


def reopen_network(embedding: Embedding, folder: Path, device: str = "auto") -> Network:
    """The network that made the features of a run. Its files may have been moved into the run's folder."""
    names = (embedding.model, embedding.weights)
    model, weights = (_locate(name, embedding, folder) for name in names)
    assert model is not None
    if _is_file_name(model):  # before it is opened: it may be another file of the same name
        _check_same_weights(hash_files(Path(model)), model, embedding, folder)
    found, run, on_gpu = _open(model, weights, None, device)
    _check_same_weights(found.sha256, model, embedding, folder)
    return Network(embedding, run, on_gpu)


def _check_same_weights(found: str, model: str, embedding: Embedding, folder: Path) -> None:
    if found != embedding.sha256:
        raise InputError(
            f"{model} has other weights (sha256 {found[:12]}...) than the model that made the features of "
            f"{folder} (sha256 {embedding.sha256[:12]}...): put the old model back, or train again"
        )


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


def _open(
    model: str, weights: str | None, image_size: int | None, device: str
) -> tuple[Embedding, Callable[[np.ndarray], Any], bool]:
    if Path(model).suffix.lower() == ".safetensors":
        raise InputError(f"--model {model}: a .safetensors file has weights only: give it as --weights, with a --model")
    if _is_file_name(model):
        if weights is not None:
            raise InputError(f"--weights {weights}: an ONNX file contains its weights; leave it out")
        return open_onnx(Path(model), image_size, device)
    if model.startswith(TIMM):
        encoder = timm_encoder(model, pretrained=weights is None)
    else:
        encoder = ENCODERS.find(model, f", {TIMM}NAME, or the path of an .onnx file")
    module = encoder.create()
    if weights is not None:
        load_weights(module, Path(weights), model)
    run, sha256, on_gpu = from_module(module, model, device)
    size = encoder.image_size
    sides = (size, size) if isinstance(size, int) else (size[0], size[1])
    place = None if weights is None else str(user_path(weights).resolve())
    return Embedding(model, place, sha256, sides, encoder.channels, encoder.mean, encoder.std, 0), run, on_gpu


def _with_options(
    facts: Embedding, image_size: int | None, mean: Sequence[float] | None, std: Sequence[float] | None
) -> Embedding:
    if image_size is not None:
        if not 1 <= image_size <= 4096:
            raise InputError(f"--image-size {image_size}: give the pixels per side, 1 to 4096")
        facts = facts._replace(image_size=(image_size, image_size))
    return facts._replace(mean=_per_channel("mean", mean, facts), std=_per_channel("std", std, facts))


def _per_channel(name: str, given: Sequence[float] | None, facts: Embedding) -> tuple[float, ...]:
    """One number per channel, from the option or from the model."""
    values = tuple(map(float, getattr(facts, name) if given is None else given))
    if facts.channels == 1 and given is None:
        values = (sum(values) / len(values),)
    if len(values) == 1:
        values *= facts.channels
    if len(values) != facts.channels or not all(map(math.isfinite, values)) or (name == "std" and min(values) <= 0):
        shown = ",".join(f"{value:g}" for value in values)
        need = f"one number, or {facts.channels}" + (", above 0" if name == "std" else "")
        raise InputError(f"--{name} {shown}: give {need} (pixels are divided by 255 first)")
    return values


def _count_features(network: Network) -> int:
    """The width of the features of one black image. Any error of the network is one message."""
    facts = network.embedding
    height, width, channels = facts.image_shape
    shape = f"(1, {channels}, {height}, {width})"
    try:
        features = network.run(np.zeros((1, channels, height, width), np.float32))
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
