"""Encoders that are ONNX files, run by onnxruntime."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch

from ...data.device import choose_device
from ...errors import InputError
from ...files import check_regular, user_path
from ..embedding import Embedding
from .encoder import IMAGENET_MEAN, IMAGENET_STD, Network

ONNX = ".onnx"
DEFAULT_SIZE = 224
FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}


def open_onnx(path: Path, image_size: int | None, device: str) -> Network:
    """An ONNX file, ready to use.

    The input is float (n, channels, height, width) or (n, height, width, channels), with a fixed or any number of
    images. The first output is (n, features), or (n, features, height, width), which is averaged over positions.
    """
    path = user_path(path)
    check_regular(path)
    try:
        import onnxruntime
    except ImportError:
        raise InputError(f"--model {path} needs the package onnxruntime: pip install onnxruntime") from None
    on_gpu = choose_device(device).type == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    providers = [*(["CUDAExecutionProvider"] if on_gpu else []), "CPUExecutionProvider"]
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=providers)
    except Exception as error:  # onnxruntime has one exception per code of its library
        reason = str(error).strip().split("\n")[0]
        cure = "correct the path, export it again, or update onnxruntime"
        raise InputError(f"--model {path} cannot be opened ({reason}): {cure}") from None
    taken, output = session.get_inputs()[0], session.get_outputs()[0].name
    sides = [side if isinstance(side, int) else None for side in taken.shape]  # None: any
    channels_last = len(sides) == 4 and sides[1] not in (1, 3) and sides[3] in (1, 3)
    if channels_last:
        sides = [sides[0], sides[3], sides[1], sides[2]]
    if len(sides) != 4 or taken.type not in FLOATS or sides[1] not in (1, 3, None) or len(session.get_inputs()) > 1:
        cure = "export a model with one input of floats (n, channels, height, width), for 1 or 3 channels"
        raise InputError(f"--model {path} takes {taken.type} {taken.shape}: {cure}")
    height, width = (side or image_size or DEFAULT_SIZE for side in sides[2:])
    if image_size is not None and (height, width) != (image_size, image_size):
        raise InputError(f"--image-size {image_size}: {path} takes images of {height}x{width}; leave it out")

    def run(images: np.ndarray) -> np.ndarray:
        batch = (images.transpose(0, 2, 3, 1) if channels_last else images).astype(FLOATS[taken.type])
        step = sides[0] or len(batch)  # of a fixed number of images, the last ones are filled up
        filled = np.concatenate([batch, np.repeat(batch[-1:], -len(batch) % step, axis=0)])
        pieces = np.split(filled, range(step, len(filled), step))
        features = np.concatenate([session.run([output], {taken.name: piece})[0] for piece in pieces])
        features = features[: len(batch)].astype(np.float32)
        return features.mean(axis=(2, 3)) if features.ndim == 4 else features

    facts = (str(path.resolve()), None, hash_files(path), (height, width), sides[1] or 3)
    return Network(Embedding(*facts, IMAGENET_MEAN, IMAGENET_STD, 0), run, on_gpu)


def hash_files(path: Path) -> str:
    """Of the file, and of the files beside it in which exporters put large weights: NAME.onnx.data, NAME.onnx_data."""
    digest = hashlib.sha256()
    beside = [path.with_name(path.name + suffix) for suffix in (".data", "_data")]
    for file in [path, *(file for file in beside if file.is_file())]:
        with file.open("rb") as content:
            hashlib.file_digest(content, lambda: digest)
    return digest.hexdigest()
