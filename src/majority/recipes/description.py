"""ResultDescription: what a recipe says about its result, for people. The report renders it, and knows no recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..parsing import check_fields


@dataclass(frozen=True)
class ResultDescription:
    """What the `describe` function of a recipe makes of result.json, which has the entries of its `Trained.about`.

    >>> ResultDescription({"rounds": "3 of 5, chosen by the validation bags"}).lines
    {'rounds': '3 of 5, chosen by the validation bags'}
    """

    lines: dict[str, str] = field(default_factory=dict)  # of the list "The run" on the report page: title -> text
    warnings: tuple[str, ...] = ()  # on the page and in the model card; without a full stop

    def __post_init__(self) -> None:
        check_fields(self)


def describe_nothing(result: Mapping[str, Any]) -> ResultDescription:
    """A recipe whose result has no entries of its own."""
    return ResultDescription()
