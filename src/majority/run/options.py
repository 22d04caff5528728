"""Options: the fields of the parts of a configuration, as all doors name them, and what is wrong with their values."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import astuple, dataclass
from pathlib import Path
from reprlib import repr as short_repr
from types import NoneType
from typing import Annotated, Any, ClassVar, Literal, NoReturn, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from ..errors import InputError, closest
from ..fields import BOUNDS, NEEDED

USUAL = "usual"  # marks, in Annotated, the options that --help shows first
WORDS = {"none": None, "true": True, "false": False}
NULL = "null"  # in a file, of a setting that is off: TOML has no word for it
IN_COMMAND = {"method_options": "option", "settings": "set"}  # the names of fields in commands and files
KINDS: dict[Any, str] = {**NEEDED, str: "text", dict: "names and values", dict[str, Any]: "names and values"}


class Part(BaseModel):
    """The text below a field says what the option means."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        defer_build=True,  # a command pays for those that it uses
    )
    title: ClassVar[str] = ""  # of the group of options
    hidden: ClassVar[tuple[str, ...]] = ()  # fields that are no options


@dataclass(frozen=True)
class Option:
    name: str
    title: str  # of its group
    field: FieldInfo

    @property
    def about(self) -> str:
        return " ".join((self.field.description or "").split())

    @property
    def is_usual(self) -> bool:
        return USUAL in self.field.metadata

    @property
    def default(self) -> Any:
        return None if self.field.is_required() else self.field.get_default(call_default_factory=True)

    @property
    def in_command(self) -> str:
        return IN_COMMAND.get(self.name, self.name).replace("_", "-")


def options_of(*parts: type[Part]) -> dict[str, Option]:
    """By name; the order is that of the help."""
    found: dict[str, Option] = {}
    for part in parts:
        for name, field in part.model_fields.items():
            if name not in part.hidden:
                found.setdefault(name, Option(name, part.title, field))
    return found


# ---------------------------------------------------------------------- what is wrong

P = TypeVar("P", bound=BaseModel)


def checked(part: type[P], options: Mapping[str, Any]) -> P:
    """The options of one part, all wrong ones in one error."""
    try:
        return part.model_validate(options)
    except ValidationError as error:
        refuse(problems_of(error, part.model_fields))
        raise


def refuse(problems: Iterable[str]) -> None:
    """Raise an error with all of them, if there are any."""
    if shown := "\n".join(dict.fromkeys(problems)):
        raise InputError(shown)


def problems_of(error: ValidationError, fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    """One sentence per error, with the name of the field, its value and what is allowed."""
    for each in error.errors(include_url=False):
        path = [str(step) for step in each["loc"]]
        name = next((step for step in reversed(path) if step in fields), ".".join(path))
        cause = each.get("ctx", {}).get("error")
        if each["type"] == "extra_forbidden":
            yield unknown_option(path[-1], fields)
        elif each["type"] == "missing":
            yield f"{'.'.join(path)} is missing"
        elif each["type"] == "string_unicode":
            yield f"{name} is {short_repr(each['input'])}: this is not UTF-8, rename it"
        elif isinstance(cause, InputError):
            yield f"{name}: {cause}".removeprefix(": ")
        else:
            needed = allowed(fields[name]) if name in fields else each["msg"].removeprefix("Input should be ")
            yield f"{name or 'the content'} is {short_repr(each['input'])}: give {needed}"


def allowed(field: FieldInfo) -> str:
    """What a field takes, in words.

    >>> from majority.run.config import BenchmarkBags
    >>> [allowed(BenchmarkBags.model_fields[name]) for name in ("bags", "ties")]
    ['a whole number from 4 to 100,000,000', 'lowest or resample or error']
    """
    return " or ".join(dict.fromkeys(_kinds(field.rebuild_annotation())))


def _kinds(annotation: Any) -> Iterator[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        limits = {BOUNDS[type(item)][0]: astuple(item)[0] for item in arguments[1:] if type(item) in BOUNDS}
        bounds = "".join(f" {word} {limit:,}" for word, limit in limits.items())
        yield from (kind + bounds for kind in _kinds(arguments[0]))
    elif origin is Literal:
        yield from map(str, arguments)
    elif origin is tuple:
        yield f"{' or '.join(_kinds(arguments[0]))}, or several with commas between them"
    elif annotation in KINDS or origin in KINDS or not arguments:
        yield from [] if annotation is NoneType else [KINDS.get(origin or annotation, "a value")]
    else:
        for argument in arguments:
            yield from _kinds(argument)


def unknown_option(name: str, known: Iterable[str]) -> str:
    similar = closest(name, known)
    return f"there is no option {name}: " + (f"did you mean {similar}?" if similar else "--help all lists them")


def damaged(path: str | Path, error: ValidationError, fields: Mapping[str, FieldInfo], cure: str) -> NoReturn:
    """A file that this program wrote, and that has changed since."""
    raise InputError(f"{path} is damaged ({'; '.join(problems_of(error, fields))}): {cure}") from None


# ---------------------------------------------------------------------- values


def split_names(value: Any) -> Any:
    """
    >>> split_names('a,"b, c"'), split_names(["d"])
    (['a', 'b, c'], ['d'])
    """
    if isinstance(value, str):
        return [name.strip() for name in next(csv.reader([value], skipinitialspace=True)) if name.strip()]
    return value


def read_item(text: str) -> Any:
    """JSON, a number as Python writes it, or else text.

    >>> read_item("1e-3"), read_item(".5"), read_item("None"), read_item("muon")
    (0.001, 0.5, None, 'muon')
    """
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for read in (json.loads, float) if any(map(str.isdigit, text)) else (json.loads,):
        with suppress(ValueError, RecursionError):
            return read(text)
    return text


def plain(value: Any) -> Any:
    """Numbers of numpy, and paths, as Python's own types."""
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if getattr(value, "shape", None) == ():
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def as_words(options: Mapping[str, Any]) -> Iterator[str]:
    """The options as words of a command.

    >>> list(as_words({"fold": 1, "eager": True, "refit": False, "method_options": {"of": "counts"}}))
    ['--fold', '1', '--eager', '--no-refit', '--option', 'of=counts']
    """
    from ..io.custom.findings import join_names

    for name, value in options.items():
        option = IN_COMMAND.get(name, name).replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        elif isinstance(value, dict):
            for key, of_key in value.items():
                yield from (f"--{option}", f"{key}={of_key if isinstance(of_key, str) else json.dumps(of_key)}")
        elif value is not None:
            yield from (
                f"--{option}",
                join_names([*map(str, value)]) if isinstance(value, list | tuple) else str(value),
            )
