"""Whether a run trains once more on all labelled bags, as its validation bags have chosen."""

from __future__ import annotations

import shutil
from pathlib import Path

from ..io import CustomBags, Source
from ..predict.classifier import REFITTED
from ..recipes import Recipe
from ..recipes.stages import REFIT
from .config import OwnBags, RunConfig
from .record import RunRecord


def resolve_refit(config: RunConfig, before: RunRecord | None, recipe: Recipe, source: Source | None) -> bool:
    """As the user says. Otherwise a run that has started goes on as its config says (`before`), and a new one trains
    once more if the recipe gains by it and the bags are your own: neither those of a benchmark, nor folds, nor parts
    that the caller has made, perhaps to test the classifier on one of them."""
    if config.refit is not None:
        return config.refit
    if before is not None:
        return before.refit
    is_own = isinstance(config.bags, OwnBags) and config.bags.folds is None and isinstance(source, CustomBags)
    return recipe.refits_by_default and is_own


def remove_refit(folder: Path) -> None:
    """Remove a second training that was interrupted, of a run that has gone on without it."""
    shutil.rmtree(folder / REFIT, ignore_errors=True)
    (folder / REFITTED).unlink(missing_ok=True)
