"""The file of a classifier: safetensors with the weights and normalisation, and notes from which it is rebuilt."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
from annotated_types import Gt
from torch import nn

from ..data.column_encoder import ColumnEncoder
from ..data.segments import Segments
from ..errors import InputError
from ..fields import from_json
from ..files import decode_json
from ..nn.backbones import create_backbone
from ..nn.model import Model, ModelSpec, Normalise
from ..nn.weights import check_weights, read_weights, write_weights

FORMAT = "majority-classifier-1"
CURE = "replace it with an intact copy, or train again in another folder"  # a finished run is not repeated


class Notes(NamedTuple):
    format: str
    spec: ModelSpec
    about: dict[str, Any]
    encoder: ColumnEncoder | None = None  # how the columns of a table became features
    temperature: Annotated[float, Gt(0)] = 1.0


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
    try:
        model = rebuild_model(notes.spec, backbone)
        with torch.no_grad():  # tries the options of the method
            model.head.eval()(torch.zeros(1, model.n_features), Segments([1]))
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{path} is damaged (no network is like that: {error}): {CURE}") from error
    check_weights(weights, model.state_dict(), path, CURE)
    model.load_state_dict(weights)
    return model, notes


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
