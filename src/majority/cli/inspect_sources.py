"""Commands that train nothing: check, list."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from ..errors import InputError
from .app import command
from .arguments import Source
from .printing import console, log, print_check

if TYPE_CHECKING:
    from ..io import NamedSource
    from ..run.options import Option

ALL_HELP = "Also backbones and augmentations, and licences and places of sources."
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
def list_names(
    *, every: Annotated[bool, Parameter(name="--all", negative="", help=ALL_HELP, show_default=False)] = False
) -> None:
    """Print sources, methods and recipes, each with what it is for."""
    from .. import descriptions
    from ..io import describe
    from ..nn.methods import AUTO, METHODS
    from ..registry import registered_descriptions

    methods = {name: method.about for name, method in METHODS.items()}
    recipes = descriptions.RECIPES | registered_descriptions("recipe")
    if every:
        _print_sources(describe())
        backbones = descriptions.BACKBONES | registered_descriptions("backbone")
        augmentations = descriptions.AUGMENTATIONS | registered_descriptions("augmentation")
        kinds = {"methods": methods, "backbones": backbones, "encoders": registered_descriptions("encoder")}
        for title, about in (kinds | {"augmentations": augmentations, "recipes": recipes}).items():
            _print_names(title, about)
        return
    of_heads = [name for name, method in METHODS.items() if str(method.module).startswith("nn.heads")]
    others = {", ".join(of_heads[:2]) + ", ...": f"{len(of_heads)} heads over a whole bag: --all lists them"}
    sets = ", ".join(info.name for info in describe())
    _print_names("sources", {"PATH": "your own bags: a table, a folder of images or of feature files", "NAME": sets})
    usual = {name: about for name, about in methods.items() if name not in of_heads}
    _print_names("methods", {AUTO: "the default: several of these, weighed by held-out bags"} | usual | others)
    _print_names("recipes", recipes)


def _print_names(title: str, about: Mapping[str, str]) -> None:
    from rich.table import Table

    if not about:
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    log(title)
    for name, text in about.items():
        table.add_row(f"  {name}", text)
    console().print(table)


def _print_sources(found: Sequence[NamedSource]) -> None:
    from rich.table import Table

    table = Table(title="sources", title_justify="left")
    for column in ("name", "available", "instances", "shape", "classes", "licence", "location"):
        table.add_column(column, overflow="fold")
    for info in found:
        facts = (info.instances or "?", "x".join(map(str, info.shape or "?")), len(info.classes) or "?", info.licence)
        available, location = info.locate()
        table.add_row(info.name, "yes" if available else "at first use", *map(str, facts), location)
    console().print(table)
    log("at first use: downloaded when a command first needs it")
