"""The cells of a study that have no result yet, and the command that trains them."""

from __future__ import annotations

import json
import shlex
from itertools import product
from pathlib import Path

from ..files import read_json
from ..methods import AUTO, DEFAULT_METHOD
from .grid import STUDY
from .results import Result, source_name


def missing_cells(study: Path, results: list[Result]) -> dict[tuple[str, str, str], list[int]]:
    """Folds without a result by source, scenario and method; empty if the folder has no study.json."""
    path = study / STUDY
    if not path.is_file():
        return {}
    request = read_json(path)
    finished = {(source_name(r), r.get("scenario"), r["method"], r.get("fold", 0)) for r in results}
    missing: dict[tuple[str, str, str], list[int]] = {}
    grid = (request[name] for name in ("sources", "scenarios", "methods", "folds"))
    for source, scenario, method, fold in product(*grid):
        names = (Path(source).stem, scenario, method)
        if method == AUTO and (*names[:2], DEFAULT_METHOD, fold) in finished:
            continue  # the recipe does not weigh several methods
        if (*names, fold) not in finished:
            missing.setdefault(names, []).append(fold)
    return missing


def study_command(study: Path) -> str:
    """The `majority study` command of this folder. Repeated, it trains the missing cells."""
    request = read_json(study / STUDY)
    words = ["majority", "study", *request["sources"]]
    grid = {name: request[name] for name in ("scenarios", "methods", "folds", "recipe")}
    changes = dict(request.get("changes", {}))
    for name, value in changes.pop("settings", {}).items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    for name, value in (grid | changes).items():
        shown = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [shown])]
    return shlex.join([*words, "--out", str(study)])
