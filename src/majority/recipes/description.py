"""ResultDescription: what a recipe says about its result, for people. The report renders it, and knows no recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..errors import InputError
from ..parsing import check_fields, parse_record

T = TypeVar("T")

RESULT = "result.json"
CURE = "replace it with a complete copy, or remove it and repeat the `majority train` command of the run"


class DamagedResultError(InputError):
    """result.json lacks an entry of the package's recipes, or holds a wrong one."""


@dataclass(frozen=True)
class ResultDescription:
    """What the `describe` function of a recipe makes of result.json, which has the entries of its `Trained.about`.

    >>> ResultDescription({"rounds": "3 of 5, chosen by the validation bags"}).lines
    {'rounds': '3 of 5, chosen by the validation bags'}
    """

    lines: dict[str, str] = field(default_factory=dict)  # of the report page and the model card: title -> text
    warnings: tuple[str, ...] = ()  # on the page and in the model card; without a full stop

    def __post_init__(self) -> None:
        check_fields(self)


def describe_nothing(result: Mapping[str, Any]) -> ResultDescription:
    """A recipe whose result has no entries of its own."""
    return ResultDescription()


def parse_entries(kind: type[T], result: Mapping[str, Any]) -> T:
    """The entries of result.json that a recipe describes, checked. The message of a wrong one names it.

    >>> from majority.records import MpemResult
    >>> parse_entries(MpemResult, {"mpem": {"r": 0.5}})
    Traceback (most recent call last):
    majority.recipes.description.DamagedResultError: result.json is damaged (mpem.left_out is missing): replace it ...
    """
    try:
        return parse_record(kind, result, RESULT, CURE)
    except InputError as error:
        raise DamagedResultError(str(error)) from None
