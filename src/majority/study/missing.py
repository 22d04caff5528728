"""The cells of a study that have no result yet, and the command that trains them."""

from __future__ import annotations

import json
import shlex
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..methods import AUTO, DEFAULT_METHOD
from ..records import StudyRequest, read_record
from .grid import STUDY
from .results import Result, source_name

MAX_CELLS = 1_000_000


def missing_cells(study: Path, results: list[Result]) -> dict[tuple[str, str, str], list[int]]:
    """Folds without a result by source, scenario and method; empty if the folder has no study.json."""
    path = study / STUDY
    if not path.is_file():
        return {}
    request = _read_request(study)
    finished = {(source_name(r), r.get("scenario"), r["method"], r.get("fold", 0)) for r in results}
    missing: dict[tuple[str, str, str], list[int]] = {}
    grid = (request["sources"], request["scenarios"], request["methods"], request["folds"])
    for source, scenario, method, fold in product(*grid):
        names = (Path(source).stem, scenario, method)
        if method == AUTO and (*names[:2], DEFAULT_METHOD, fold) in finished:
            continue  # the recipe does not weigh several methods
        if (*names, fold) not in finished:
            missing.setdefault(names, []).append(fold)
    return missing


def _read_request(study: Path) -> StudyRequest:
    path, cure = study / STUDY, "repeat the `majority study` command of this folder, which writes it again"
    request = read_record(StudyRequest, path, cure)
    cells = prod(len(request[name]) for name in ("sources", "scenarios", "methods", "folds"))
    if cells > MAX_CELLS:
        raise InputError(f"{path} is damaged (a grid of {cells:,} cells, at most {MAX_CELLS:,} are read): {cure}")
    return request


def study_command(study: Path) -> str:
    """The `majority study` command of this folder. Repeated, it trains the missing cells."""
    request = _read_request(study)
    words = ["majority", "study", *request["sources"]]
    grid: dict[str, Any] = {name: request[name] for name in ("scenarios", "methods", "folds", "recipe")}
    changes: dict[str, Any] = dict(request.get("changes", {}))
    for name, value in changes.pop("settings", {}).items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    for name, value in (grid | changes).items():
        shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [shown])]
    return shlex.join([*words, "--out", str(study)])
