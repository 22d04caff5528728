"""Commands that train nothing: check, list."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..errors import InputError
from .app import command
from .arguments import Source
from .printing import console, log, print_check

if TYPE_CHECKING:
    from ..run.options import Option

FOR_HELP = "What the bags are for; to predict, they need no labels."


def of_reading() -> Mapping[str, Option]:
    from ..run.config import Reading
    from ..run.options import options_of

    return options_of(Reading)


@command("check", of_reading)
def check(
    source: Source = None,
    /,
    *,
    purpose: Annotated[Literal["train", "predict"], Parameter(name="--for", help=FOR_HELP)] = "train",
    **options: Any,
) -> None:
    """Read a whole source; print what it holds and every problem with file, row and cure. Exit code 1 on problems."""
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
