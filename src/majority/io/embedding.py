"""Embedding: which network made the features of a folder, and how it was given the images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge, Le

from ..errors import InputError
from ..fields import from_json
from ..files import read_json, write_json

EMBEDDING = "embedding.json"
FORMAT = "majority-embedding-1"
CURE = "embed the images again, into another folder"

Side = Annotated[int, Ge(1), Le(4096)]


class Embedding(NamedTuple):
    """What it takes to embed further images alike."""

    model: str  # the path of an ONNX file, timm:NAME, or the name of a registered encoder
    weights: str | None  # the path of a safetensors file, where the model does not contain its weights
    sha256: str  # of the ONNX file, or of the weights
    image_size: tuple[Side, Side]  # (height, width)
    channels: Annotated[int, Ge(1), Le(3)]
    mean: tuple[float, ...]  # per channel; pixels are divided by 255, then normalised
    std: tuple[float, ...]
    features: int

    @property
    def image_shape(self) -> tuple[int, int, int]:
        return (*self.image_size, self.channels)

    def differences(self, other: Embedding) -> str:
        """What differs between two embeddings, apart from where the files of the model are; "" if nothing does."""
        names = [name for name in self._fields if name not in ("model", "weights")]
        changed = [name for name in names if getattr(self, name) != getattr(other, name)]
        return ", ".join(f"{name} {_shown(getattr(self, name))} and {_shown(getattr(other, name))}" for name in changed)


class EmbeddingFile(NamedTuple):
    """embedding.json."""

    format: str
    complete: bool  # False while bags are missing
    images: str  # a hash of the names and sizes of the images
    embedding: Embedding


def read_embedding(folder: Path) -> EmbeddingFile | None:
    """The embedding.json of a feature folder; None if there is none."""
    path = folder / EMBEDDING
    if not path.exists():
        return None
    content = read_json(path, CURE)
    if content.get("format") != FORMAT:
        raise InputError(f"{path} has format {content.get('format')!r}, this version reads {FORMAT!r}: update majority")
    return from_json(EmbeddingFile, content, path, CURE)


def write_embedding(folder: Path, embedding: Embedding, images: str, complete: bool) -> None:
    content: dict[str, Any] = {"format": FORMAT, "complete": complete, "images": images}
    write_json(folder / EMBEDDING, content | {"embedding": embedding._asdict()})


def _shown(value: object) -> str:
    return f"{value[:12]}..." if isinstance(value, str) else str(value)
