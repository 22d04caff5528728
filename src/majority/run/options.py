"""Options: the fields of the parts of a configuration, as all doors name them, and their values as text."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from .config_errors import problems_of, refuse

USUAL = "usual"  # marks, in Annotated, the options that --help shows first
WORDS = {"none": None, "true": True, "false": False}
NULL = "null"  # in a file, of a setting that is off: TOML has no word for it
IN_COMMAND = {"method_options": "option", "settings": "set"}  # the names of fields in commands and files


class Part(BaseModel):
    """The text below a field says what the option means."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        defer_build=True,  # a command pays for those that it uses
    )
    title: ClassVar[str] = ""  # of the group of options
    hidden: ClassVar[tuple[str, ...]] = ()  # fields that are no options

    def given(self) -> dict[str, Any]:
        """The fields that are not the default."""
        return self.model_dump(exclude_defaults=True)


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


P = TypeVar("P", bound=Part)


def checked(part: type[P], options: Mapping[str, Any]) -> P:
    """The options of one part, all wrong ones in one error."""
    try:
        return part.model_validate(options)
    except ValidationError as error:
        refuse(problems_of(error, part.model_fields))
        raise


# ---------------------------------------------------------------------- values


def split_names(value: object) -> object:
    """
    >>> split_names('a,"b, c"'), split_names(["d"])
    (('a', 'b, c'), ('d',))
    """
    if isinstance(value, str):
        return tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True)) if name.strip())
    return tuple(value) if isinstance(value, list) else value


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
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(plain, value))
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
            yield from (f"--{option}", join_names(value) if isinstance(value, list | tuple) else str(value))
