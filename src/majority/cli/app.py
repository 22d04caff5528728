"""The commands by name, how they are parsed, and how errors end."""

from __future__ import annotations

import gc
import inspect
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import InputError, TrainingError
from ..registry import load_plugins
from ..version import __version__
from .arguments import note_on_names
from .printing import log

if TYPE_CHECKING:
    from cyclopts import App

    from ..run.options import Option

NEW_OBJECTS = 20_000  # between searches for garbage: imports make many objects that stay, the default is 700
ABOUT = "Train an instance classifier from bags that are labelled with their most common class."
DEBUG = "majority --debug COMMAND shows the traceback of an error."


class Command(NamedTuple):
    function: Callable[..., None]
    takes: Callable[[], Mapping[str, Option]] | None  # the options that it gets by their names
    in_file: bool  # whether a --config file may hold them


COMMANDS: dict[str, Command] = {}


def command(
    name: str,
    takes: Callable[[], Mapping[str, Option]] | None = None,
    in_file: bool = False,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a function a command. Its parameters are arguments and options; with `takes` it also gets, as keywords,
    those of these options that are given. With `in_file`, a file may hold them; --help then shows the usual ones."""

    def add(function: Callable[..., None]) -> Callable[..., None]:
        COMMANDS[name] = Command(function, takes, in_file)
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
    except (InputError, TrainingError, OSError, MemoryError) as error:
        if "--debug" in sys.argv:
            raise
        print(f"majority: {_describe(error)}", file=sys.stderr)
        sys.exit(1 if isinstance(error, TrainingError | MemoryError) else 2)
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)


def _run(words: list[str]) -> None:
    from cyclopts import CycloptsError

    if ("--out", "-") in pairwise(words) or "--out=-" in words:
        raise InputError("--out -: nothing is written to standard output: give the name of a file or folder")
    shows_all = any(pair in (("--help", "all"), ("-h", "all")) for pair in pairwise(words))
    words = words[:-1] if shows_all else words
    if words:
        load_plugins()
    app = _application(words[0] if words else "", shows_all)
    try:
        app(words, exit_on_error=False, print_error=False, result_action="return_none")
    except CycloptsError as error:
        raise InputError(" ".join(str(error).split())) from None


def _application(called: str, shows_all: bool) -> App:
    """Only the command that is called gets its options, because others need not be imported for it."""
    from cyclopts import App, Group

    app = App("majority", ABOUT, version=__version__, help_format="plaintext", suppress_keyboard_interrupt=False)
    app.group_parameters = Group("Options", sort_key=0)
    app.help_epilogue = DEBUG
    for name, each in COMMANDS.items():
        function, more = _checked(each.function), ""
        if name == called and each.takes is not None:
            from .options import with_options

            shows_all = shows_all or not each.in_file
            function = with_options(function, each.takes(), shows_all, each.in_file)
            more = "" if shows_all else f"majority {name} --help all shows all options."
        app.command(function, name=name, help=_paragraphs(each.function), help_epilogue=more, help_format="plaintext")
    return app


def _paragraphs(function: Callable[..., None]) -> str:
    """What a command does; the help breaks the lines itself."""
    return "\n\n".join(" ".join(part.split()) for part in (inspect.getdoc(function) or "").split("\n\n"))


def _checked(function: Callable[..., None]) -> Callable[..., None]:
    """The command; first, a source whose name is also that of a file is noted."""
    signature = inspect.signature(function)

    @wraps(function)
    def checked(*arguments: Any, **options: Any) -> None:
        given = signature.bind(*arguments, **options).arguments
        sources = given.get("sources") or given.get("source") or ()
        note_on_names(*([sources] if isinstance(sources, str) else sources))
        function(*arguments, **options)

    return checked


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
