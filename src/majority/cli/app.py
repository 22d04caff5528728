"""The Typer application, its general options, and how errors end."""

from __future__ import annotations

import gc
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError, TrainingError
from ..registry import load_plugins
from ..version import __version__
from .printing import log

NEW_OBJECTS = 20_000  # between searches for garbage: imports make many objects that stay, the default is 700

app = typer.Typer(
    help="Train an instance classifier from bags that are labelled with their most common class.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _general_options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
    load_plugins()


def main() -> None:
    """Exit code 0: done; 1: training or cells of a study failed, or `check` found problems; 2: wrong usage or input.

    Errors are one message, no traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be text
    gc.set_threshold(NEW_OBJECTS)
    try:
        app()
    except (InputError, TrainingError, OSError, MemoryError) as error:
        if "--debug" in sys.argv:
            raise
        print(f"majority: {_describe(error)}", file=sys.stderr)
        sys.exit(1 if isinstance(error, TrainingError | MemoryError) else 2)


def _describe(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory: use fewer or smaller bags, or a machine with more memory"
    if isinstance(error, OSError) and error.strerror:  # of a file or folder that no module expected to fail
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror}: correct the path, its permissions or the disk, and repeat the command"
    return str(error)


@contextmanager
def tell_how_to_continue(out: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        log(f"stopped; repeat the same command to continue {out}")
        raise
