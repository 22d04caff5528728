"""Dataclasses and named tuples whose annotations say which values are allowed: settings, and what is read from files.

An annotation is bool, int, float, str, a Literal, a tuple, a dict, a dataclass or named tuple, one of these or None, or
`Annotated` with the bounds of annotated-types.
"""

from __future__ import annotations

import inspect
import json
import operator
from collections.abc import Callable
from dataclasses import astuple, fields, is_dataclass, replace
from functools import cache
from numbers import Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from .errors import InputError

T = TypeVar("T")

LARGEST = 1e100  # of a number without closer bounds
NEEDED = {
    bool: "true or false", int: "a whole number", float: "a number", str: "a name", tuple: "a list", dict: "a table",
    NoneType: "null",
}  # fmt: skip
BOUNDS: dict[type, tuple[str, Callable[[Any, Any], bool]]] = {
    Ge: ("from", operator.ge),
    Gt: ("above", operator.gt),
    Le: ("to", operator.le),
    Lt: ("and below", operator.lt),
}


def check_fields(settings: Any) -> None:
    """Check the values of a dataclass by its annotations; call it in `__post_init__`. Lists become tuples.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Noise:
    ...     share: Annotated[float, Ge(0), Le(1)] = 0.1
    ...     def __post_init__(self):
    ...         check_fields(self)
    >>> Noise(2)
    Traceback (most recent call last):
    majority.errors.InputError: share is 2: give a number from 0 to 1
    """
    kind: Any = type(settings)
    for item in fields(settings):
        value = read_value(_hints(kind).get(item.name, Any), getattr(settings, item.name), item.name)
        object.__setattr__(settings, item.name, value)


def from_json(kind: type[T], content: Any, place: str | Path, cure: str) -> T:
    """The dataclass or named tuple that decoded JSON holds.

    >>> from typing import NamedTuple
    >>> class Size(NamedTuple):
    ...     height: int
    ...     width: int = 8
    >>> from_json(Size, {"height": 4}, "size.json", "write it again")
    Size(height=4, width=8)
    >>> from_json(Size, {"height": "tall"}, "size.json", "write it again")
    Traceback (most recent call last):
    majority.errors.InputError: size.json is damaged (height is tall: give a whole number): write it again
    """
    try:
        found: T = read_value(kind, content, "")
    except InputError as error:
        raise InputError(f"{place} is damaged ({error}): {cure}") from None
    return found


def with_setting(settings: T, name: str, value: Any, path: str) -> T:
    """The dataclass with the setting of this dotted name replaced; `path` is the whole name, for messages."""
    first, _, rest = name.partition(".")
    if rest:
        value = with_setting(getattr(settings, first), rest, value, path)
    elif value is not None and is_dataclass(getattr(settings, first)):
        raise InputError(f"{path} is a group of settings: change one of them, {path}.SETTING=VALUE")
    else:
        kind: Any = type(settings)
        value = read_value(_hints(kind).get(first, Any), value, path)
    changed: T = replace(settings, **{first: value})  # type: ignore[type-var]
    return changed


def read_value(hint: Any, value: Any, path: str) -> Any:
    """The value that the annotation says: a list becomes a tuple, a table of names and values a dataclass."""
    if isinstance(value, Real) and hasattr(value, "item"):
        value = value.item()  # a number of numpy as one of Python
    if not _fits(hint, value):
        shown = value if isinstance(value, str) else json.dumps(value, default=str)
        raise InputError(f"{path or 'the content'} is {shown[:80]}: give {_needed(hint)}")
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return read_value(next(one for one in arguments if _fits(one, value)), value, path)
    if kind is tuple and arguments:
        of_items = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        return tuple(
            read_value(one, item, f"{path}[{i}]") for i, (one, item) in enumerate(zip(of_items, value, strict=True))
        )
    if not _is_record(kind) or not isinstance(value, dict):
        return value
    hints, parameters = _hints(kind), inspect.signature(kind).parameters
    paths = {name: f"{path}.{name}".lstrip(".") for name in (*parameters, *value)}
    for name in value:
        if name not in parameters:
            raise InputError(f"{paths[name]} is unknown")
    for name, parameter in parameters.items():
        if parameter.default is parameter.empty and name not in value:
            raise InputError(f"{paths[name]} is missing")
    return kind(**{name: read_value(hints.get(name, Any), item, paths[name]) for name, item in value.items()})


def _fits(hint: Any, value: Any) -> bool:
    """Whether the annotation allows the value; of dataclasses and named tuples, fields are not looked at.

    >>> _fits(Annotated[int, Ge(1), Le(9)] | None, 12), _fits(Annotated[float, Gt(0)], 12)
    (False, True)
    """
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return any(_fits(one, value) for one in arguments)
    if kind is Annotated:
        limits = [(BOUNDS[type(bound)][1], astuple(bound)[0]) for bound in arguments[1:]]
        return _fits(arguments[0], value) and all(is_within(value, limit) for is_within, limit in limits)
    if kind is Literal:
        return isinstance(value, str) and value in arguments
    if kind is tuple:
        any_length = not arguments or arguments[-1] is ...
        return isinstance(value, tuple | list) and (any_length or len(value) == len(arguments))
    if kind in (int, float):
        numbers = (int,) if kind is int else (int, float)
        return isinstance(value, numbers) and not isinstance(value, bool) and abs(value) <= LARGEST
    if _is_record(kind):
        return isinstance(value, kind | dict)
    return isinstance(value, kind) if kind in NEEDED else True  # what has another type, the dataclass itself checks


def _needed(hint: Any) -> str:
    """
    >>> _needed(Annotated[int, Ge(1), Le(9)] | None)
    'a whole number from 1 to 9 or null'
    """
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        return " or ".join(map(_needed, arguments))
    if kind is Annotated:
        limits = [f"{BOUNDS[type(bound)][0]} {astuple(bound)[0]:,}" for bound in arguments[1:]]
        return " ".join([NEEDED[arguments[0]], *limits])
    return " or ".join(arguments) if kind is Literal else NEEDED.get(kind, "a table of settings")


def _is_record(kind: Any) -> bool:
    return isinstance(kind, type) and (is_dataclass(kind) or hasattr(kind, "_fields"))


@cache
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError:  # of a type that only type checkers import: its recipe checks the values
        return {}
