"""The paper's tables from a study's results, each figure beside the printed one, and paired differences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from ..inference.metrics import coverage_note
from ..methods import METHODS
from .printed import SETS, STAND_INS, printed_accuracy, printed_consistency, printed_set
from .results import Setting
from .statistics import by_fold, paired_difference, share_tested, spread
from .tables import Key, grouped

AVERAGE = "average"
CRITERION = "bag_accuracy_by_count"  # of validation bags: what methods are chosen by
REFERENCES = ("count", "log-mean")
TEMPERATURES = {"0.1": ("count", "count-only"), "1": ("soft-count", "log-mean")}  # by T1: T2 = 0.1, no T2
SCENARIOS = ("small", "various", "large")


@dataclass(frozen=True)
class Figure:
    """One entry of a table."""

    source: str
    method: str
    mean: float | None = None
    sd: float | None = None
    n: int = 0  # folds; of an average, the fewest of its sets
    runs: int = 0
    printed: float | None = None
    held: int | None = None  # of the four sets, in an average
    alike: bool = True  # whether the printed figure is of the same sets

    low = high = None  # of the interval of a difference

    @property
    def difference(self) -> float | None:
        return None if self.mean is None or self.printed is None or not self.alike else self.mean - self.printed

    @property
    def measured(self) -> str:
        if self.mean is None:
            return "-"
        sd = "" if self.sd is None else f" ± {self.sd:.3f}"
        return f"{self.mean:.3f}{sd} ({self._of})"

    @property
    def _of(self) -> str:
        if self.held is not None:
            return f"{self.held} of {len(SETS)} sets"
        return f"n={self.n}" if self.runs == self.n else f"n={self.n}, {self.runs} runs"

    @property
    def beside(self) -> str:
        """The printed figure, and how much higher ours is."""
        if self.printed is None:
            return ""
        difference = "" if self.difference is None else f", {signed(self.difference)}"
        return f"printed {self.printed:.3f}{difference}"


@dataclass(frozen=True)
class Gap:
    """A paired difference of instance accuracies."""

    source: str
    method: str
    mean: float | None = None
    sd: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0

    beside, printed, difference, held = "", None, None, None  # what a figure has

    @property
    def measured(self) -> str:
        if self.mean is None:
            return "-"
        interval = "" if self.low is None else f" [{signed(self.low)}, {signed(self.high)}]"
        return f"{signed(self.mean)}{interval} (n={self.n})"


@dataclass(frozen=True)
class Table:
    name: str
    setting: Setting
    scenario: str | None
    heads: tuple[str, ...]  # of the columns that name a row
    columns: tuple[str, ...]
    rows: tuple[tuple[tuple[str, ...], tuple[Figure | Gap, ...]], ...]

    @property
    def title(self) -> str:
        return f"{self.name}, {self.place}"

    @property
    def place(self) -> str:
        return ", ".join(filter(None, [self.scenario, f"recipe {self.setting}"]))

    @property
    def figures(self) -> list[Figure | Gap]:
        return [figure for _, figures in self.rows for figure in figures if figure.mean is not None]


class Comparison:
    """A study's tables, in a fixed order of settings, scenarios, sources and methods."""

    def __init__(self, results: list[dict]):
        self.groups = dict(sorted(grouped(results).items(), key=lambda group: _order(group[0])))
        self.settings = list(dict.fromkeys(key.setting for key in self.groups))
        self.sources = list(dict.fromkeys(sorted((key.source for key in self.groups), key=_order_of_source)))
        self.scenarios = list(dict.fromkeys(sorted((key.scenario for key in self.groups), key=_order_of_scenario)))
        self.methods = list(dict.fromkeys(sorted((key.method for key in self.groups), key=_order_of_method)))

    def panels(self) -> list[tuple[Setting, str | None, str]]:
        """Setting, scenario and source of everything that is shown by method."""
        return list(dict.fromkeys((key.setting, key.scenario, key.source) for key in self.groups))

    def members(self, setting: Setting, scenario: str | None, source: str) -> dict[str, list[dict]]:
        """The runs by method."""
        found = {method: self.groups.get(Key(source, scenario, method, setting)) for method in self.methods}
        return {method: runs for method, runs in found.items() if runs}

    def coverage(self) -> list[str]:
        """A note for each source and scenario of which the classes of some test instances alone are known."""
        said = []
        for setting, scenario, source in self.panels():
            runs = [run for of_method in self.members(setting, scenario, source).values() for run in of_method]
            tests = {run.get("fold", 0): run.get("test") or {} for run in runs}  # methods share them
            if note := coverage_note(*tests.values()):
                said.append(f"{' '.join(filter(None, [source, scenario]))}: {note}.")
        return list(dict.fromkeys(said))

    def accuracy(self) -> list[Table]:
        return self._by_method("Table 1: instance accuracy", self._accuracies)

    def bag_accuracy(self) -> list[Table]:
        """What test bags tell where no instance is labelled; empty where any is."""
        return [] if self.accuracy() else self._by_method("Test bag accuracy", self._of_bags)

    def consistency(self) -> list[Table]:
        return self._by_method("Table 3: consistency rate", self._rates)

    def validation(self) -> list[Table]:
        """What needs no instance label, and methods are chosen by."""
        return self._by_method("Validation bags named right by counting", self._by_count)

    def temperatures(self) -> list[Table]:
        """The counting formula's two temperatures, each with and without."""
        tables = []
        for setting, scenario, sources in self._blocks():
            names = [method for pair in TEMPERATURES.values() for method in pair]
            figures = {name: self._accuracies(setting, scenario, name, sources) for name in names}
            rows = [
                ((of_source[0].source, t1), tuple(figures[method][i] for method in pair))
                for i, of_source in enumerate(zip(*figures.values(), strict=True))
                for t1, pair in TEMPERATURES.items()
            ]
            name = "Table 2: instance accuracy by the temperatures"
            tables.append(Table(name, setting, scenario, ("source", "T1"), ("T2 = 0.1", "no T2"), tuple(rows)))
        return [table for table in tables if table.figures]

    def differences(self) -> list[Table]:
        """Of the others to each reference, fold by fold."""
        tables = []
        for reference in REFERENCES:
            for setting, scenario, sources in self._blocks():
                rows = [
                    ((method,), tuple(self._gap(setting, scenario, s, method, reference) for s in sources))
                    for method in self.methods
                    if method != reference
                ]
                rows = tuple(row for row in rows if any(gap.mean is not None for gap in row[1]))
                name = f"Instance accuracy minus that of {reference}"
                tables.append(Table(name, setting, scenario, ("method",), tuple(sources), rows))
        return [table for table in tables if table.rows]

    def tables(self) -> list[Table]:
        of_test = [*self.bag_accuracy(), *self.accuracy(), *self.temperatures(), *self.consistency()]
        return [*of_test, *self.validation(), *self.differences()]

    def _blocks(self) -> Iterable[tuple[Setting, str | None, list[str]]]:
        for setting in self.settings:
            for scenario in self.scenarios:
                here = {key.source for key in self.groups if (key.setting, key.scenario) == (setting, scenario)}
                if here:
                    yield setting, scenario, [source for source in self.sources if source in here]

    def _by_method(self, name: str, figures_of) -> list[Table]:
        tables = []
        for setting, scenario, sources in self._blocks():
            rows = [((method,), tuple(figures_of(setting, scenario, method, sources))) for method in self.methods]
            rows = tuple(row for row in rows if any(figure.mean is not None for figure in row[1]))
            averaged = any(len(figures) > len(sources) for _, figures in rows)
            columns = (*sources, *([AVERAGE] if averaged else []))
            tables.append(Table(name, setting, scenario, ("method",), columns, rows))
        return [table for table in tables if table.rows]

    def _accuracies(self, setting: Setting, scenario: str | None, method: str, sources: list[str]) -> list[Figure]:
        figures = [
            self._figure("instance_accuracy", Key(s, scenario, method, setting), printed_accuracy(method, scenario, s))
            for s in sources
        ]
        held = held_sets(figures)
        beside = [figure.printed for figure in held]
        printed = fmean(beside) if beside and None not in beside else None
        return [*figures, *_average(sources, method, held, printed, alike=True)]

    def _rates(self, setting: Setting, scenario: str | None, method: str, sources: list[str]) -> list[Figure]:
        figures = [self._figure("consistency_rate", Key(s, scenario, method, setting)) for s in sources]
        held, printed = held_sets(figures), printed_consistency(method, scenario)
        return [*figures, *_average(sources, method, held, printed, alike=len(held) == len(SETS))]

    def _of_bags(self, setting: Setting, scenario: str | None, method: str, sources: list[str]) -> list[Figure]:
        return [self._figure("bag_accuracy", Key(s, scenario, method, setting)) for s in sources]

    def _by_count(self, setting: Setting, scenario: str | None, method: str, sources: list[str]) -> list[Figure]:
        return [self._figure(CRITERION, Key(s, scenario, method, setting), part="val") for s in sources]

    def _figure(self, name: str, key: Key, printed: float | None = None, part: str = "test") -> Figure:
        runs = self.groups.get(key, [])
        found = spread([*by_fold(runs, name, part).values()])
        if found is None:
            return Figure(key.source, key.method, printed=printed)
        defined = sum((run.get(part) or {}).get(name) is not None for run in runs)
        return Figure(key.source, key.method, *found, runs=defined, printed=printed)

    def _gap(self, setting: Setting, scenario: str | None, source: str, method: str, reference: str) -> Gap:
        ours, theirs = (self.groups.get(Key(source, scenario, name, setting), []) for name in (method, reference))
        values = (by_fold(runs, "instance_accuracy") for runs in (ours, theirs))
        found = paired_difference(*values, share_tested(ours))
        return Gap(source, method, *found) if found else Gap(source, method)


def held_sets(figures: list[Figure]) -> list[Figure]:
    """One figure for each of the paper's four sets that was measured; a stand-in only where the set itself is not."""
    of_set: dict[str, Figure] = {}
    for figure in sorted(figures, key=lambda figure: figure.source in STAND_INS):
        name = printed_set(figure.source)
        if name and figure.mean is not None:
            of_set.setdefault(name, figure)
    return list(of_set.values())


def signed(value: float) -> str:
    return f"{value:+.3f}".replace("-", "−")


def _average(sources: list[str], method: str, held: list[Figure], printed: float | None, alike: bool) -> list[Figure]:
    """The column after the sources, where any of them is one of the four sets."""
    if not any(map(printed_set, sources)):
        return []
    if not held:
        return [Figure(AVERAGE, method)]
    mean, n, runs = fmean(figure.mean for figure in held), min(f.n for f in held), min(f.runs for f in held)
    return [Figure(AVERAGE, method, mean, None, n, runs, printed, len(held), alike)]


def _order(key: Key) -> tuple:
    of_names = (_order_of_scenario(key.scenario), _order_of_source(key.source), _order_of_method(key.method))
    return (key.setting, *of_names)


def _order_of_source(source: str) -> tuple:
    return (SETS.index(printed_set(source)) if printed_set(source) else len(SETS), source)


def _order_of_scenario(scenario: str | None) -> tuple:
    return (SCENARIOS.index(scenario) if scenario in SCENARIOS else len(SCENARIOS), scenario or "")


def _order_of_method(method: str) -> tuple:
    names = list(METHODS)
    return (names.index(method) if method in names else len(names), method)
