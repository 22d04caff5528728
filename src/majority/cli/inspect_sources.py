"""Commands that train nothing: check, list."""

from __future__ import annotations

from typing import Annotated

import typer

from . import options
from .app import app
from .printing import console, log, print_check


@app.command()
def check(
    source: options.Source,
    purpose: Annotated[str, typer.Option("--for", help="train, or predict: bags then need no labels.")] = "train",
    image_size: options.ImageSize = None,
    features: options.Features = None,
    bag_column: options.BagColumn = None,
    label_column: options.LabelColumn = None,
    path_column: options.PathColumn = None,
) -> None:
    """Read a whole source; print what it holds and every problem with file, row and cure. Exit code 1 on problems."""
    from ..io import check_source

    found = check_source(
        source,
        image_size,
        options.optional_names(features),
        bag_column=bag_column,
        label_column=label_column,
        path_column=path_column,
        purpose=purpose,
    )
    print_check(found, source)
    if found.problems:
        raise typer.Exit(1)


@app.command("list")
def list_names() -> None:
    """Print the sources (and where their files are), methods, backbones, augmentations and recipes."""
    from rich.table import Table

    from .. import descriptions
    from ..io import describe
    from ..nn.methods import METHODS
    from ..registry import registered_descriptions

    table = Table(title="sources", title_justify="left")
    for column in ("name", "available", "instances", "shape", "classes", "licence", "location"):
        table.add_column(column, overflow="fold")
    for info in describe():
        shape = "x".join(map(str, info.shape or "?"))
        available = "yes" if info.available else "at first use"
        table.add_row(
            info.name,
            available,
            str(info.instances or "?"),
            shape,
            str(len(info.classes) or "?"),
            info.licence,
            info.location,
        )
    console().print(table)
    log("at first use: downloaded when a command first needs it")
    for kind, built_in in {
        "method": {name: method.about for name, method in METHODS.items()},
        "backbone": descriptions.BACKBONES,
        "encoder": {},
        "augmentation": descriptions.AUGMENTATIONS,
        "recipe": descriptions.RECIPES,
    }.items():
        table = Table("name", "about", title=f"{kind}s", title_justify="left")
        for name, about in (built_in | registered_descriptions(kind)).items():
            table.add_row(name, about)
        if table.row_count:  # encoders are only those that you register
            console().print(table)
