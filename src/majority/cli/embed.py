"""`majority embed`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..errors import InputError
from .app import command, tell_how_to_continue
from .arguments import Device, of_columns
from .printing import log

MODEL_HELP = "An .onnx file, timm:NAME, or an encoder that a file of MAJORITY_PLUGINS registers."
SIZE_HELP = "Pixels per side that the model takes (default: what the model says, else 224)."
MEAN_HELP = "Mean of the pixels, from 0 to 1: one number or one per channel (default: the model's, else ImageNet's)."


@command("embed", of_columns)
def embed(
    source: Annotated[str, Parameter(help="A table with a column path, or a folder of images.")],
    /,
    *,
    model: Annotated[str, Parameter(help=MODEL_HELP)],
    out: Annotated[Path, Parameter(help="The folder of features to write.")],
    weights: Annotated[Path | None, Parameter(help="A .safetensors file with the weights of the model.")] = None,
    image_size: Annotated[int | None, Parameter(help=SIZE_HELP)] = None,
    mean: Annotated[str | None, Parameter(help=MEAN_HELP)] = None,
    std: Annotated[str | None, Parameter(help="Standard deviation of the pixels, in the same form as --mean.")] = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Write the features of images by a pretrained network, as a folder that `majority train` takes.

    If it is interrupted, repeat the command to continue.
    """
    from ..io.embed import embed as embed_source
    from ..io.embedding import read_embedding
    from ..run.config import Columns
    from ..run.options import checked

    with tell_how_to_continue(out):
        embed_source(
            source,
            model,
            out,
            weights=weights,
            image_size=image_size,
            mean=_numbers("--mean", mean),
            std=_numbers("--std", std),
            **checked(Columns, columns).columns(),
            device=device,
            log=log,
        )
    found = read_embedding(out)
    assert found is not None
    facts = found.embedding
    height, width, channels = facts.image_shape
    taken = f"images of {height}x{width}x{channels}, mean {_shown(facts.mean)}, std {_shown(facts.std)}"
    log(f"{facts.features:,} features per image ({taken}): {out}")


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    if text is None:
        return None
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"{option} {text}: write one number, or three with commas between them") from None


def _shown(numbers: tuple[float, ...]) -> str:
    return ",".join(f"{number:g}" for number in numbers)
