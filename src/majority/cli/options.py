"""The options of a command, made from fields: how they are called, shown and read."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from cyclopts import Group, Parameter

from ..errors import InputError
from ..files import check_regular, flatten
from ..run.config_errors import LARGEST_IN_HELP, allowed, refuse, unknown_option
from ..run.options import IN_COMMAND, NULL, Option, read_item

CONFIG_HELP = "A .toml file with these options; the command line wins."
FIRST = Group("Options", sort_key=0)


def with_options(
    function: Callable[..., None],
    options: Mapping[str, Option],
    shows_all: bool,
    in_file: bool,
) -> Callable[..., None]:
    """A command with a parameter per option. It calls the function with those that are given, and nothing else."""
    own = [p for p in inspect.signature(function, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]
    signature = inspect.Signature(own)
    shown = sorted(options.values(), key=lambda option: not option.is_usual)
    made = [_parameter(option, in_file and option.is_usual, shows_all) for option in shown]
    file = inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[Path | None, Parameter(help=CONFIG_HELP, group=FIRST, metavar="FILE")],
    )

    @wraps(function)
    def command(*arguments: Any, config: Path | None = None, **given: Any) -> None:
        bound = signature.bind_partial(
            *arguments, **{name: given.pop(name) for name in [*given] if name not in options}
        )
        values = {name: read_value(options[name], value) for name, value in given.items() if value is not None}
        places = {"source", "sources"} & signature.parameters.keys()
        for name, value in ({} if config is None else _not_given(_read(config, options, places), values)).items():
            if name in signature.parameters:
                bound.arguments[name] = bound.arguments.get(name) or value
            elif isinstance(value, dict) and isinstance(values.get(name), dict):
                values[name] = value | values[name]
            else:
                values.setdefault(name, value)
        function(*bound.args, **bound.kwargs, **values)

    command.__signature__ = inspect.Signature([*own, *made, *([file] if in_file else [])])  # type: ignore[attr-defined]
    return command


def _parameter(option: Option, is_first: bool, shows_all: bool) -> inspect.Parameter:
    kinds = kinds_of(option.field.annotation)
    shown: dict[str, Any] = {"name": f"--{option.in_command}", "show": is_first or shows_all, "help": help_of(option)}
    shown["group"] = FIRST if is_first else Group(option.title, sort_key=1)
    annotation: Any = str | None
    if bool in kinds:
        annotation = bool | None
        if option.field.default is False:
            shown["negative"] = ""
    elif dict in kinds:
        annotation = list[str] | None
        shown |= {"metavar": "NAME=VALUE", "negative": "", "consume_multiple": False}
    else:
        shown["metavar"] = _metavar(kinds)
    if annotation == str | None:
        shown |= {"allow_leading_hyphen": True, "allow_repeating": True}  # the last one counts
    return inspect.Parameter(
        option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation, Parameter(**shown)]
    )


def _metavar(kinds: Iterable[type]) -> str:
    names = {str: "TEXT", int: "N", float: "X", tuple: "A,B"}
    return next((name for kind, name in names.items() if kind in kinds), "TEXT")


def kinds_of(annotation: Any) -> set[Any]:
    if hasattr(annotation, "__metadata__"):
        return kinds_of(get_args(annotation)[0])
    origin = get_origin(annotation) or annotation
    if origin in (tuple, dict, list) or (isinstance(origin, type) and not get_args(annotation)):
        return {origin}
    return {kind for argument in get_args(annotation) for kind in kinds_of(argument)} or {str}


def help_of(option: Option) -> str:
    """What the option means, with its default and what is allowed."""
    field, kinds = option.field, kinds_of(option.field.annotation)
    facts, taken = [], allowed(field, LARGEST_IN_HELP)
    if (kinds & {int, float} and str not in kinds) or (" or " in taken and not kinds & {bool, tuple, int}):
        taken = taken.removeprefix("a whole number").removeprefix("a number").strip()
        facts += [taken.replace("from 1", "1 or more") if taken == "from 1" else taken] if taken else []
    if has_default(option):
        facts.append(f"default: {shown_value(option.default)}")
    return f"{option.about}" + (f" [{'; '.join(facts)}]" if facts else "")


def has_default(option: Option) -> bool:
    """Whether it is worth showing."""
    default = option.default
    return not (default is None or default is False or default in ("", (), {}))


def shown_value(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


# ---------------------------------------------------------------------- reading values


def read_value(option: Option, given: Any) -> Any:
    """The value that a text of the command line means. What is not of the type of the field stays text, and is refused
    where the fields are checked."""
    kinds = kinds_of(option.field.annotation)
    if dict in kinds:
        return read_pairs(option, given)
    for kind in (int, float):
        if kind in kinds and isinstance(given, str):
            try:
                return kind(given)
            except ValueError:
                return given
    return given


def read_pairs(option: Option, pairs: Iterable[str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError(f"--{option.in_command} {pair}: write NAME=VALUE")
        if name in values:
            raise InputError(f"--{option.in_command} {name} is given twice: give it once")
        values[name] = text if option.name == "vary" else read_item(text)
    return values


def _not_given(in_file: dict[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a file without the settings that the command gives by their short names, and the reverse."""
    from ..run.config import Shorthands, plan_setting

    short = {name: plan_setting(name) for name in Shorthands.model_fields}
    settings, replaced = in_file.get("settings"), {short[name] for name in given if name in short}
    if isinstance(settings, dict):
        in_file["settings"] = {name: value for name, value in settings.items() if name not in replaced}
    return {name: value for name, value in in_file.items() if short.get(name) not in (given.get("settings") or {})}


def _read(path: Path, options: Mapping[str, Option], places: set[str]) -> dict[str, Any]:
    """The options of a TOML file, and the sources under these names."""
    try:
        check_regular(path)
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"--config {path} cannot be read ({error.strerror}): correct the path") from None
    except InputError:
        raise
    except ValueError as error:  # of TOML, or of text that is not UTF-8
        raise InputError(f"--config {path} is not a TOML file ({error}): correct it") from None
    full = {short: name for name, short in IN_COMMAND.items()}
    found = {full.get(key, key).replace("-", "_"): value for key, value in content.items()}
    refuse([unknown_option(name, [*options, *places]) for name in found if name not in {*options, *places}])
    for name in places & found.keys():
        value = found[name]
        if not isinstance(value, str) and not (name == "sources" and _are_texts(value)):
            raise InputError(f"--config {path}: {name} is {value!r}: give text")
    return {name: _table(value) if isinstance(value, dict) else value for name, value in found.items()}


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _table(content: dict[str, Any]) -> dict[str, Any]:
    return {name: None if value == NULL else value for name, value in flatten(content).items()}
