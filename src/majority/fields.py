"""Settings as frozen dataclasses: their annotations say which values are allowed, and dotted names say which one is
meant.

An annotation is bool, int, float, str, a Literal, a tuple, a dataclass, one of these or None, or `Annotated` with the
bounds of annotated-types.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from .errors import InputError, closest

T = TypeVar("T")

LARGEST = 1e100  # of a number without closer bounds
NEEDED = {bool: "true or false", int: "a whole number", float: "a number", str: "a name", tuple: "a list"}


def check_fields(settings: Any) -> None:
    """Check the values of a dataclass by its annotations; call it in `__post_init__`.

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
    for item in fields(settings):
        check_value(settings, item.name, getattr(settings, item.name), item.name)


def check_value(settings: Any, name: str, value: Any, path: str) -> None:
    """Refuse a value that the annotation of this field does not allow; `path` is its name in the message."""
    kind: Any = type(settings)
    hint = _hints(kind).get(name, Any)
    if not _is_valid(hint, value):
        raise InputError(f"{path} is {_shown(value)}: give {' or '.join(_needed(hint))}")


def with_setting(settings: T, name: str, value: Any, path: str) -> T:
    """The dataclass with the setting of this dotted name replaced; `path` is the whole name, for messages."""
    first, _, rest = name.partition(".")
    known = [item.name for item in fields(settings)] if is_dataclass(settings) else []
    group = path.removesuffix(name).rstrip(".")
    if first not in known:
        if not known:
            raise InputError(f"there is no setting {path}: {group} is {_shown(settings)} and has no settings in it")
        similar = closest(first, known)
        guess = f"did you mean {similar}? " if similar else ""
        raise InputError(f"there is no setting {path}: {guess}{group or 'the recipe'} has {', '.join(known)}")
    before = getattr(settings, first)
    if rest:
        value = with_setting(before, rest, value, path)
    else:
        value = lists_as_tuples(value)
        kind: Any = type(settings)
        if value is not None and any(map(is_dataclass, _kinds(_hints(kind).get(first, Any)))):
            raise InputError(f"{path} is a group of settings: change one of them, {path}.SETTING=VALUE")
        check_value(settings, first, value, path)
    changed: T = replace(settings, **{first: value})  # type: ignore[type-var]
    return changed


def setting_names(settings: Any, group: str = "") -> Iterator[str]:
    """The dotted names of all settings."""
    for item in fields(settings):
        value, name = getattr(settings, item.name), f"{group}{item.name}"
        if is_dataclass(value):
            yield from setting_names(value, f"{name}.")
        else:
            yield name


def lists_as_tuples(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(map(lists_as_tuples, value)) if isinstance(value, list) else value


@cache
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError:  # of a type that only type checkers import: its recipe checks the values
        return {}


def _kinds(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_valid(hint: Any, value: Any) -> bool:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_is_valid(kind, value) for kind in arguments)
    if origin is Annotated:
        return _is_valid(arguments[0], value) and all(_is_within(bound, value) for bound in arguments[1:])
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    kind = origin or hint
    if kind is tuple:
        if not isinstance(value, tuple):
            return False
        return len(arguments) != 2 or arguments[1] is not ... or all(_is_valid(arguments[0], item) for item in value)
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool) and abs(_number(value)) <= LARGEST
    if kind in (bool, str, NoneType) or is_dataclass(kind):
        return isinstance(value, kind)
    return True  # what has another type, the dataclass itself checks


def _is_within(bound: Any, value: Any) -> bool:
    match bound:
        case Ge(ge=least):
            return _number(value) >= least
        case Gt(gt=least):
            return _number(value) > least
        case Le(le=most):
            return _number(value) <= most
        case Lt(lt=most):
            return _number(value) < most
    return True


def _number(value: Any) -> Any:
    """The number as one of Python: a float16 of numpy would overflow in a comparison with a large one."""
    return value if isinstance(value, int) else float(value)


def _needed(hint: Any) -> list[str]:
    """What this annotation allows, in words."""
    kinds = _kinds(hint)
    if len(kinds) > 1:
        return [words for kind in kinds for words in _needed(kind)]
    if hint in (None, NoneType):
        return ["null"]
    if get_origin(hint) is Annotated:
        kind, *bounds = get_args(hint)
        return [" ".join([*_needed(kind), *_range(bounds)])]
    if get_origin(hint) is Literal:
        return list(get_args(hint))
    return [NEEDED.get(get_origin(hint) or hint, "a group of settings")]


def _range(bounds: list[Any]) -> list[str]:
    """
    >>> _range([Ge(0), Le(1)]), _range([Gt(0)]), _range([Ge(0), Lt(1)])
    (['from 0', 'to 1'], ['above 0'], ['from 0', 'and below 1'])
    """
    words = {Ge: "from", Gt: "above", Le: "to", Lt: "and below"}
    values = {kind: getattr(bound, kind.__name__.lower()) for kind in words for bound in bounds if type(bound) is kind}
    return [f"{words[kind]} {value:,}" for kind, value in values.items()]


def _shown(value: Any) -> str:
    """The value as one writes it after --set.

    >>> _shown(("a", None)), _shown(True), _shown("many")
    ('["a", null]', 'true', 'many')
    """
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    is_written_otherwise = value is None or isinstance(value, bool | tuple | list | dict)  # in JSON than in Python
    return json.dumps(value, default=str) if is_written_otherwise else str(value)
