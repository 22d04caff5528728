"""StudyConfig: what describes a study. Its axes are fields of RunConfig."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from annotated_types import Ge, Le
from pydantic import BeforeValidator, Field

from ..errors import InputError
from .config import OPTIONS, Machine, Name, Names
from .options import USUAL, Part, as_words, options_of, read_item, split_names

MAX_RANGE = 1_000
OF_A_CELL = ("method", "scenario", "fold", "folds", "seed", "refit")  # that the study sets itself
DEFAULT_METHODS, DEFAULT_SCENARIOS = ("count", "log-mean", "vote", "naive"), ("small", "various", "large")


def read_numbers(value: object) -> object:
    """
    >>> read_numbers("0-2,5"), read_numbers(3), read_numbers([0, 1])
    ([0, 1, 2, 5], [3], [0, 1])
    """
    if not isinstance(value, str):
        return [value] if isinstance(value, int) else value
    numbers: list[int] = []
    for piece in value.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:-(\d{1,6}))?", piece.strip())
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if not 0 <= last - first < MAX_RANGE:
            raise InputError(f"{value}: write 0, 0-4 or 0,2, with at most {MAX_RANGE} in a range")
        numbers += range(first, last + 1)
    return numbers


def join_ranges(value: object) -> object:
    """The scenarios of a list that was split at its commas: two numbers in a row are joined to a range.

    >>> join_ranges("small,0.3,0.5,large")
    ['small', '0.3,0.5', 'large']
    """
    names = split_names(value)
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        return names  # what is wrong with it is said where its type is checked
    return re.findall(r"[\d.]+,[\d.]+|[^,]+", ",".join(names))


def split_values(text: str) -> list[Any]:
    """Values with commas between them; one that is a list has brackets.

    >>> split_values("0.1,none"), split_values("[0.3, 0.7],[width]")
    ([0.1, None], [[0.3, 0.7], ['width']])
    """
    items = re.findall(r"\[[^]]*\]|[^,]+", text)
    return [[*map(read_item, split_names(item[1:-1]))] if item[0] == "[" else read_item(item) for item in items]


def read_values(value: object) -> object:
    """The values of each option that varies: lists, or text with commas between them."""
    if not isinstance(value, Mapping):
        return value
    found = {name: split_values(of) if isinstance(of, str) else of for name, of in value.items()}
    for name, items in found.items():
        if not isinstance(items, list | tuple) or len(set(map(str, items))) < max(len(items), 2):
            raise InputError(f"{name}={value[name]}: give at least two different values, with commas between them")
    return found


Numbers = Annotated[tuple[Annotated[int, Ge(0), Le(10**6)], ...], Field(min_length=1), BeforeValidator(read_numbers)]
Scenarios = Annotated[tuple[Name, ...], Field(min_length=1), BeforeValidator(join_ranges)]


class StudyConfig(Part):
    title: ClassVar[str] = "Study"
    hidden: ClassVar[tuple[str, ...]] = ("sources", "options")
    sources: Names
    methods: Annotated[Names, USUAL] = DEFAULT_METHODS
    """Names separated by commas, or all."""
    scenarios: Annotated[Scenarios, USUAL] = DEFAULT_SCENARIOS
    """Names or LOW,HIGH, separated by commas."""
    folds: Annotated[Numbers, USUAL] = (0,)
    """Numbers of the folds to train: 0, 0-4 or 0,2 (of 0 to 4)."""
    seeds: Annotated[Numbers, USUAL] = (0,)
    """Seeds of weights and order of bags: 0, 0-2 or 0,2."""
    vary: Annotated[dict[str, tuple[Any, ...]], BeforeValidator(read_values), USUAL] = Field(default_factory=dict)
    """Values of an option or a setting to compare, as rows of one table, e.g. training.learning_rate=1e-3,3e-4."""
    reference: Name | None = None
    """The method, as its row is named, that others are compared with in the report."""
    options: dict[str, Any] = Field(default_factory=dict)  # of all runs, by name; see RunConfig

    def as_command(self, out: str) -> str:
        """The `majority study` command of this study. Repeated, it trains the missing cells."""
        given = self.model_dump(exclude_defaults=True)
        sources, options = given.pop("sources"), given.pop("options", {})
        options = {name: of for name, of in options.items() if name not in OPTIONS or of != OPTIONS[name].default}
        vary = {name: ",".join(map(_text, values)) for name, values in given.pop("vary", {}).items()}
        words = as_words({"methods": self.methods} | given | {"vary": vary} | options | {"out": out})
        return shlex.join(["majority", "study", *sources, *words])


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


class StudyMachine(Machine):
    """How a study is done, which does not change its results."""

    hidden: ClassVar[tuple[str, ...]] = ("eager",)
    jobs: Annotated[Annotated[int, Ge(1), Le(1024)] | None, USUAL] = None
    """Number of parallel runs, or of parallel runs per GPU (default: one per core, two per GPU)."""
    shard: str | None = None
    """Do only part I of N parts, I/N, e.g. 2/8: for job arrays of a scheduler."""
    on: Name = "local"
    """local (this machine), or ray: the Ray cluster at RAY_ADDRESS."""
    out: Annotated[Name, USUAL] = "runs/study"
    """Folder of the runs and the report."""


STUDY_MACHINE = options_of(StudyMachine)
OF_RUNS = {name: option for name, option in OPTIONS.items() if name not in OF_A_CELL}
OF_STUDY = options_of(StudyConfig)
STUDY_OPTIONS = OF_RUNS | OF_STUDY | STUDY_MACHINE
