"""Whether a run trains once more on all labelled bags, as its validation bags have chosen."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from ..errors import InputError
from ..io import CustomBags, Source
from ..predict.classifier import REFITTED
from ..recipes import Recipe
from ..recipes.stages import REFIT
from .data import Data


def check_refit(refit: bool | None, data: Data) -> None:
    """Refuse --refit where it has no meaning."""
    if refit and not data.is_custom:
        raise InputError(
            "refit: it is for your own bags, and a benchmark needs test bags that were not trained on: leave out "
            "--refit (refit=)"
        )
    if refit and data.folds is not None:
        raise InputError(
            "refit with folds: `majority predict` averages the classifiers of all folds: leave out --refit (refit=)"
        )


def resolve_refit(
    refit: bool | None, before: dict[str, Any] | None, recipe: Recipe, data: Data, source: Source | None
) -> bool:
    """As the user says. Otherwise a run that has started goes on as its config says (`before`), and a new one trains
    once more if the recipe gains by it and the bags are your own: neither those of a benchmark, nor folds, nor parts
    that the caller has made, perhaps to test the classifier on one of them."""
    if refit is not None:
        return refit
    if before is not None:
        return bool(before["refit"])
    is_own = data.is_custom and isinstance(source, CustomBags)
    return recipe.refits_by_default and is_own and data.folds is None


def remove_refit(folder: Path) -> None:
    """Remove a second training that was interrupted, of a run that has gone on without it."""
    shutil.rmtree(folder / REFIT, ignore_errors=True)
    (folder / REFITTED).unlink(missing_ok=True)
