"""What a study was asked for and does not hold yet, and the command that fills it."""

from __future__ import annotations

import json
import shlex
from itertools import product
from pathlib import Path

from ..files import read_json
from .grid import STUDY
from .results import source_name


def missing_cells(study: Path, results: list[dict]) -> dict[tuple[str, str, str], list[int]]:
    """Folds without a result by source, scenario and method; nothing where it is not known what was asked for."""
    place = study / STUDY
    if not place.is_file():
        return {}
    asked = read_json(place)
    here = {(source_name(r), r.get("scenario"), r["method"], r.get("fold", 0)) for r in results}
    absent: dict[tuple[str, str, str], list[int]] = {}
    grid = (asked[name] for name in ("sources", "scenarios", "methods", "folds"))
    for source, scenario, method, fold in product(*grid):
        names = (Path(source).stem, scenario, method)
        if (*names, fold) not in here:
            absent.setdefault(names, []).append(fold)
    return absent


def command(study: Path) -> str:
    """The `majority study` line that was given; repeated, it trains what is missing."""
    asked = read_json(study / STUDY)
    words = ["majority", "study", *asked["sources"]]
    grid = {name: asked[name] for name in ("scenarios", "methods", "folds", "recipe")}
    changes = dict(asked.get("changes", {}))
    for name, value in changes.pop("settings", {}).items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    for name, value in (grid | changes).items():
        said = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [said])]
    return shlex.join([*words, "--out", str(study)])
