"""What is wrong with a configuration: one sentence per field, with its name, its value and what is allowed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import astuple
from pathlib import Path
from reprlib import repr as short_repr
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, get_args, get_origin

from pydantic import ValidationError

from ..errors import InputError, closest
from ..fields import BOUNDS, NEEDED

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo

KINDS: dict[Any, str] = {
    **NEEDED,
    str: "text",
    tuple: "one value or more, with commas between them",
    dict: "a table of names and values",
}
KINDS_OF_BAGS = ("own", "benchmark")  # in the path of a field
LARGEST, LARGEST_IN_HELP = 10**12, 10**5  # a bound above it is not shown


def allowed(field: FieldInfo, largest: int = LARGEST) -> str:
    """What a field takes, in words.

    >>> from majority.run.config import BenchmarkBags
    >>> [allowed(BenchmarkBags.model_fields[name]) for name in ("bags", "ties")]
    ['a whole number from 4 to 100,000,000', 'lowest or resample or error']
    """
    return " or ".join(dict.fromkeys(_kinds(field.annotation, field.metadata, largest)))


def _bounds(metadata: Iterable[Any], largest: int) -> str:
    limits = {BOUNDS[type(item)][0]: astuple(item)[0] for item in metadata if type(item) in BOUNDS}
    return "".join(f" {word} {value:,}" for word, value in limits.items() if value < largest)


def _kinds(annotation: Any, metadata: Iterable[Any], largest: int) -> list[str]:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return [str(value) for value in arguments]
    if origin is tuple and get_origin(arguments[0]) is Literal:
        return [f"{KINDS[tuple]}: {' or '.join(map(str, get_args(arguments[0])))}"]
    if hasattr(annotation, "__metadata__"):
        return _kinds(arguments[0], annotation.__metadata__, largest)
    if origin is None or origin in KINDS:
        kind = KINDS.get(origin or annotation, "a value")
        return [] if annotation is NoneType else [kind + _bounds(metadata, largest)]
    return [kind for argument in arguments for kind in _kinds(argument, metadata, largest)]


def problems_of(error: ValidationError, fields: Mapping[str, FieldInfo], parts: Collection[str] = ()) -> list[str]:
    """One sentence per error; a field is named without the part that it is in."""
    errors: list[dict[str, Any]] = [dict(each) for each in error.errors(include_url=False)]
    for each in errors:
        each["loc"] = each["loc"][1:] if each["loc"] and each["loc"][0] in parts else each["loc"]
    return [_sentence(each, fields) for each in errors]


def _sentence(error: dict[str, Any], fields: Mapping[str, FieldInfo]) -> str:
    path = [str(step) for step in error["loc"] if step not in KINDS_OF_BAGS]
    is_unknown = error["type"] == "extra_forbidden"
    while not is_unknown and len(path) > 1 and path[-1] not in fields and path[-2] in fields:
        path.pop()  # an item of the field, or one of its types
    name = ".".join(path) or "the content"
    cause = error.get("ctx", {}).get("error")
    if isinstance(cause, InputError):
        return f"{name}: {cause}" if path else str(cause)
    if error["type"] == "missing":
        return f"{name} is missing"
    if is_unknown:
        return unknown_option(path[-1], fields) if path[0] == "run" or len(path) == 1 else f"{name} is unknown"
    needed = allowed(fields[path[-1]]) if path and path[-1] in fields else ""
    needed = needed or str(error["msg"]).removeprefix("Input should be ").replace("Input should", "it should")
    return f"{name} is {short_repr(error['input'])}: give {needed}"


def unknown_option(name: str, known: Iterable[str]) -> str:
    similar = closest(name, known)
    return f"there is no option {name}: " + (f"did you mean {similar}?" if similar else "--help all lists them")


def refuse(problems: list[str]) -> None:
    """Raise an error with all of them, if there are any."""
    if problems:
        raise InputError("\n".join(dict.fromkeys(problems)))


def damaged(path: str | Path, error: ValidationError, fields: Mapping[str, FieldInfo], cure: str) -> NoReturn:
    """A file that this program wrote, and that has changed since."""
    raise InputError(f"{path} is damaged ({'; '.join(problems_of(error, fields))}): {cure}") from None
