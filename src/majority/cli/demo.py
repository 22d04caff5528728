"""`majority demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from .app import command
from .printing import log


@command("demo")
def demo(folder: Annotated[Path, Parameter(help="A new folder for the tables and images.")] = Path("demo"), /) -> None:
    """Write real bags to try the other commands with: insects on 155 sticky cards, as a table and as images."""
    from ..io.demo import write_demo

    write_demo(folder)
    log(f"155 cards with 1,848 insects: {folder}/insects.csv (numbers), {folder}/images.csv (pictures)")
    log(f"one more card, without labels: {folder}/card.csv")
    log(f"next: majority train {folder}/insects.csv --out run")
