"""Parsing: what is read back from a file is checked, field by field, before it is used.

A record is a dataclass, a NamedTuple or a TypedDict. Its type hints are the check, so that a record is described once.
Those that several packages share are in records.py.
"""

from __future__ import annotations

import math
import reprlib
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    NotRequired,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from .errors import InputError
from .files import CURE, read_json, read_lines

T = TypeVar("T")

WHOLE_NUMBERS, NUMBERS = 2**63, 1e100  # limits of numbers that have no closer ones
EXPECTED = {int: "a whole number", float: "a number", str: "text", bool: "true or false", NoneType: "null"}


class Between(NamedTuple):
    """The range of a number, or of the length of a list, in `Annotated[int, Between(0, 9)]`."""

    low: float
    high: float


class _WrongField(ValueError):
    """The message says which field is wrong and what is needed."""


# ---------------------------------------------------------------------- files


def read_record(kind: type[T], path: Path, cure: str = CURE) -> T:
    """The record that a JSON file holds. A message about a wrong one names the file and the field."""
    return parse_record(kind, read_json(path, cure), path, cure)


def read_records(kind: type[T], path: Path, cure: str = CURE, limit: int | None = None) -> list[T]:
    """The records that `read_lines` reads."""
    lines = enumerate(read_lines(path, cure, limit), start=1)
    return [parse_record(kind, line, f"{path}, line {number}", cure) for number, line in lines]


def parse_record(kind: type[T], value: Any, name: str | Path, cure: str = CURE, field: str = "") -> T:
    """The record made from a decoded JSON value; `field` is where the value is in the file.

    >>> class Bag(NamedTuple):
    ...     name: str
    ...     sizes: tuple[int, ...] = ()
    >>> parse_record(Bag, {"name": "slide-1", "sizes": [3, 4]}, "bag.json")
    Bag(name='slide-1', sizes=(3, 4))
    >>> parse_record(Bag, {"name": "slide-1", "sizes": [3, None]}, "bag.json", "write it again")
    Traceback (most recent call last):
    majority.errors.InputError: bag.json is damaged (sizes[1] is None, a whole number is needed): write it again
    """
    try:
        return _convert(kind, value, field)
    except _WrongField as error:
        raise InputError(f"{name} is damaged ({error}): {cure}") from None


def check_fields(record: Any) -> None:
    """Check the fields of a dataclass that a caller has made. The message names the class and the field."""
    kind: Any = type(record)
    hints = _hints(kind)
    for item in fields(record):
        try:
            _convert(hints[item.name], getattr(record, item.name), item.name)
        except _WrongField as error:
            raise InputError(f"{type(record).__name__}: {error}: correct the call") from None


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


# ---------------------------------------------------------------------- values


def _convert(kind: Any, value: Any, field: str) -> Any:
    """The value as this type. JSON has no tuples, so lists become tuples where the type says so."""
    if type(kind) is type and kind in EXPECTED:
        return _convert_scalar(kind, value, field)
    if kind is Any:
        return value
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is NotRequired:
        return _convert(arguments[0], value, field)
    if origin in (Union, UnionType):
        return _convert_union(arguments, value, field)
    if origin is Literal:
        return _checked(value, value in arguments, field, " or ".join(map(repr, arguments)))
    if origin is Annotated:
        _convert(arguments[0], value, field)
        return _checked_range(value, arguments[1], field)
    if (origin or kind) is dict:
        _checked(value, isinstance(value, dict), field, "a group of fields")
        of_values = arguments[1] if arguments else Any
        return {key: _convert(of_values, item, _join(field, key)) for key, item in value.items()}
    if (origin or kind) in (list, tuple):
        return _convert_list(origin or kind, arguments, value, field)
    return _convert_record(kind, value, field)


def _convert_scalar(kind: Any, value: Any, field: str) -> Any:
    if kind is int or kind is float:
        is_number = type(value) is float or (isinstance(value, Real) and not isinstance(value, bool))
        number: Any = value if is_number else math.nan
        if kind is float:
            is_valid = bool(abs(number) <= NUMBERS)
        else:
            is_valid = isinstance(value, Integral) and -WHOLE_NUMBERS <= number < WHOLE_NUMBERS
    else:
        is_valid = isinstance(value, kind)
    return _checked(value, is_valid, field, EXPECTED[kind])


def _convert_union(kinds: tuple[Any, ...], value: Any, field: str) -> Any:
    if value is None and NoneType in kinds:
        return None
    kinds = tuple(kind for kind in kinds if kind is not NoneType)
    for kind in kinds[:-1]:
        try:
            return _convert(kind, value, field)
        except _WrongField:
            pass
    return _convert(kinds[-1], value, field)


def _convert_list(kind: type, arguments: tuple[Any, ...], value: Any, field: str) -> Any:
    _checked(value, isinstance(value, list | tuple), field, "a list")
    if kind is tuple and arguments and Ellipsis not in arguments:
        _checked(value, len(value) == len(arguments), field, f"a list of {len(arguments)}")
        of_items = list(arguments)
    else:
        of_items = [arguments[0] if arguments else Any] * len(value)
    return kind(_convert(of_items[i], item, f"{field}[{i}]") for i, item in enumerate(value))


def _convert_record(kind: Any, value: Any, field: str) -> Any:
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, kind):  # made by a caller
        return value
    _checked(value, isinstance(value, dict), field, "a group of fields")
    hints = _hints(kind)
    if is_dataclass(kind):
        hints = {item.name: hints[item.name] for item in fields(kind) if item.init}
    for name in sorted(_required(kind, hints)):
        if name not in value:
            raise _WrongField(f"{_join(field, name)} is missing")
    if is_typeddict(kind):  # fields that it does not name are kept: versions and recipes add their own
        known = {name: _convert(hints[name], value[name], _join(field, name)) for name in hints if name in value}
        return value | known
    for name in value:
        if name not in hints:
            raise _WrongField(f"{_join(field, name)} is unknown")
    converted = {name: _convert(hints[name], item, _join(field, name)) for name, item in value.items()}
    try:
        return kind(**converted)
    except InputError as error:
        raise _WrongField(f"{field or 'a field'}: {error}") from None


def _required(kind: Any, hints: dict[str, Any]) -> set[str]:
    if is_typeddict(kind):
        return {name for name in kind.__required_keys__ if get_origin(hints[name]) is not NotRequired}
    if is_dataclass(kind):
        defaults = {item.name: (item.default, item.default_factory) for item in fields(kind)}
        return {name for name in hints if defaults[name] == (MISSING, MISSING)}
    return set(hints) - set(kind._field_defaults)


def _checked(value: Any, is_valid: bool, field: str, expected: str) -> Any:
    if not is_valid:
        raise _WrongField(f"{field or 'the content'} is {reprlib.repr(value)}, {expected} is needed")
    return value


def _checked_range(value: Any, allowed: Between, field: str) -> Any:
    low, high = allowed
    if isinstance(value, list | dict):
        length = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        kind = "a list" if isinstance(value, list) else "a group"
        return _checked(value, low <= len(value) <= high, field, f"{kind} of {length}")
    return _checked(value, low <= value <= high, field, f"a number from {low:,} to {high:,}")


def _join(field: str, name: object) -> str:
    name = reprlib.repr(name) if len(str(name)) > 40 else name
    return f"{field}.{name}" if field else str(name)
