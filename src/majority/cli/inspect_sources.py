"""Commands that train nothing: check, list."""

from __future__ import annotations

import typer

from . import options
from .app import app
from .printing import console, print_check


@app.command()
def check(source: options.Source, image_size: options.ImageSize = None, features: options.Features = None) -> None:
    """Read a whole source; print what it holds and every problem with file, row and cure. Exit code 1 on problems."""
    from ..sources import check_source

    found = check_source(source, image_size, options.optional_names(features))
    print_check(found, source)
    if found.problems:
        raise typer.Exit(1)


@app.command("list")
def list_names() -> None:
    """Print the sources (and where their files are), methods, backbones, augmentations and recipes."""
    from rich.table import Table

    from ..backbones import BACKBONES
    from ..methods import METHODS
    from ..recipes import DEFAULT, RECIPES
    from ..sources import describe
    from ..training.augment import AUGMENTATIONS

    table = Table(title="sources", title_justify="left")
    for column in ("name", "available", "instances", "shape", "classes", "licence", "location"):
        table.add_column(column, overflow="fold")
    for info in describe():
        shape = "x".join(map(str, info.shape or "?"))
        available = "yes" if info.available else "no"
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
    default = {DEFAULT: "one of these, chosen by the data and the device"}
    for title, entries in {
        "methods": {name: method.about for name, method in METHODS.items()},
        "backbones": {name: backbone.about for name, backbone in BACKBONES.items()},
        "augmentations": {name: augmentation.about for name, augmentation in AUGMENTATIONS.items()},
        "recipes": default | {name: recipe.about for name, recipe in RECIPES.items()},
    }.items():
        table = Table("name", "about", title=title, title_justify="left")
        for name, about in entries.items():
            table.add_row(name, about)
        console().print(table)
