"""Encoders that are ONNX files, run by onnxruntime."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ...data.device import choose_device
from ...errors import InputError
from ...files import check_regular, user_path
from ..embedding import Embedding
from .encoder import IMAGENET_MEAN, IMAGENET_STD

ONNX = ".onnx"
DEFAULT_SIZE = 224
FLOATS = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(double)": np.float64}
BLOCK = 2**20  # bytes of a file that are hashed at a time


def open_onnx(
    path: Path, image_size: int | None, device: str
) -> tuple[Embedding, Callable[[np.ndarray], np.ndarray], bool]:
    """The facts of an ONNX file, how to run it on normalised images (n, channels, height, width), and whether on a GPU.

    The input is float (n, channels, height, width) or (n, height, width, channels), with a fixed or any number of
    images. The first output is (n, features), or (n, features, height, width), which is averaged over positions.
    """
    path = user_path(path)
    if not path.is_file():
        raise InputError(f"--model {path}: there is no such file")
    check_regular(path)
    session, on_gpu = _open_session(path, device)
    inputs = session.get_inputs()
    taken = inputs[0]
    sides = taken.shape
    if len(inputs) != 1 or len(sides) != 4 or taken.type not in FLOATS:
        shown = "; ".join(f"{item.name}: {item.type} {item.shape}" for item in inputs)
        cure = "export a model with one input of floats (n, channels, height, width)"
        raise InputError(f"--model {path} takes {shown}: {cure}")
    channels_last = sides[1] not in (1, 3) and sides[3] in (1, 3)
    channels, height, width = (sides[3], sides[1], sides[2]) if channels_last else sides[1:]
    if not isinstance(channels, int):
        channels = 3
    if channels not in (1, 3):
        raise InputError(f"--model {path} takes images of {channels} channels: give a model for 1 or 3")
    size = (_side(height, image_size), _side(width, image_size))
    if image_size is not None and size != (image_size, image_size):
        raise InputError(f"--image-size {image_size}: {path} takes images of {size[0]}x{size[1]}; leave it out")
    fixed = sides[0] if isinstance(sides[0], int) else None
    output = session.get_outputs()[0].name

    def run(images: np.ndarray) -> np.ndarray:
        batch = images.transpose(0, 2, 3, 1) if channels_last else images
        parts = [
            session.run([output], {taken.name: piece.astype(FLOATS[taken.type])})[0][:kept]
            for piece, kept in _pieces(batch, fixed)
        ]
        features = np.concatenate(parts).astype(np.float32)
        return features.mean(axis=(2, 3)) if features.ndim == 4 else features

    place, sha256 = str(path.resolve()), hash_files(path)
    facts = Embedding(place, None, sha256, size, channels, IMAGENET_MEAN, IMAGENET_STD, 0)
    return facts, run, on_gpu


def _side(given: int | str | None, image_size: int | None) -> int:
    """The pixels of a side: fixed by the file, or else as the user says."""
    return given if isinstance(given, int) else image_size or DEFAULT_SIZE


def _open_session(path: Path, device: str) -> tuple[Any, bool]:
    try:
        import onnxruntime
    except ImportError:
        raise InputError(
            f"--model {path} needs the package onnxruntime, which is not installed: pip install onnxruntime"
        ) from None
    on_gpu = choose_device(device).type == "cuda" and "CUDAExecutionProvider" in onnxruntime.get_available_providers()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    providers = [*(["CUDAExecutionProvider"] if on_gpu else []), "CPUExecutionProvider"]
    try:
        return onnxruntime.InferenceSession(str(path), options, providers=providers), on_gpu
    except Exception as error:  # onnxruntime has one exception per code of its library
        reason = str(error).strip().split("\n")[0]
        raise InputError(
            f"--model {path} cannot be opened ({reason}): export it again, or update onnxruntime"
        ) from None


def _pieces(images: np.ndarray, fixed: int | None) -> list[tuple[np.ndarray, int]]:
    """The images in batches of the fixed size, the last one filled up; and how many of each batch are images."""
    if fixed is None:
        return [(images, len(images))]
    pieces = [images[start : start + fixed] for start in range(0, len(images), fixed)]
    return [
        (np.concatenate([piece, np.repeat(piece[-1:], fixed - len(piece), axis=0)]), len(piece)) for piece in pieces
    ]


def hash_files(path: Path) -> str:
    """Of the file, and of the files beside it in which exporters put large weights: NAME.onnx.data, NAME.onnx_data."""
    digest = hashlib.sha256()
    beside = [path.with_name(path.name + suffix) for suffix in (".data", "_data")]
    for file in [path, *(file for file in beside if file.is_file())]:
        with file.open("rb") as content:
            while block := content.read(BLOCK):
                digest.update(block)
    return digest.hexdigest()
