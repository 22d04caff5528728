"""The figures of a study as frames, from which its files, its page and its plots are made.

A row is a setting, a scenario, a source and a method; a figure of a row is a mean over folds. Several runs of the same
fold are averaged first.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any, cast

import numpy as np
import pandas as pd

from ...errors import InputError
from ...nn.methods import METHODS
from ...predict import metrics
from .results import Result, row_name, setting_of, source_name

COMPARED = ("instance_accuracy", "macro_f1", "bag_accuracy", "consistency_rate", "overestimation")
FIGURES = {name: metrics.FIGURES[name][0] for name in COMPARED}
VALIDATION = "validation_bag_accuracy"  # methods are chosen by it
ALL = [*FIGURES, VALIDATION]
CONFIDENCE = 0.95
FOLDS, NOT_TRAINED_ON = 5, 2  # of the benchmark sets; parts of a fold for testing and validation
SCENARIOS = ("small", "various", "large")
REFERENCES = ("count", "log-mean")
PREFERRED = "log-mean"  # of methods that are equal
DIGITS = 9  # means that agree in so many digits are equal: sums may be taken in a different order


ROW = ["recipe", "changed", "scenario", "source", "method"]  # no scenario is "", a method has what the study varies
PANEL = ROW[:-1]  # the methods of a panel are compared
TABLE = ROW[:3]  # the sources of a table are its columns


def mean_of(values: pd.Series[float]) -> float:
    """Of those that are defined, and exact: tables round it."""
    known = values.dropna()
    return fmean(known) if len(known) else np.nan


MEANS = {"mean": ("value", mean_of), "sd": ("value", "std"), "n": ("value", "count"), "ratio": ("ratio", "first")}


@dataclass(frozen=True)
class StudyFigures:
    """`reference` is the method, as its row is named, that others are compared with. Without it: count and log-mean,
    or, if neither is there, the first method."""

    results: Sequence[Result]
    reference: str | None = None

    @cached_property
    def runs(self) -> pd.DataFrame:
        """A line per run, in the order of all tables: in each panel, the best method first. An undefined figure is NaN,
        and a run counts once."""
        different = {json.dumps(result, sort_keys=True): result for result in self.results}.values()
        lines = sorted(map(_line_of, different), key=_order)
        table = pd.DataFrame(lines).astype(dict.fromkeys(ALL, float))
        best = -table.groupby(ROW, sort=False)[self.main].transform("mean")
        order = np.lexsort((best, table.groupby(PANEL, sort=False).ngroup()))
        return table.iloc[order].reset_index(drop=True)

    @cached_property
    def folds(self) -> pd.DataFrame:
        """A line per figure and fold of each row: the mean over its runs."""
        lines = self.runs.melt([*ROW, "fold", "ratio", "sees"], ALL, "figure")
        groups = lines.groupby([*ROW, "figure", "fold"], sort=False, as_index=False)
        of_runs = {"value": ("value", mean_of), "runs": ("value", "count")}
        return groups.agg(**of_runs, ratio=("ratio", "first"), sees=("sees", "any"))

    @cached_property
    def rows(self) -> pd.DataFrame:
        """A line per figure of each row: mean, standard deviation and interval over the n folds that have it."""
        groups = self.folds.groupby([*ROW, "figure"], sort=False)
        return with_intervals(groups.agg(**MEANS, runs=("runs", "sum"))).reset_index()

    @cached_property
    def differences(self) -> pd.DataFrame:
        """The main figure of each row minus that of each reference: see `minus`."""
        return minus(self.folds[self.folds["figure"] == self.main], self.references)

    @cached_property
    def verdicts(self) -> dict[tuple[str, ...], str]:
        """For each panel the best of the methods that see no instance labels, and which may be as good."""
        folds = self.folds[(self.folds["figure"] == self.main) & ~self.folds["sees"]].dropna(subset="value")
        return {names: _verdict(panel) for names, panel in split(folds, PANEL)}

    @cached_property
    def choices(self) -> list[dict[str, Any]]:
        """The method to choose by validation bags in each panel."""
        validated = self.folds[(self.folds["figure"] == VALIDATION) & ~self.folds["sees"]]
        made = {names: _choice(panel) for names, panel in split(validated, PANEL)}
        return [dict(zip(PANEL, names, strict=True)) | choice for names, choice in made.items() if choice]

    @cached_property
    def main(self) -> str:
        """The figure by which methods are compared."""
        tests = [result.get("test") or {} for result in self.results]
        if all(test.get("instance_accuracy") is None for test in tests):
            return "bag_accuracy"
        skewed = any(map(metrics.is_skewed, tests)) and any("macro_f1" in test for test in tests)
        return "macro_f1" if skewed else "instance_accuracy"

    @cached_property
    def references(self) -> list[str]:
        methods = [*self.runs["method"].unique()]
        if self.reference is not None and self.reference not in methods:
            rows = "; ".join(sorted(methods))
            raise InputError(f"--reference {self.reference}: this study has no such row: give one of {rows}")
        usual = [name for name in REFERENCES if name in methods] or methods[:1]
        return usual if self.reference is None else [self.reference]


def split(table: pd.DataFrame, columns: list[str]) -> Iterator[tuple[tuple[str, ...], pd.DataFrame]]:
    """The lines of each group, in their order."""
    for names, part in table.groupby(columns, sort=False):
        yield cast("tuple[str, ...]", names), part


def records(table: pd.DataFrame) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", table.to_dict("records"))


def minus(folds: pd.DataFrame, references: Sequence[str]) -> pd.DataFrame:
    """A figure of each row minus that of each reference, paired by fold, with intervals and p-values.

    `p_holm` is corrected for all differences from one reference in one setting and scenario.
    """
    ours = folds.dropna(subset="value")
    theirs = ours[ours["method"].isin(references)].rename(columns={"method": "reference", "value": "other"})
    pairs = ours.merge(theirs[[*PANEL, "fold", "reference", "other"]], on=[*PANEL, "fold"])
    pairs = pairs.query("method != reference").assign(value=lambda pair: pair["value"] - pair["other"])
    groups = pairs.groupby([*ROW, "figure", "reference"], sort=False)
    table = with_intervals(groups.agg(**MEANS)).reset_index()
    return table.assign(p_holm=table.groupby([*TABLE, "reference"], sort=False)["p"].transform(holm))


def _verdict(folds: pd.DataFrame) -> str:
    """Of the methods of a panel, the best first; empty if there is one only."""
    best = folds["method"].iloc[0]
    others = minus(folds, [best])
    alike = ", ".join(others[~(others["p_holm"] < 1 - CONFIDENCE)]["method"])
    if alike:
        return f"{best} has the highest mean. The folds do not tell it apart from {alike}."
    return f"{best} is better than the others." if len(others) else ""


def with_intervals(table: pd.DataFrame) -> pd.DataFrame:
    """With the ends of the interval of Nadeau and Bengio, and the two-sided p-value of its t statistic.

    The variance of a mean over J folds is (1/J + test/train) s², not s²/J, because their training sets overlap.
    """
    from scipy.special import stdtr, stdtrit

    n, mean = table["n"], table["mean"]
    error = (1 / n.where(n > 0) + table["ratio"]) ** 0.5 * table["sd"]  # NaN for one fold
    half_width = stdtrit(n - 1, (1 + CONFIDENCE) / 2) * error
    p = 2 * stdtr(n - 1, -mean.abs() / error.where(error > 0))
    return table.assign(low=mean - half_width, high=mean + half_width, p=p).drop(columns="ratio")


def holm(p_values: pd.Series[float]) -> pd.Series[float]:
    """Each p-value corrected by Holm's method for all of them: the smallest times their number, the next times one
    less, and so on, never below an earlier one. NaN stays.

    >>> holm(pd.Series([0.01, 0.04, 0.03])).tolist()
    [0.03, 0.06, 0.06]
    """
    ranked = p_values.dropna().sort_values(kind="stable")
    corrected = (ranked * np.arange(len(ranked), 0, -1)).cummax().clip(upper=1.0)
    return corrected.reindex(p_values.index)


def _choice(panel: pd.DataFrame) -> dict[str, Any] | None:
    """Of the methods of a panel, that with the highest mean over the folds that all of them have;
    of equal ones log-mean, or else the first by name. None if no fold has two methods."""
    criteria = panel.pivot(index="fold", columns="method", values="value").dropna(axis=1, how="all").round(DIGITS)
    criteria = criteria[criteria.count(axis=1) >= 2].dropna(axis=1, how="all")
    if criteria.empty:
        return None
    means = criteria.dropna().mean().round(DIGITS)
    equal = sorted(means.index[means == means.max()], key=lambda method: (method != PREFERRED, method))
    return {"choose": ", ".join(equal[:1]), "mean": means.max(), "equal": equal[1:], "n": len(criteria.dropna())}


def _line_of(run: Result) -> dict[str, Any]:
    test, method = run.get("test") or {}, METHODS.get(run["method"])
    names = (*setting_of(run), run.get("scenario") or "", source_name(run), row_name(run))
    return dict(zip(ROW, names, strict=True)) | {
        "fold": run.get("fold", 0),
        **{figure: test.get(figure) for figure in FIGURES},
        VALIDATION: (run.get("val") or {}).get("bag_accuracy"),
        "seconds": run.get("seconds", 0.0),
        "ratio": 1 / (((run.get("data") or {}).get("folds") or FOLDS) - NOT_TRAINED_ON),  # of test to training bags
        "sees": run.get("sees_instance_labels", method is not None and method.kind.sees_instance_labels),
        "result": run,
    }


def _order(line: dict[str, Any]) -> tuple[Any, ...]:
    scenario = line["scenario"]
    place = SCENARIOS.index(scenario) if scenario in SCENARIOS else len(SCENARIOS)
    return line["recipe"], line["changed"], line["source"], place, scenario
