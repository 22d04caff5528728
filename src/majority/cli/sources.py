"""Commands that need no run: demo, check, list, embed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ..errors import InputError
from .app import Device, Flag, Source, command, tell_how_to_continue
from .printing import log, print_check, print_names, print_table


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


@command("check", "config.READING")
def check(
    source: Source = None,
    /,
    *,
    purpose: Annotated[Literal["train", "predict"], Parameter(name="--for")] = "train",
    **options: Any,
) -> None:
    """Read a whole source; print what it holds and every problem with file, row and cure. Exit code 1 on problems.

    Args:
        purpose: What the bags are for; to predict, they need no labels.
    """
    from ..io import check_source
    from ..run.config import Reading
    from ..run.options import checked

    if source is None:
        raise InputError("there is no SOURCE: give the bags to check")
    found = check_source(source, **checked(Reading, options).model_dump(), purpose=purpose)
    print_check(found, source)
    if found.problems:
        sys.exit(1)


@command("list")
def list_names(*, every: Annotated[Flag, Parameter(name="--all")] = False) -> None:
    """Print sources, methods and recipes, each with what it is for.

    Args:
        every: Also backbones and augmentations, and licences and places of sources.
    """
    from .. import descriptions
    from ..io import describe
    from ..nn.methods import AUTO, METHODS
    from ..registry import registered_descriptions

    automatic = {AUTO: "the default: several of these, weighed by held-out bags"}
    methods = automatic | {name: method.about for name, method in METHODS.items()}
    kinds = {"methods": methods, "recipes": descriptions.RECIPES | registered_descriptions("recipe")}
    if every:
        rows = []
        for one in describe():
            available, location = one.locate()
            facts = (one.instances or "?", "x".join(map(str, one.shape or "?")), len(one.classes) or "?", one.licence)
            rows.append((one.name, "yes" if available else "at first use", *map(str, facts), location))
        names = ("name", "available", "instances", "shape", "classes", "licence", "location")
        print_table("sources", names, rows)
        log("at first use: downloaded when a command first needs it")
        kinds["backbones"] = descriptions.BACKBONES | registered_descriptions("backbone")
        kinds["encoders"] = registered_descriptions("encoder")
        kinds["augmentations"] = descriptions.AUGMENTATIONS | registered_descriptions("augmentation")
    else:
        own = "your own bags: a table, a folder of images or of feature files"
        kinds = {"sources": {"PATH": own, "NAME": ", ".join(info.name for info in describe())}} | kinds
    for title, about in kinds.items():
        print_names(title, about)


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
