"""The results of a study's finished cells, read from its run folders or from the lines they were gathered in."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..errors import InputError
from ..experiments.run_folder import RESULT
from ..files import read_json, read_lines, write_lines
from ..recipes import RECIPES, TaskInfo
from ..recipes.plan import settings_by_name
from ..training.loop import METRICS

RESULTS = "results.jsonl"
CURVE_POINTS = 100  # of each learning curve that are kept
CURVES = ("train_loss", "val_loss", "train_bag_accuracy", "val_bag_accuracy")
NAMES = ("source", "method", "recipe", "test")  # what every result has
SAME_RESULTS = ("recipe", "seed", "compile")  # of a plan and its stages: they change no more than chance does
PLACE = ("source", "scenario", "fold")  # of a cell in its study; what else its data say is of the setting


def read_results(study: str | Path) -> list[dict]:
    """One dict a finished cell: its result.json, `cell` (its folder below the study's) and its thinned `curve`.

    Where there are no run folders, the lines of results.jsonl, else of all .jsonl files; a .jsonl file gives its lines.
    """
    study = Path(study)
    places = sorted(study.rglob(RESULT)) if study.is_dir() else []
    if places:
        return [_cell(place.parent, study) for place in places]
    gathered = study if study.is_file() else study / RESULTS
    files = [gathered] if gathered.is_file() else sorted(study.glob("*.jsonl"))
    results = [line for file in files for line in _lines(file)]
    if not results:
        raise InputError(
            f"{study} holds no finished runs: give the --out of `majority train` or `majority study`, "
            "or a .jsonl file of results"
        )
    return results


def save(study: Path) -> Path:
    """Write STUDY/results.jsonl: what reports are made from, in one file that travels."""
    place = study / RESULTS
    write_lines(place, read_results(study))
    return place


def thin_out(points: list, most: int) -> list:
    """At equal distances up to so many of them, and the last.

    >>> thinned([*range(10)], 4)
    [0, 3, 6, 9]
    """
    step = -(-len(points) // most) or 1
    return [*points[::step], *(points[-1:] if (len(points) - 1) % step else [])]


def source_name(result: dict) -> str:
    """
    >>> source_name({"source": "/data/svhn28.npz"})
    'svhn28'
    """
    return Path(result["source"]).stem


class Setting(NamedTuple):
    """Results of one setting may be averaged and compared."""

    recipe: str
    changed: str  # how it departs from the recipe and from the source's own bags; empty: in nothing

    def __str__(self) -> str:
        return f"{self.recipe} ({self.changed})" if self.changed else self.recipe


def setting(result: dict) -> Setting:
    """
    >>> str(setting({"source": "cifar10", "recipe": "paper", "epochs": 150}))
    'paper (settings not recorded, 150 epochs run)'
    >>> plan = {"recipe": "paper", "training": {"epochs": 150, "patience": 100, "seed": 3}}
    >>> setting({"source": "cifar10", "recipe": "paper", "plan": plan, "data": {"bag_size": 8}}).changed
    '150 of 1,500 epochs, patience 100, bag size 8'
    """
    data = result.get("data") or {"data_seed": result.get("data_seed")}
    choices = {name: value for name, value in data.items() if name not in PLACE and value}
    of_bags = [_said(name, value) for name, value in choices.items() if (name, value) != ("ties", "lowest")]
    of_method = [_said(name, value) for name, value in (result.get("method_options") or {}).items()]
    if result.get("background_share") is not None:
        of_method.append(_said("background_share", result["background_share"]))
    return Setting(result["recipe"], ", ".join([*of_method, *_changes_of_plan(result), *of_bags]))


def _changes_of_plan(result: dict) -> list[str]:
    plan, recipe = result.get("plan"), RECIPES.get(result["recipe"])
    if plan is None:
        run = result.get("epochs")
        return ["settings not recorded", *([f"{run:,} epochs run"] if run else [])]
    task = TaskInfo(**result.get("task", {"source": source_name(result)}))
    planned = settings_by_name(recipe.plan(task._replace(on_gpu=True)).as_dict()) if recipe else {}
    said = []
    for name, value in settings_by_name(plan).items():
        before = planned.get(name)
        left_out = value is None and any(other.startswith(f"{name}.") for other in planned)  # a stage
        if name.rpartition(".")[2] in SAME_RESULTS or (value == before and not left_out):
            continue
        if name == "training.epochs" and before:
            said.append(f"{value:,} {'of' if value < before else 'instead of'} {before:,} epochs")
        else:
            said.append(_said(name.removeprefix("training."), value))
    return said


def _said(name: str, value: object) -> str:
    name = name if "." in name else name.replace("_", " ")  # as --set takes it
    if value is True:
        return name
    if value is None or value is False:
        return f"no {name}"
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list | tuple) else value}"


def _lines(file: Path) -> list[dict]:
    try:
        results = read_lines(file)
    except ValueError as error:
        raise InputError(f"{file} is no file of JSON lines ({error}): give one that `majority study` wrote") from None
    for number, result in enumerate(results, start=1):
        absent = [name for name in NAMES if not isinstance(result, dict) or name not in result]
        if absent:
            raise InputError(f"{file}, line {number} is no result of a run: it has no {absent[0]!r}")
    return results


def _cell(folder: Path, study: Path) -> dict:
    kept = thin_out(read_lines(folder / METRICS), CURVE_POINTS)
    curve = {"epoch": [record["epoch"] for record in kept]}
    curve |= {name: [round(record[name], 5) for record in kept] for name in CURVES}
    return read_json(folder / RESULT) | {"cell": str(folder.relative_to(study)), "curve": curve}
