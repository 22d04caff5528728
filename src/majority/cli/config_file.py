"""`--config FILE.toml`: the options of a command in a file. Options on the command line win."""

from __future__ import annotations

import json
import tomllib
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from ..files import check_regular, flatten

PAIRS = ("set", "option", "vary")  # options that are given once per name: tables in the file
IN_FILE = "majority.pairs"  # the place of these tables in the context of the command


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Make the values of the file the defaults of the command."""
    if path is not None:
        keys = {_key(parameter): parameter for parameter in context.command.params if parameter.name != "config"}
        values = dict(_default(path, keys, name, value) for name, value in _content(path).items())
        of_pairs = {str(keys[key].name) for key in PAIRS if key in keys}
        context.meta[IN_FILE] = {name: value for name, value in values.items() if name in of_pairs}
        context.default_map = {name: value for name, value in values.items() if name not in of_pairs}
    return path


def with_pairs_of_file(context: typer.Context, parameter: typer.CallbackParam, given: list[str] | None) -> list[str]:
    """The NAME=VALUE pairs of the command line and, for other names, those of the file."""
    names = {pair.partition("=")[0] for pair in given or []}
    of_file = context.meta.get(IN_FILE, {}).get(parameter.name, [])
    return [*(pair for pair in of_file if pair.partition("=")[0] not in names), *(given or [])]


Config = Annotated[
    Path | None,
    typer.Option(
        "--config", callback=_read, is_eager=True, help="A .toml file with these options; the command line wins."
    ),
]


def _content(path: Path) -> dict[str, Any]:
    try:
        check_regular(path)
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--config {path} cannot be read ({error.strerror}): correct the path") from None
    except ValueError as error:  # of TOML, or of text that is not UTF-8
        if isinstance(error, InputError):
            raise
        raise InputError(f"--config {path} is not a TOML file ({error}): correct it") from None


def _key(parameter: Any) -> str:
    """The name of a parameter in the file: that of its option."""
    return str(parameter.name) if parameter.param_type_name == "argument" else parameter.opts[0].lstrip("-")


def _default(path: Path, keys: dict[str, Any], name: str, value: Any) -> tuple[str, Any]:
    key = name.replace("_", "-")
    if key not in keys:
        close = get_close_matches(key, keys, 1)
        hint = f"did you mean {close[0]}?" if close else f"the keys are {', '.join(keys)}"
        raise InputError(f"--config {path}: there is no option {name!r}: {hint}")
    parameter = keys[key]
    if key in PAIRS:
        if not isinstance(value, dict):
            raise InputError(f"--config {path}: {name} is {value!r}: write a table, [{name}], with one line per name")
        value = [f"{inner}={_text(item)}" for inner, item in flatten(value).items()]
    elif isinstance(value, dict):
        raise InputError(f"--config {path}: {name} is a table: write a value")
    elif isinstance(value, list) and parameter.nargs == 1 and not getattr(parameter, "multiple", False):
        value = ",".join(map(str, value))
    elif isinstance(value, str) and parameter.nargs == -1:
        value = [value]
    return str(parameter.name), value


def _text(value: Any) -> str:
    """A value as the command line takes it."""
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return ",".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value)
