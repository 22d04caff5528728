"""The tables of a study, as in the paper, and paired differences between methods."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ...errors import InputError
from ...nn.methods import METHODS
from ...predict.metrics import coverage_note
from .results import Result, Setting
from .statistics import held_out_ratio, holm, mean_by_fold, paired_difference, spread
from .tables import RowKey, group_results

CRITERION = "bag_accuracy"  # of validation bags: methods are chosen by it
DIFFERENCES = {"instance_accuracy": "Instance accuracy", CRITERION: "Bag accuracy"}
REFERENCES = ("count", "log-mean")
TEMPERATURES = {"0.1": ("count", "count-only"), "1": ("soft-count", "log-mean")}  # by T1: with T2 = 0.1, without T2
SCENARIOS = ("small", "various", "large")


@dataclass(frozen=True)
class Figure:
    """One entry of a table."""

    source: str
    method: str
    mean: float | None = None
    sd: float | None = None
    n: int = 0  # folds
    runs: int = 0

    @property
    def interval(self) -> tuple[float, float] | None:
        return None

    @property
    def measured(self) -> str:
        if self.mean is None:
            return "-"
        sd = "" if self.sd is None else f" ± {self.sd:.3f}"
        runs = "" if self.runs == self.n else f", {self.runs} runs"
        return f"{self.mean:.3f}{sd} (n={self.n}{runs})"


@dataclass(frozen=True)
class Gap:
    """A paired difference of accuracies, as an entry of a table."""

    source: str
    method: str
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    p: float | None = None
    p_holm: float | None = None  # corrected for all differences of the table

    @property
    def interval(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def measured(self) -> str:
        if self.mean is None:
            return "-"
        ends = "" if self.interval is None else f" [{', '.join(map(signed, self.interval))}]"
        p = "" if self.p_holm is None else ", p<0.001" if self.p_holm < 0.001 else f", p={self.p_holm:.3f}"
        return f"{signed(self.mean)}{ends} (n={self.n}{p})"


Row = tuple[tuple[str, ...], tuple[Figure | Gap, ...]]  # its names and its entries


@dataclass(frozen=True)
class Table:
    name: str
    setting: Setting
    scenario: str | None
    heads: tuple[str, ...]  # of the columns that name a row
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.subtitle}"

    @property
    def subtitle(self) -> str:
        return ", ".join(filter(None, [self.scenario, f"recipe {self.setting}"]))

    @property
    def figures(self) -> list[Figure | Gap]:
        return [figure for _, figures in self.rows for figure in figures if figure.mean is not None]


class Comparison:
    """The tables of a study, in a fixed order of settings, scenarios, sources and methods.

    `reference` is the method, as its row is named, that others are compared with. Without it: count and log-mean, or,
    if neither is there, the first method.
    """

    def __init__(self, results: list[Result], reference: str | None = None):
        self.groups = dict(sorted(group_results(results).items(), key=lambda group: _order(group[0])))
        self.settings = list(dict.fromkeys(key.setting for key in self.groups))
        self.sources = list(dict.fromkeys(sorted(key.source for key in self.groups)))
        self.scenarios = list(dict.fromkeys(sorted((key.scenario for key in self.groups), key=_order_of_scenario)))
        self.methods = list(dict.fromkeys(sorted((key.method for key in self.groups), key=_order_of_method)))
        if reference is not None and reference not in self.methods:
            raise InputError(
                f"--reference {reference}: this study has no such row: give one of {'; '.join(self.methods)}"
            )
        standard = tuple(method for method in REFERENCES if method in self.methods) or tuple(self.methods[:1])
        self.references = standard if reference is None else (reference,)
        has_instance_labels = any((one.get("test") or {}).get("instance_accuracy") is not None for one in results)
        self.compared = "instance_accuracy" if has_instance_labels else CRITERION  # the figure of test bags

    def panels(self) -> list[tuple[Setting, str | None, str]]:
        """Setting, scenario and source of each group of methods that are compared."""
        return list(dict.fromkeys((key.setting, key.scenario, key.source) for key in self.groups))

    def runs_by_method(self, setting: Setting, scenario: str | None, source: str) -> dict[str, list[Result]]:
        found = {method: self.groups.get(RowKey(source, scenario, method, setting)) for method in self.methods}
        return {method: runs for method, runs in found.items() if runs}

    def coverage_notes(self) -> list[str]:
        """One note per source and scenario in which only some test instances have a known class."""
        notes = []
        for setting, scenario, source in self.panels():
            runs = [run for of_method in self.runs_by_method(setting, scenario, source).values() for run in of_method]
            tests = {run.get("fold", 0): run.get("test") or {} for run in runs}  # the same for all methods
            if note := coverage_note(*tests.values()):
                notes.append(f"{' '.join(filter(None, [source, scenario]))}: {note}.")
        return list(dict.fromkeys(notes))

    def accuracy(self) -> list[Table]:
        return self._by_method("Table 1: instance accuracy", "instance_accuracy")

    def bag_accuracy(self) -> list[Table]:
        """The accuracy on test bags if no test instance has a label; empty if any has."""
        return [] if self.accuracy() else self._by_method("Test bag accuracy", CRITERION)

    def consistency(self) -> list[Table]:
        return self._by_method("Table 3: consistency rate", "consistency_rate")

    def validation(self) -> list[Table]:
        """The criterion by which methods are chosen: it needs no instance label."""
        return self._by_method("Validation bag accuracy", CRITERION, part="val")

    def temperatures(self) -> list[Table]:
        """The two temperatures of the counting formula, with and without each."""
        tables = []
        for setting, scenario, sources in self._blocks():
            names = [method for pair in TEMPERATURES.values() for method in pair]
            figures = {
                name: [self._figure("instance_accuracy", RowKey(s, scenario, name, setting)) for s in sources]
                for name in names
            }
            rows = [
                ((of_source[0].source, t1), tuple(figures[method][i] for method in pair))
                for i, of_source in enumerate(zip(*figures.values(), strict=True))
                for t1, pair in TEMPERATURES.items()
            ]
            name = "Table 2: instance accuracy by temperature"
            tables.append(Table(name, setting, scenario, ("source", "T1"), ("T2 = 0.1", "no T2"), tuple(rows)))
        return [table for table in tables if table.figures]

    def differences(self) -> list[Table]:
        """Differences from each reference method, paired by fold."""
        tables = []
        for reference in self.references:
            for setting, scenario, sources in self._blocks():
                rows: list[Row] = [
                    ((method,), tuple(self._gap(setting, scenario, s, method, reference) for s in sources))
                    for method in self.methods
                    if method != reference
                ]
                name = f"{DIFFERENCES[self.compared]} minus that of {reference}"
                tables.append(Table(name, setting, scenario, ("method",), tuple(sources), _correct(_not_empty(rows))))
        return [table for table in tables if table.rows]

    def tables(self) -> list[Table]:
        of_test = [*self.bag_accuracy(), *self.accuracy(), *self.temperatures(), *self.consistency()]
        return [*of_test, *self.validation(), *self.differences()]

    def _blocks(self) -> Iterable[tuple[Setting, str | None, list[str]]]:
        """Setting, scenario and sources of each table."""
        for setting in self.settings:
            for scenario in self.scenarios:
                found = {key.source for key in self.groups if (key.setting, key.scenario) == (setting, scenario)}
                if found:
                    yield setting, scenario, [source for source in self.sources if source in found]

    def _by_method(self, name: str, figure: str, part: str = "test") -> list[Table]:
        """One table per setting and scenario, with one row per method and one column per source."""
        tables = []
        for setting, scenario, sources in self._blocks():
            rows: list[Row] = []
            for method in self.methods:
                keys = [RowKey(source, scenario, method, setting) for source in sources]
                rows.append(((method,), tuple(self._figure(figure, key, part) for key in keys)))
            tables.append(Table(name, setting, scenario, ("method",), tuple(sources), _not_empty(rows)))
        return [table for table in tables if table.rows]

    def _figure(self, name: str, key: RowKey, part: str = "test") -> Figure:
        runs = self.groups.get(key, [])
        found = spread([*mean_by_fold(runs, name, part).values()])
        if found is None:
            return Figure(key.source, key.method)
        defined = sum((run.get(part) or {}).get(name) is not None for run in runs)
        return Figure(key.source, key.method, *found, runs=defined)

    def _gap(self, setting: Setting, scenario: str | None, source: str, method: str, reference: str) -> Gap:
        ours, theirs = (self.groups.get(RowKey(source, scenario, name, setting), []) for name in (method, reference))
        accuracies = [mean_by_fold(runs, self.compared) for runs in (ours, theirs)]
        found = paired_difference(accuracies[0], accuracies[1], held_out_ratio(ours))
        return Gap(source, method, *found) if found else Gap(source, method)


def signed(value: float) -> str:
    """
    >>> signed(0.25), signed(-0.5)
    ('+0.250', '−0.500')
    """
    return f"{value:+.3f}".replace("-", "−")


def _not_empty(rows: list[Row]) -> tuple[Row, ...]:
    return tuple(row for row in rows if any(figure.mean is not None for figure in row[1]))


def _correct(rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """The same rows of differences, with p-values corrected for all that the table has."""
    known = [gap.p for _, gaps in rows for gap in gaps if isinstance(gap, Gap) and gap.p is not None]
    corrected = iter(holm(known))

    def with_p(gap: Figure | Gap) -> Figure | Gap:
        return replace(gap, p_holm=next(corrected)) if isinstance(gap, Gap) and gap.p is not None else gap

    return tuple((names, tuple(map(with_p, gaps))) for names, gaps in rows)


def _order(key: RowKey) -> tuple[object, ...]:
    of_names = (_order_of_scenario(key.scenario), key.source, _order_of_method(key.method))
    return (key.setting, *of_names)


def _order_of_scenario(scenario: str | None) -> tuple[int, str]:
    return (SCENARIOS.index(scenario) if scenario in SCENARIOS else len(SCENARIOS), scenario or "")


def _order_of_method(method: str) -> tuple[int, str]:
    names, base = list(METHODS), method.partition(" (")[0]
    return (names.index(base) if base in names else len(names), method)
