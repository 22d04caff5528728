"""Commands that train nothing: check, list."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from ..errors import InputError
from .app import Flag, Source, command
from .printing import log, print_check, print_names, print_table


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

    methods = {name: method.about for name, method in METHODS.items()}
    recipes = descriptions.RECIPES | registered_descriptions("recipe")
    if every:
        rows = []
        for one in describe():
            available, location = one.locate()
            facts = (one.instances or "?", "x".join(map(str, one.shape or "?")), len(one.classes) or "?", one.licence)
            rows.append((one.name, "yes" if available else "at first use", *map(str, facts), location))
        names = ("name", "available", "instances", "shape", "classes", "licence", "location")
        print_table("sources", names, rows)
        log("at first use: downloaded when a command first needs it")
        kinds = {"methods": methods, "backbones": descriptions.BACKBONES | registered_descriptions("backbone")}
        kinds["encoders"] = registered_descriptions("encoder")
        kinds["augmentations"] = descriptions.AUGMENTATIONS | registered_descriptions("augmentation")
    else:
        of_heads = [name for name, method in METHODS.items() if str(method.module).startswith("nn.heads")]
        others = {", ".join(of_heads[:2]) + ", ...": f"{len(of_heads)} heads over a whole bag: --all lists them"}
        usual = {name: about for name, about in methods.items() if name not in of_heads}
        sets = ", ".join(info.name for info in describe())
        own = "your own bags: a table, a folder of images or of feature files"
        automatic = {AUTO: "the default: several of these, weighed by held-out bags"}
        kinds = {"sources": {"PATH": own, "NAME": sets}, "methods": automatic | usual | others}
    for title, about in (kinds | {"recipes": recipes}).items():
        print_names(title, about)
