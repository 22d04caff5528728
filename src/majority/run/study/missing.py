"""The cells of a study that have no result yet, and the command that trains them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ...descriptions import DEFAULT_RECIPE
from ...errors import InputError
from ...files import read_json
from ...io import is_custom_source
from ...nn.methods import AUTO, DEFAULT_METHOD
from ...recipes import RECIPES
from ..config_errors import damaged
from ..study_config import StudyConfig
from .grid import STUDY, methods_of, variants_of
from .results import Result, row_name, source_name

MAX_CELLS = 1_000_000
CURE = "repeat the `majority study` command of this folder, which writes it again"


def missing_cells(study: Path, results: list[Result]) -> dict[tuple[str, str, str], list[int]]:
    """Folds without a result by source, scenario and row; empty if the folder has no study.json.

    With several seeds, a fold occurs once for each seed without a result.
    """
    if not (study / STUDY).is_file():
        return {}
    config = read_study(study)
    finished = {_key(result) for result in results}
    divided = {source_name(result) for result in results if (result.get("data") or {}).get("folds", 0) is None}
    missing: dict[tuple[str, str, str], list[int]] = {}
    recipe = RECIPES.get(config.options.get("recipe", DEFAULT_RECIPE))
    auto = recipe.resolve_method(AUTO) if recipe else DEFAULT_METHOD
    for cell in _cells(config, divided):
        unweighed = cell | ({"method": auto} if cell["method"] == AUTO else {})  # if the recipe takes one
        if not {_key(cell), _key(unweighed)} & finished:
            source, scenario, row, fold, _ = _key(cell)
            missing.setdefault((source, scenario or "-", row), []).append(fold)
    return missing


def _cells(config: StudyConfig, divided: set[str]) -> Iterator[dict[str, Any]]:
    """What each cell has in its result. Bags of your own have no scenario, and one fold if divided."""
    for source in config.sources:
        custom = is_custom_source(source)
        scenarios = (None,) if custom else config.scenarios
        folds = (0,) if custom and Path(source).stem in divided else config.folds
        for scenario, method, fold, seed, varied in product(
            scenarios, methods_of(config), folds, config.seeds, variants_of(config)
        ):
            names = {"source": source, "scenario": scenario, "method": method}
            yield names | {"fold": fold, "seed": seed, "varied": varied}


def _key(result: Result) -> tuple[str, str | None, str, int, int]:
    return source_name(result), result.get("scenario"), row_name(result), result.get("fold", 0), result.get("seed", 0)


def requested_reference(study: Path) -> str | None:
    """The row that the study names as the one to compare with."""
    return read_study(study).reference if (study / STUDY).is_file() else None


def read_study(study: Path) -> StudyConfig:
    path = study / STUDY
    try:
        config = StudyConfig.model_validate_json(json.dumps(read_json(path, CURE)))
    except ValidationError as error:
        damaged(path, error, StudyConfig.model_fields, CURE)
    axes = (config.sources, config.scenarios, config.methods, config.folds, config.seeds, *config.vary.values())
    cells = prod(map(len, axes))
    if not 0 < cells <= MAX_CELLS:
        raise InputError(f"{path} is damaged (a grid of {cells:,} cells, 1 to {MAX_CELLS:,} are read): {CURE}")
    return config


def study_command(study: Path) -> str:
    """The `majority study` command of this folder. Repeated, it trains the missing cells."""
    return read_study(study).as_command(str(study))
