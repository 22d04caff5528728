"""Wrong calls of public functions: an argument of another type than its hint is refused before anything is done."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from reprlib import repr as short_repr
from types import NoneType, UnionType
from typing import Any, ParamSpec, TypeVar, Union, get_args, get_origin

from .errors import InputError

P = ParamSpec("P")
R = TypeVar("R")

WHOLE_NUMBERS = 2**63
NAMES: dict[object, str] = {
    int: "a whole number (of 64 bits)",
    float: "a number",
    str: "a text",
    bool: "True or False",
    Path: "a path",
    NoneType: "None",
    Mapping: "a dict",
    Sequence: "a list or an array",
}
SEQUENCES = (list, tuple, Sequence, Iterable, Sized)  # hints of which a list, a tuple, an array or a column is accepted
SHOWN = (str, int, float, list, dict, tuple, NoneType)  # other values are shown by their type


def check_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator. Checked are numbers, texts, paths, classes, and whether something is a dict or a list or an array.

    >>> @check_arguments
    ... def repeat(text: str, times: int = 2) -> str:
    ...     return text * times
    >>> repeat("a", "b")
    Traceback (most recent call last):
    majority.errors.InputError: repeat: times is 'b' (str): give a whole number (of 64 bits)
    """
    signature = inspect.signature(function)
    takes_any_name = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())

    @functools.cache
    def kinds() -> dict[str, tuple[Any, ...]]:
        named = [p for p in signature.parameters.values() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)]
        hinted = [p for p in named if p.annotation is not p.empty]
        return {p.name: _kinds(_evaluated(p.annotation, function)) for p in hinted}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        for name in () if takes_any_name else kwargs.keys() - signature.parameters.keys():
            close = get_close_matches(name, signature.parameters, 1)
            hint = f"did you mean {close[0]}?" if close else f"its arguments are {', '.join(signature.parameters)}"
            raise TypeError(f"{function.__name__.strip('_')}: there is no argument {name}: {hint}")
        given = signature.bind(*args, **kwargs).arguments  # raises a TypeError, as every call of a function does
        for name, kinds_of in kinds().items():
            if kinds_of and name in given and not any(_accepts(kind, given[name]) for kind in kinds_of):
                value, needed = given[name], " or ".join(_name(kind) for kind in kinds_of)
                shown = f"{short_repr(value)} " if isinstance(value, SHOWN) else ""
                found = f"{name} is {shown}({type(value).__name__})"
                raise InputError(f"{function.__name__.strip('_')}: {found}: give {needed}")
        return function(*args, **kwargs)

    return checked


def _evaluated(annotation: Any, function: Any) -> Any:
    """A module with `from __future__ import annotations` keeps them as text."""
    return eval(annotation, function.__globals__) if isinstance(annotation, str) else annotation


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The classes of a hint, Mapping and Sequence for all that are like them; empty if any value is allowed."""
    kinds: list[Any] = []
    for part in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        of = get_origin(part) or part
        if not isinstance(of, type) or getattr(of, "_is_protocol", False) or of in (Callable, object):
            return ()
        if of in SEQUENCES or of.__name__ == "ndarray":
            kinds.append(Sequence)
            kinds += [str] if get_args(part)[:1] == (str,) and of is not tuple else []  # letters
        else:
            kinds.append(Mapping if issubclass(of, Mapping) else of)
    return tuple(kinds)


def _accepts(kind: type, value: Any) -> bool:
    if isinstance(value, bool) and kind is not bool:
        return False
    if kind is int:
        return isinstance(value, Integral) and -WHOLE_NUMBERS <= int(value) < WHOLE_NUMBERS
    if kind is Sequence:
        listed = hasattr(value, "__iter__") and getattr(value, "ndim", 1) > 0
        return listed and not isinstance(value, str | bytes | Mapping)
    return isinstance(value, Real if kind is float else kind)


def _name(kind: type) -> str:
    return NAMES.get(kind, f"a {kind.__name__}")
