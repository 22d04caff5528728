"""The results of a study: read from its run folders, or from .jsonl files with one result per line."""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ...data.splitting import MIN_BAGS
from ...errors import InputError, count_noun
from ...fields import from_json
from ...files import read_json, read_lines, write_lines, write_shared_json
from ...io.benchmarks.catalogue import known_of, known_sources
from ...recipes import RECIPES, TaskInfo
from ...recipes.plan import settings_by_name
from ..config import plan_setting
from ..options import Part
from ..record import RESULT, ResultLine, from_file, read_result
from ..study_config import StudyConfig

Result = dict[str, Any]  # the content of one result.json

RESULTS, STUDY = "results.jsonl", "study.json"
NOT_COMPARED = ("recipe", "seed", "compile", "max_instances")  # settings that change results no more than chance does
USUAL = (("ties", "lowest"), ("min_bags", MIN_BAGS))  # of bags
CELL_KEYS = ("source", "scenario", "fold")  # these tell cells of one setting apart
CURE = "give a file of JSON lines that `majority study` wrote"


def read_results(study: str | Path) -> list[Result]:
    """One dict per finished cell: its result.json and `cell` (its folder in the study's).

    A folder without runs is read from its results.jsonl or, if there is none, from all its .jsonl files.
    """
    study = Path(study)
    places = sorted(study.rglob(RESULT)) if study.is_dir() else []
    if places:
        cells = [place.parent for place in places]
        return [read_result(cell) | {"cell": str(cell.relative_to(study))} for cell in cells]
    saved = study if study.is_file() else study / RESULTS
    files = [saved] if saved.is_file() else sorted(study.glob("*.jsonl"))
    results = []
    for file in files:
        for number, line in enumerate(read_lines(file, CURE), start=1):
            from_file(ResultLine, line, f"{file}, line {number}", CURE)
            results.append(line)
    if not results:
        raise InputError(
            f"{study} holds no finished runs: give the --out of `majority train` or `majority study`, "
            "or a .jsonl file of results"
        )
    return results


def save_results(study: Path) -> Path:
    """Write STUDY/results.jsonl: everything that reports need, in one file."""
    path = study / RESULTS
    write_lines(path, read_results(study))
    return path


class StudyRecord(Part):
    """study.json: what was requested."""

    study: StudyConfig
    cells: tuple[str, ...]  # their folders


def write_request(config: StudyConfig, cells: Sequence[Path], out: Path) -> None:
    places = [str(folder.relative_to(out)) for folder in cells]
    write_shared_json(out / STUDY, {"study": config.model_dump(mode="json", exclude_defaults=True), "cells": places})


def read_request(study: Path) -> StudyRecord | None:
    """None if the folder holds no study, but other runs."""
    path, cure = study / STUDY, "repeat the `majority study` command of this folder, which writes it again"
    if not path.is_file():
        return None
    return from_file(StudyRecord, read_json(path, cure), path, cure)


def missing_cells(request: StudyRecord | None, results: Sequence[Result]) -> list[str]:
    """The cells that have no result yet."""
    finished = {str(result.get("cell")) for result in results}
    return [] if request is None else [cell for cell in request.cells if cell not in finished]


def row_name(result: Result) -> str:
    """The method of a result and, in brackets, the settings that its study varies.

    >>> row_name({"method": "count", "varied": {"training.learning_rate": 0.001}})
    'count (learning_rate 0.001)'
    """
    varied = (result.get("varied") or {}).items()
    shown = ", ".join(_format_setting(name, value).removeprefix("training.") for name, value in varied)
    return f"{result['method']} ({shown})" if shown else str(result["method"])


def source_name(result: Result) -> str:
    """
    >>> source_name({"source": "/data/svhn28.npz"})
    'svhn28'
    """
    return Path(result["source"]).stem


class Setting(NamedTuple):
    """How runs were trained. Results of the same setting may be averaged and compared."""

    recipe: str
    changed: str  # differences from the recipe and from the default bags of the source; empty: none

    def __str__(self) -> str:
        return f"{self.recipe} ({self.changed})" if self.changed else self.recipe


def setting_of(result: Result) -> Setting:
    """
    >>> plan = {"recipe": "paper", "training": {"epochs": 150, "patience": 100, "seed": 3}}
    >>> setting_of({"source": "cifar10", "recipe": "paper", "plan": plan, "data": {"bag_size": 8}}).changed
    '150 of 1,500 epochs, patience 100, bag size 8'
    """
    varied, data, method = (result.get(name) or {} for name in ("varied", "data", "method_options"))
    changes = [_format_setting(name, value) for name, value in method.items() if f"option.{name}" not in varied]
    if result.get("background_share") is not None:
        changes.append(_format_setting("background_share", result["background_share"]))
    kind = str((result.get("task") or {}).get("source"))
    if kind in known_sources() and kind != result["source"]:
        changes.append(f"like {kind}")
    changes += _changes_of_plan(result)
    options = {name: value for name, value in data.items() if name not in (*CELL_KEYS, *varied) and value}
    changes += [_format_setting(*option) for option in options.items() if option not in USUAL]
    return Setting(result["recipe"], ", ".join(changes))


def _changes_of_plan(result: Result) -> list[str]:
    """The settings of the result's plan that differ from those of its recipe."""
    recipe = RECIPES.get(result["recipe"])
    noted = {"source": source_name(result)} | (result.get("task") or {})
    noted = known_of(str(noted["source"])) | noted  # whatever is wrong with a task is said below
    known = {name: noted[name] for name in TaskInfo._fields if name in noted}
    place = f"the task of {result.get('cell', 'a line of results')}"
    task = from_json(TaskInfo, known, place, "replace it with an intact copy, or remove it and train again")
    usual, changes = None if recipe is None else recipe.plan_for(task), []
    if recipe is not None and usual != recipe.plan_for(task._replace(on_gpu=True)):
        changes.append("on a CPU")
    planned: dict[str, Any] = {} if usual is None else settings_by_name(usual.as_dict())
    varied = {full for name in result.get("varied") or {} for full in (name, plan_setting(name))}
    for name, value in settings_by_name(result.get("plan") or {}).items():
        before = planned.get(name)
        absent = name not in planned and name.startswith(f"{result['recipe']}.") and recipe is not None
        if name in varied or absent:  # instances of another kind have it
            continue
        if name.rpartition(".")[2] in NOT_COMPARED or value == before:
            continue
        if name == "training.epochs" and before:
            changes.append(f"{value:,} {'of' if value < before else 'instead of'} {before:,} epochs")
        else:
            changes.append(_format_setting(name.removeprefix("training."), value))
    return changes


def _format_setting(name: str, value: object) -> str:
    """
    >>> _format_setting("bag_size", 8), _format_setting("refit", None), _format_setting("with_replacement", True)
    ('bag size 8', 'no refit', 'with replacement')
    >>> _format_setting("corrections", {"farm01": "oats", "farm03": "rye"})
    'corrections of 2 bags (checksum 6914)'
    """
    name = name if "." in name else name.replace("_", " ")  # a dotted name stays as --set takes it
    if value is True:
        return name
    if value is None or value is False:
        return f"no {name}"
    if isinstance(value, dict):  # labels by bag; other labels of as many bags are another row of the table
        checksum = zlib.crc32(json.dumps(value, sort_keys=True).encode()) & 0xFFFF
        return f"{name} of {count_noun(len(value), 'bag')} (checksum {checksum:04x})"
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"
