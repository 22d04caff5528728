"""The figures of an evaluation: of all bags, of each class, confusion, calibration."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError
from ..predict.intervals import CONFIDENCE, RESAMPLES, bootstrap
from ..predict.metrics import CALIBRATION_BINS, Margins, class_rates
from ..predict.predictions import Predictions

BOOTSTRAP = {"unit": "bags", "resamples": RESAMPLES, "seed": 0, "confidence": CONFIDENCE}


def check_figures_path(path: Path) -> None:
    if path.suffix != ".json" or not path.parent.is_dir():
        raise InputError(f"--out {path}: give a file that ends in .json, in a folder that exists")


def summary_with_intervals(predictions: Predictions) -> dict[str, Any]:
    """The figures by name and, under `intervals`, the ends of the interval of each that has one."""
    figures = predictions.summary()
    intervals = bootstrap(predictions)
    return figures | {"intervals": {name: list(intervals[name]) for name in intervals if figures.get(name) is not None}}


def describe(predictions: Predictions) -> dict[str, Any]:
    """All tables of an evaluation. Classes are compared by instance if the class of any instance is known, otherwise by
    bag."""
    figures = summary_with_intervals(predictions)
    described: dict[str, Any] = {"intervals": figures.pop("intervals"), "figures": figures}
    if predictions.known is not None or predictions.labels is not None:
        unit = "bags" if predictions.known is None else "instances"
        matrix, names = predictions.confusion, predictions.true_classes
        described["classes"] = {"unit": unit, "rows": _class_rows(matrix, names)}
        described["confusion"] = {"unit": unit, "classes": list(names), "rows": matrix.tolist()}
    if predictions.calibration is not None:
        described["calibration"] = _calibration_rows(predictions.calibration)
    return described


def _class_rows(matrix: np.ndarray, names: Sequence[str]) -> list[dict[str, Any]]:
    rates, rows = class_rates(Margins.of(matrix)), []
    for number, name in enumerate(names):
        row: dict[str, Any] = {"class": name, "n": int(matrix[number].sum()), "predicted": int(matrix[:, number].sum())}
        for rate, values in rates.items():
            row[rate] = _number(values[number])
        rows.append(row)
    return rows


def _calibration_rows(calibration: np.ndarray) -> list[dict[str, Any]]:
    """The bins of confidence that have instances."""
    rows = []
    for number, (instances, confidence, correct) in enumerate(calibration.tolist()):
        if instances:
            ends = {"above": number / CALIBRATION_BINS, "up_to": (number + 1) / CALIBRATION_BINS}
            means = {"confidence": confidence / instances, "accuracy": correct / instances}
            rows.append({**ends, "instances": int(instances), **means})
    return rows


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
