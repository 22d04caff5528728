"""The command that repeats a run."""

from __future__ import annotations

from typing import Any

from ...recipes import RECIPES
from ...recipes.plan import settings_by_name
from ..config import OwnBags, Shorthands, plan_setting
from ..plan import task_of
from ..record import RunRecord


def train_command(record: RunRecord) -> str | None:
    """The `majority train` command that repeats the run, also on another device; None if its bags were given from
    Python. It has what the run's plan sets where an option is short for it."""
    used = settings_by_name(record.plan.model_dump())
    short = {name: used[plan_setting(name)] for name in Shorthands.model_fields if used.get(plan_setting(name))}
    others = _settings_to_repeat(record, used)
    settings = {name: value for name, value in others.items() if name not in map(plan_setting, short)}
    changes: dict[str, Any] = {"method": record.method, "recipe": record.plan.recipe}
    changes |= {"short": Shorthands.model_validate(short), "settings": settings, "refit": _refit_to_repeat(record)}
    return record.run.model_copy(update=changes).as_command()


def _refit_to_repeat(record: RunRecord) -> bool | None:
    """None if it is what `train` would do by itself."""
    recipe, bags = RECIPES.get(record.plan.recipe), record.run.bags
    by_default = recipe is not None and recipe.refits_by_default and isinstance(bags, OwnBags) and bags.folds is None
    return True if record.refit else False if by_default else None


def _settings_to_repeat(record: RunRecord, used: dict[str, Any]) -> dict[str, Any]:
    """The settings of the run's plan that its recipe does not set like this today, without the seed."""
    if record.plan.recipe not in RECIPES:
        return record.run.plan_settings
    planned = settings_by_name(RECIPES[record.plan.recipe].plan_for(task_of(record)).as_dict())
    changed = {name: value for name, value in used.items() if planned.get(name, value) != value}
    left_out = {name: None for name in used if used[name] is None and any(n.startswith(f"{name}.") for n in planned)}
    return {name: value for name, value in (changed | left_out).items() if not name.endswith(".seed")}
