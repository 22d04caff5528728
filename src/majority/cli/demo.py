"""`majority demo` and `majority embed`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..errors import InputError
from .app import Device, command, tell_how_to_continue
from .printing import log


@command("demo")
def demo(folder: Path = Path("demo"), /) -> None:
    """Write real bags to try the other commands with: insects on 155 sticky cards, as a table and as images.

    Args:
        folder: A new folder for the tables and images.
    """
    from ..io.demo import write_demo

    write_demo(folder)
    log(f"155 cards with 1,848 insects: {folder}/insects.csv (numbers), {folder}/images.csv (pictures)")
    log(f"one more card, without labels: {folder}/card.csv")
    log(f"next: majority train {folder}/insects.csv --out run")


@command("embed", "config.COLUMNS")
def embed(
    source: str,
    /,
    *,
    model: str,
    out: Path,
    weights: Path | None = None,
    image_size: int | None = None,
    mean: str | None = None,
    std: str | None = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Write the features of images by a pretrained network, as a folder that `majority train` takes.

    If it is interrupted, repeat the command to continue.

    Args:
        source: A table with a column path, or a folder of images.
        model: An .onnx file, timm:NAME, or an encoder that a file of MAJORITY_PLUGINS registers.
        out: The folder of features to write.
        weights: A .safetensors file with the weights of the model.
        image_size: Pixels per side that the model takes (default: what the model says, else 224).
        mean: Mean of the pixels, from 0 to 1: one number or one per channel (default: the model's, else ImageNet's).
        std: Standard deviation of the pixels, in the same form as --mean.
    """
    from ..io.embed import embed as embed_source

    sizes = {"image_size": image_size, "mean": _numbers("--mean", mean), "std": _numbers("--std", std)}
    with tell_how_to_continue(out):
        embed_source(source, model, out, weights=weights, **sizes, **columns, device=device, log=log)  # type: ignore[arg-type]
    log(f"features of the images: {out}")


def _numbers(option: str, text: str | None) -> tuple[float, ...] | None:
    try:
        return None if text is None else tuple(map(float, text.split(",")))
    except ValueError:
        raise InputError(f"{option} {text}: write one number, or three with commas between them") from None
