"""The commands by name, how they are parsed, and how errors end."""

from __future__ import annotations

import gc
import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

from cyclopts import App, CycloptsError, Group, Parameter

from ..errors import InputError, TrainingError
from ..registry import load_plugins
from ..version import __version__
from .printing import log

if TYPE_CHECKING:
    from ..run.options import Option

NEW_OBJECTS = 20_000  # between searches for garbage: imports make many objects that stay, the default is 700
ABOUT = "Train an instance classifier from bags that are labelled with their most common class."
DEBUG = "majority --debug COMMAND shows the traceback of an error."
SOURCE_HELP = (
    "A name from `majority list`, a .npz (MedMNIST's layout) or .mat (SVHN's layout) file; or bags of your own: "
    "a table (.csv, .tsv, .parquet), a folder of feature files, or a folder of images per bag."
)

Source = Annotated[str | None, Parameter(help=SOURCE_HELP, show_default=False)]
RunFolder = Annotated[Path, Parameter(help="A run folder: the --out of `majority train`.")]
OtherSource = Annotated[str | None, Parameter(help="Use the bags of this source instead of the run's own.")]
Device = Annotated[str, Parameter(help="auto, cpu, cuda, cuda:N or mps.")]
ConfigFile = Annotated[
    Path | None, Parameter(name="--config", metavar="FILE", help="A .toml file with options; the command line wins.")
]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
AllParts = Annotated[Flag, Parameter(name="--all", help="Include training and validation bags.")]


class Command(NamedTuple):
    function: Callable[..., None]
    takes: str  # the options that it gets by their names: the name of a mapping in `run`, or nothing
    about: str

    def options(self) -> Mapping[str, Option]:
        """Imported only when they are needed."""
        module, _, name = self.takes.partition(".")
        found: Mapping[str, Option] = getattr(import_module(f"..run.{module}", __package__), name) if name else {}
        return found

    @property
    def in_file(self) -> bool:
        """Whether a --config file may hold its options; --help then shows the usual ones."""
        return "config" in inspect.signature(self.function).parameters


COMMANDS: dict[str, Command] = {}


def command(name: str, takes: str = "") -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command. Its parameters are arguments and options; with `takes` it also gets, as keywords,
    those of these options that are given."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        text = (inspect.getdoc(function) or "").split("\n\nArgs:")[0]
        about = "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))  # the help breaks lines itself
        COMMANDS[name] = Command(function, takes, about)
        return function

    return add


def main() -> None:
    """Exit code 0: done; 1: training or cells of a study failed, or `check` found problems; 2: wrong usage or input.

    Errors are one message, no traceback.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # names of files need not be text
    gc.set_threshold(NEW_OBJECTS)
    try:
        _run([word for word in sys.argv[1:] if word != "--debug"])
    except BrokenPipeError:  # who reads the output has seen enough, such as `head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python's own last flush would fail
        sys.exit(141)
    except (InputError, TrainingError, OSError, MemoryError, CycloptsError) as error:
        if "--debug" in sys.argv:
            raise
        print(f"majority: {_describe(error)}", file=sys.stderr)
        sys.exit(1 if isinstance(error, TrainingError | MemoryError) else 2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _run(words: list[str]) -> None:
    if ("--out", "-") in pairwise(words):
        raise InputError("--out -: nothing is written to standard output: give the name of a file or folder")
    shows_all = words[-2:] in (["--help", "all"], ["-h", "all"])
    if shows_all:
        words.pop()
    if words:
        load_plugins()
    app = App("majority", ABOUT, version=__version__, help_format="plaintext", suppress_keyboard_interrupt=False)
    app.group_parameters = Group("Options", sort_key=0)
    app.help_epilogue = DEBUG
    for name, each in COMMANDS.items():
        function, more = each.function, ""
        if words[:1] == [name] and each.takes:  # only the one that is called: others are not imported for
            from .options import with_options

            function = with_options(function, each.options(), shows_all or not each.in_file, each.in_file)
            more = "" if shows_all or not each.in_file else f"majority {name} --help all shows all options."
        app.command(function, name=name, help=each.about, help_epilogue=more, help_format="plaintext")
    app(words, exit_on_error=False, print_error=False, result_action="return_none")


def _describe(error: Exception) -> str:
    if isinstance(error, MemoryError):
        return "there is not enough memory: use fewer or smaller bags, or a machine with more memory"
    if isinstance(error, CycloptsError):
        return " ".join(str(error).split())
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
