"""The cells of a study that have no result yet, and the command that trains them."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...io import is_custom_source
from ...nn.methods import AUTO, DEFAULT_METHOD
from ...parsing import read_record
from ...recipes import RECIPES
from ...records import StudyRequest
from .grid import STUDY
from .results import Result, row_name, source_name

MAX_CELLS = 1_000_000
GRID = ("sources", "scenarios", "methods", "folds", "seeds")


def missing_cells(study: Path, results: list[Result]) -> dict[tuple[str, str, str], list[int]]:
    """Folds without a result by source, scenario and row; empty if the folder has no study.json.

    With several seeds, a fold occurs once for each seed without a result.
    """
    if not (study / STUDY).is_file():
        return {}
    request = _read_request(study)
    finished = {_key(result) for result in results}
    divided = {source_name(result) for result in results if (result.get("data") or {}).get("folds", 0) is None}
    missing: dict[tuple[str, str, str], list[int]] = {}
    recipe = RECIPES.get(request["recipe"])
    auto = recipe.resolve_method(AUTO) if recipe else DEFAULT_METHOD
    for cell in _cells(request, divided):
        unweighed = cell | ({"method": auto} if cell["method"] == AUTO else {})  # if the recipe takes one
        if not {_key(cell), _key(unweighed)} & finished:
            source, scenario, row, fold, _ = _key(cell)
            missing.setdefault((source, scenario or "-", row), []).append(fold)
    return missing


def _cells(request: StudyRequest, divided: set[str]) -> Iterator[dict[str, Any]]:
    """What each requested cell has in its result. Bags of your own have no scenario, and one fold if divided."""
    variants = [dict(zip(_varied(request), values, strict=True)) for values in product(*_varied(request).values())]
    for source in request["sources"]:
        custom = is_custom_source(source)
        scenarios: list[Any] = [None] if custom else request["scenarios"]
        folds = [0] if custom and Path(source).stem in divided else request["folds"]
        grid = product(scenarios, request["methods"], folds, request.get("seeds", [0]), variants)
        for scenario, method, fold, seed, varied in grid:
            names = {"source": source, "scenario": scenario, "method": method}
            yield names | {"fold": fold, "seed": seed, "varied": varied}


def _key(result: Result) -> tuple[str, str | None, str, int, int]:
    return source_name(result), result.get("scenario"), row_name(result), result.get("fold", 0), result.get("seed", 0)


def _varied(request: StudyRequest) -> dict[str, tuple[Any, ...]]:
    return {name: tuple(values) for name, values in request.get("vary", {}).items()}


def requested_reference(study: Path) -> str | None:
    """The row that the study names as the one to compare with."""
    return _read_request(study).get("reference") if (study / STUDY).is_file() else None


def _read_request(study: Path) -> StudyRequest:
    path, cure = study / STUDY, "repeat the `majority study` command of this folder, which writes it again"
    request = read_record(StudyRequest, path, cure)
    sizes: dict[str, Any] = {name: request.get(name, [0]) for name in GRID} | _varied(request)
    cells = prod(map(len, sizes.values()))
    if not 0 < cells <= MAX_CELLS:
        raise InputError(f"{path} is damaged (a grid of {cells:,} cells, 1 to {MAX_CELLS:,} are read): {cure}")
    return request


def study_command(study: Path) -> str:
    """The `majority study` command of this folder. Repeated, it trains the missing cells."""
    request = _read_request(study)
    words = ["majority", "study", *request["sources"]]
    grid: dict[str, Any] = {name: request.get(name) for name in (*GRID[1:], "recipe", "reference")}
    grid = {name: value for name, value in grid.items() if value and (name, value) != ("seeds", [0])}
    if all(map(is_custom_source, request["sources"])):
        grid.pop("scenarios", None)
    changes: dict[str, Any] = dict(request.get("changes", {}))
    for name, value in changes.pop("settings", {}).items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    for name, value in changes.pop("method_options", {}).items():
        words += ["--option", f"{name}={value}"]
    for name, values in request.get("vary", {}).items():
        words += ["--vary", f"{name}={','.join(map(_plain, values))}"]
    for name, value in (grid | changes).items():
        shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [shown])]
    return shlex.join([*words, "--out", str(study)])


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
