"""Shard: the i-th of n parts of a command's work, so that any scheduler can run the parts on different machines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from ..errors import InputError

MAX_SHARDS = 1_000_000

Item = TypeVar("Item")


@dataclass(frozen=True)
class Shard:
    """Part `number` (from 1) of `of` parts. All parts together have every item once.

    >>> [Shard.parse(f"{i}/3").take("abcdefgh") for i in (1, 2, 3)]
    ['adg', 'beh', 'cf']
    """

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        found = re.fullmatch(r"([0-9]{1,7})/([0-9]{1,7})", text)
        number, of = map(int, found.groups()) if found else (0, 0)
        if not 1 <= number <= of <= MAX_SHARDS:
            raise InputError(f"--shard {text}: write I/N, part I of N parts, from 1/N to N/N, such as 2/8")
        return cls(number, of)

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    @property
    def file_name(self) -> str:
        return f"{self.number}-of-{self.of}"

    def take(self, items: Sequence[Item]) -> Sequence[Item]:
        """Every `of`-th item, from `number` on: neighbours, which take about equally long, are in different parts."""
        return items[self.number - 1 :: self.of]
