"""The file of a classifier: safetensors with the weights and normalisation, and notes from which it is rebuilt."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ..data.column_encoder import ColumnEncoder
from ..data.segments import Segments
from ..errors import InputError
from ..fields import from_json
from ..files import decode_json
from ..nn.backbones import create_backbone
from ..nn.methods import wrap_option_errors
from ..nn.model import Model, ModelSpec, Normalise
from ..nn.weights import check_weights, read_weights, write_weights

FORMAT = "majority-classifier-1"
CURE = "replace it with an intact copy, or train again in another folder"  # a finished run is not repeated
MAX_VALUES = 2**40  # of one instance
MAX_SMALL = 2**18  # of instances whose networks are small; shapes alone, for others, take seconds to import


class Notes(NamedTuple):
    format: str
    spec: ModelSpec
    about: dict[str, Any]
    encoder: ColumnEncoder | None = None  # how the columns of a table became features
    temperature: float = 1.0


def write_classifier(path: Path, model: Model, notes: Notes) -> None:
    encoder = None if notes.encoder is None else asdict(notes.encoder)
    content = notes._asdict() | {"spec": asdict(notes.spec), "encoder": encoder}
    write_weights(path, model.state_dict(), {"majority": json.dumps(content)})


def read_classifier(path: Path, backbone: nn.Module | None) -> tuple[Model, Notes]:
    """The network and what was noted of it. A custom backbone must be given."""
    weights, metadata = read_weights(path, CURE)
    content = decode_json(metadata.get("majority", "{}"), path, CURE)
    if content.get("format") != FORMAT:
        raise InputError(f"{path} has format {content.get('format')!r}, this version reads {FORMAT!r}")
    notes = from_json(Notes, content, path, CURE)
    _check_notes(notes, path)
    if math.prod(notes.spec.instance_shape) > MAX_SMALL or notes.spec.method_options:
        check_weights(weights, _shapes_of(notes.spec, backbone), path, CURE)  # before memory is taken for them
    model = rebuild_model(notes.spec, backbone)
    check_weights(weights, model.state_dict(), path, CURE)
    with torch.no_grad(), wrap_option_errors(notes.spec.method, notes.spec.method_options):
        model.head.eval()(torch.zeros(1, model.n_features), Segments(np.ones(1, np.int64)))  # tries its options
    model.load_state_dict(weights)
    return model, notes


def _check_notes(notes: Notes, path: Path) -> None:
    """Refuse what no classifier can have."""
    spec, shape, channels = notes.spec, notes.spec.instance_shape, notes.spec.channels
    is_image = len(shape) == 3 and shape[2] in (1, 3) and channels in (shape[2], 3)
    fits = {
        "instance_shape": is_image or (len(shape), channels) == (1, None),
        "size": min(shape, default=0) > 0 and math.prod(shape) <= MAX_VALUES,
        # JSON may hold halves of characters, which no file can
        "classes": all(name.encode(errors="replace").decode() == name != "" for name in spec.classes)
        and len({*spec.classes}) == max(len(spec.classes), 2),
        "background": spec.background is None or 0 <= spec.background.index < len(spec.classes),
        "columns": notes.encoder is None or (len(notes.encoder.features),) == shape,
        "temperature": 0 < notes.temperature < math.inf,
    }
    if wrong := [name for name, right in fits.items() if not right]:
        raise InputError(f"{path} is damaged (its {wrong[0]} is impossible): {CURE}")


def rebuild_model(spec: ModelSpec, backbone: nn.Module | None = None) -> Model:
    """Build an untrained model from its spec; the weights and the normalisation are then loaded from a file."""
    width = spec.instance_shape[0] if spec.channels is None else spec.channels
    dtype = torch.float32 if spec.images else torch.float64
    with torch.random.fork_rng(devices=[]):
        if spec.backbone is not None:
            backbone = create_backbone(spec.backbone, spec.backbone_shape)
        elif backbone is None:
            raise InputError("this model was built with a module as its backbone: pass it, load(path, backbone=module)")
        return Model(spec, Normalise(torch.zeros(width, dtype=dtype), torch.ones(width)), backbone)


def _shapes_of(spec: ModelSpec, backbone: nn.Module | None) -> dict[str, Tensor]:
    """The weights of such a model by name, with shapes and dtypes but without memory, if it has a named backbone."""
    if spec.backbone is None:
        return dict(rebuild_model(spec, backbone).state_dict())
    with torch.device("meta"), wrap_option_errors(spec.method, spec.method_options):
        return dict(rebuild_model(spec).state_dict())
