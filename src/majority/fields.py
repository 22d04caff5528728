"""Dataclasses and named tuples whose annotations say which values are allowed: settings, and what is read from files.

An annotation is bool, int, float, str, a Literal, a tuple, a dict, a dataclass, one of these or None, or `Annotated`
with the bounds of annotated-types.
"""

from __future__ import annotations

import inspect
import json
import operator
from collections.abc import Callable, Iterator
from dataclasses import astuple, fields, is_dataclass, replace
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from reprlib import repr as short_repr
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt

from .errors import InputError, closest

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
    needed = _needed(_hint(settings, name), value)
    if needed:
        raise InputError(f"{path} is {_shown(value)}: give {needed}")


def from_json(kind: type[T], content: Any, place: str | Path, cure: str, field: str = "") -> T:
    """The dataclass or named tuple that decoded JSON holds; `field` is where it is in the file.

    >>> from typing import NamedTuple
    >>> class Size(NamedTuple):
    ...     height: int
    ...     width: int = 8
    >>> from_json(Size, {"height": 4}, "size.json", "write it again")
    Size(height=4, width=8)
    >>> from_json(Size, {"height": "tall"}, "size.json", "write it again")
    Traceback (most recent call last):
    majority.errors.InputError: size.json is damaged (height is 'tall': give a whole number): write it again
    """

    def damaged(reason: str) -> InputError:
        return InputError(f"{place} is damaged ({reason}): {cure}")

    if not isinstance(content, dict):
        raise damaged(f"{field or 'the content'} is no table of names and values")
    record_type: Any = kind
    hints, values = _hints(record_type), dict[str, Any]()
    for name, value in content.items():
        path = f"{field}.{name}".lstrip(".")
        if name not in hints:
            raise damaged(f"{path} is unknown")
        record = next(filter(_is_record, (hints[name], *get_args(hints[name]))), None)
        if record is not None and value is not None:
            if get_origin(hints[name]) is tuple and isinstance(value, list):
                each = (from_json(record, item, place, cure, f"{path}[{i}]") for i, item in enumerate(value))
                values[name] = tuple(each)
            else:
                values[name] = from_json(record, value, place, cure, path)
            continue
        values[name] = lists_as_tuples(value)
        if needed := _needed(hints[name], values[name]):
            raise damaged(f"{path} is {short_repr(value)}: give {needed}")
    for name, parameter in inspect.signature(kind).parameters.items():
        if parameter.default is parameter.empty and name not in values:
            raise damaged(f"{f'{field}.{name}'.lstrip('.')} is missing")
    try:
        return kind(**values)
    except InputError as error:
        raise damaged(f"{field}: {error}") from None


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
        hint = _hint(settings, first)
        if value is not None and any(_is_group(kind) for kind in (hint, *get_args(hint))):
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


def _is_record(kind: Any) -> bool:
    return _is_group(kind) or hasattr(kind, "_fields")


def _hint(settings: Any, name: str) -> Any:
    kind: Any = type(settings)
    return _hints(kind).get(name, Any)


def _is_group(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    try:
        return get_type_hints(kind, include_extras=True)
    except NameError:  # of a type that only type checkers import: its recipe checks the values
        return {}


def _needed(hint: Any, value: Any) -> str:
    """What is needed in place of the value; empty if the annotation allows it.

    >>> _needed(Annotated[int, Ge(1), Le(9)] | None, 12), _needed(Annotated[float, Gt(0)], 12)
    ('a whole number from 1 to 9 or null', '')
    """
    kind, arguments = get_origin(hint) or hint, get_args(hint)
    if kind in (Union, UnionType):
        needed = [_needed(one, value) for one in arguments]
        return " or ".join(needed) if all(needed) else ""
    if kind is Annotated:
        limits = [(*BOUNDS[type(bound)], astuple(bound)[0]) for bound in arguments[1:]]
        if not _needed(arguments[0], value) and all(is_within(_plain(value), limit) for _, is_within, limit in limits):
            return ""
        return " ".join([NEEDED[arguments[0]], *(f"{word} {limit:,}" for word, _, limit in limits)])
    if kind is Literal:
        return "" if isinstance(value, str) and value in arguments else " or ".join(arguments)
    return "" if _is_a(kind, arguments, value) else NEEDED.get(kind, "a group of settings")


def _is_a(kind: Any, arguments: tuple[Any, ...], value: Any) -> bool:
    if kind is tuple:
        if not isinstance(value, tuple) or not arguments:
            return isinstance(value, tuple)
        of_items = arguments[:1] * len(value) if arguments[-1] is ... else arguments
        return len(of_items) == len(value) and not any(map(_needed, of_items, value))
    if kind in (int, float):
        number = Integral if kind is int else Real
        return isinstance(value, number) and not isinstance(value, bool) and abs(_plain(value)) <= LARGEST
    is_checked = kind in NEEDED or is_dataclass(kind)
    return isinstance(value, kind) if is_checked else True  # what has another type, the dataclass itself checks


def _plain(value: Any) -> Any:
    """The number as one of Python: a float16 of numpy would overflow in a comparison with a large one."""
    return value if isinstance(value, int) else float(value)


def _shown(value: Any) -> str:
    """The value as one writes it after --set.

    >>> _shown(("a", None)), _shown(True), _shown("many")
    ('["a", null]', 'true', 'many')
    """
    is_written_otherwise = value is None or isinstance(value, bool | tuple | list | dict)  # in JSON than in Python
    return json.dumps(value, default=str) if is_written_otherwise else str(value)
