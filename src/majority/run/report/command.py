"""The command that repeats a run."""

from __future__ import annotations

import json
import shlex
from typing import Any

from ...io.base import IN_MEMORY
from ...io.custom.names import join_names
from ...parsing import parse_record
from ...recipes import RECIPES, TaskInfo
from ...recipes.plan import SHORTHANDS, settings_by_name


def train_command(config: dict[str, Any]) -> str | None:
    """The `majority train` command that repeats the run; None if its bags were given from Python.

    >>> config = {"method": "count", "method_options": {}, "data": {"source": "my bags.csv", "fold": 1}, "plan": {}}
    >>> train_command(config)
    "majority train 'my bags.csv' --method count --fold 1"
    """
    plan, data = config.get("plan", {}), dict(config["data"])
    for name in ("fingerprint", "corrections"):  # corrections are in the file of --labels
        data.pop(name, None)
    if data["source"] == IN_MEMORY:
        return None
    words = ["majority", "train", str(data.pop("source"))]
    options = {"method": config["method"], "recipe": plan.get("recipe"), "like": config.get("like")}
    refit = config.get("refit", False)
    options |= {"refit": refit, "no_refit": not refit and _refits_by_default(plan, data)}
    options |= {"background_share": config.get("background_share"), "seed": plan.get("training", {}).get("seed")}
    settings = _settings_to_repeat(config)
    values = settings_by_name(plan) | settings  # also what the recipe sets, since it may differ on another device
    for option, name in SHORTHANDS.items():
        if values.get(name):
            options[option] = values[name]
            settings.pop(name, None)
    for name, value in (options | data).items():
        if value is None or value is False or value == []:
            continue
        shown = join_names(value) if isinstance(value, list) else str(value)
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [shown])]
    for name, value in config["method_options"].items():
        words += ["--option", f"{name}={value}"]
    for name, value in settings.items():
        words += ["--set", f"{name}={json.dumps(value)}"]
    return shlex.join(words)


def _refits_by_default(plan: dict[str, Any], data: dict[str, Any]) -> bool:
    """Whether `train` would do so without --refit: bags of your own have no scenario."""
    recipe = RECIPES.get(plan.get("recipe", ""))
    is_own = data.get("scenario") is None and data.get("folds") is None
    return is_own and recipe is not None and recipe.refits_by_default


def _settings_to_repeat(config: dict[str, Any]) -> dict[str, Any]:
    """The settings of the run's plan that its recipe does not set like this today, without the seed."""
    plan = config.get("plan", {})
    if "task" not in config or plan.get("recipe") not in RECIPES:
        return dict(config.get("settings", {}))
    task = parse_record(TaskInfo, config["task"], "config.json", field="task")
    planned = settings_by_name(RECIPES[plan["recipe"]].plan_for(task).as_dict())
    used = settings_by_name(plan)
    changed = {name: value for name, value in used.items() if planned.get(name, value) != value}
    left_out = {name: None for name in used if used[name] is None and any(n.startswith(f"{name}.") for n in planned)}
    return {name: value for name, value in (changed | left_out).items() if not name.endswith(".seed")}
