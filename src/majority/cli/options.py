"""The options of a command, made from fields: how they are called, shown and read."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Group, Parameter

from ..errors import InputError
from ..files import check_regular, flatten
from ..run.config import plan_setting
from ..run.options import IN_COMMAND, KINDS, NULL, Option, allowed, read_item

FIRST = Group("Options", sort_key=0)


def with_options(
    function: Callable[..., None], options: Mapping[str, Option], shows_all: bool, in_file: bool
) -> Callable[..., None]:
    """A command with a parameter per option. It calls the function with those that are given, and nothing else."""

    @wraps(function)
    def command(*arguments: Any, **given: Any) -> None:
        values = {name: value for name, value in given.items() if value is not None}
        read = {name: _read(options[name], value) for name, value in values.items() if name in options}
        function(*arguments, **values | read)

    own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
    shown = sorted(options.values(), key=lambda option: not option.is_usual)
    made = [_parameter(option, in_file and option.is_usual, shows_all) for option in shown]
    command.__signature__ = inspect.Signature([*own, *made])  # type: ignore[attr-defined]
    return command


def _parameter(option: Option, is_first: bool, shows_all: bool) -> inspect.Parameter:
    taken = allowed(option.field)
    annotation: Any
    group = FIRST if is_first else Group(option.title, sort_key=1)
    of_kind: dict[str, Any]
    if taken == KINDS[bool]:
        annotation, of_kind = bool | None, {} if option.default is None else {"negative": ""}
    elif taken == KINDS[dict]:
        annotation, of_kind = list[str] | None, {"metavar": "NAME=VALUE", "negative": "", "consume_multiple": False}
    else:
        metavar = "N" if taken.startswith(KINDS[int]) else "X" if taken.startswith(KINDS[float]) else "TEXT"
        of_kind = {"metavar": metavar, "allow_leading_hyphen": True, "allow_repeating": True}  # the last one counts
        annotation = str | None
    parameter = Parameter(
        name=f"--{option.in_command}", show=is_first or shows_all, help=help_of(option), group=group, **of_kind
    )
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation, parameter]
    )


def help_of(option: Option) -> str:
    """What the option means, with what is allowed and its default."""
    taken, default = allowed(option.field), option.default
    is_limited = taken not in KINDS.values() and "commas" not in taken
    facts = [taken.removeprefix(KINDS[int]).removeprefix(KINDS[float]).strip()] if is_limited else []
    if default is not False and default not in (None, (), {}):
        facts.append(f"default: {','.join(map(str, default)) if isinstance(default, tuple) else default}")
    return f"{option.about} [{'; '.join(facts)}]" if facts else option.about


def _read(option: Option, given: Any) -> Any:
    """Numbers, and pairs of names and values; those of --vary stay text: they are lists."""
    if not isinstance(given, list):
        is_number = isinstance(given, str) and allowed(option.field).startswith((KINDS[int], KINDS[float]))
        return read_item(given) if is_number else given
    values: dict[str, Any] = {}
    for pair in given:
        key, equals, text = pair.partition("=")
        if not equals or key in values:
            raise InputError(f"--{option.in_command} {pair}: write NAME=VALUE, each name once")
        values[key] = text if option.name == "vary" else read_item(text)
    return values


def with_file(path: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """The options of a --config file and those of the command, which win."""
    if path is None:
        return given
    check_regular(path)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"--config {path}: {error}: correct it") from None
    full = {short: name for name, short in IN_COMMAND.items()}
    options = {full.get(key, key).replace("-", "_"): value for key, value in content.items()}
    told = {*map(plan_setting, given), *given.get("settings", ())}
    merged = {name: value for name, value in options.items() if plan_setting(name) not in told} | given
    for name, value in options.items():
        if isinstance(value, dict) and isinstance(given.get(name, {}), dict):
            of_file = {key: None if item == NULL else item for key, item in flatten(value).items() if key not in told}
            merged[name] = of_file | given.get(name, {})
    return merged
