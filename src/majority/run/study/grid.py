"""The cells of a study: sources x scenarios x folds x methods, each in its own run folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from ...data.device import choose_device
from ...data.scenarios import SCENARIOS, majority_range
from ...errors import InputError
from ...files import remove_leftovers, write_shared_json
from ...io import CustomBags, is_custom_source, load, names
from ...io.benchmarks.labelled import N_FOLDS
from ...log import Log, no_log
from ...nn.methods import sees_instance_labels
from ..cluster import LOCAL, check_on
from ..data import Data
from ..experiment import Experiment
from ..folder import CONFIG, has_started, read_config, run_lock
from ..shards import Shard
from ..trackers import create_trackers
from .cells import FinishedCell
from .live import show_cells
from .results import row_name
from .tables import write_tables
from .workers import run_cells, shard_lock

STUDY = "study.json"


@dataclass(frozen=True)
class Study:
    sources: tuple[str, ...]
    scenarios: tuple[str, ...]
    methods: tuple[str, ...]
    folds: tuple[int, ...]
    common: Experiment  # what all cells share; its source, scenario, fold, method and seed are replaced
    seeds: tuple[int, ...] = (0,)
    vary: dict[str, tuple[Any, ...]] = field(default_factory=dict)  # by setting: the values to compare
    reference: str | None = None  # the row that others are compared with in the report
    method_options: dict[str, Any] = field(default_factory=dict)  # OPTION: of all methods; METHOD.OPTION: of one

    def cells(self, out: Path) -> Iterator[tuple[Path, Experiment]]:
        for source in self.sources:
            for data in self._data_of(source):
                for seed, method, variant in product(self.seeds, self.methods, self._variants()):
                    experiment = replace(
                        self.common,
                        data=data,
                        method=method,
                        method_options=self._options_of(method),
                        seed=seed,
                        settings=self.common.settings | variant,
                        refit=False,  # cells are compared by their test bags
                        varied=tuple(variant),
                    )
                    yield out / _place_of(experiment), experiment

    def _data_of(self, source: str) -> Iterator[Data]:
        """The bags of each scenario and fold. Bags of your own have no scenarios, and five folds if nothing divides
        them."""
        if is_custom_source(source):
            data = Data(source, data_seed=self.common.data.data_seed, folds=None if _is_divided(source) else N_FOLDS)
            for fold in self.folds if data.folds else (0,):
                yield replace(data, fold=fold)
            return
        for scenario, fold in product(self.scenarios, self.folds):
            yield replace(self.common.data, source=source, scenario=scenario, fold=fold)

    def _options_of(self, method: str) -> dict[str, Any]:
        named = [(*name.rpartition("."), value) for name, value in self.method_options.items()]
        of_all = {name: value for of, _, name, value in named if not of}
        return self.common.method_options | of_all | {name: value for of, _, name, value in named if of == method}

    def _variants(self) -> list[dict[str, Any]]:
        """Every combination of the values that vary; one without any if none does."""
        return [dict(zip(self.vary, values, strict=True)) for values in product(*self.vary.values())]

    def run(
        self,
        out: Path,
        device: str = "auto",
        jobs: int | None = None,
        log: Log = no_log,
        shard: Shard | None = None,
        on: str = LOCAL,
        trackers: Sequence[str] = (),
    ) -> list[FinishedCell]:
        """Train every cell that is not finished and write the tables; return how each cell ended, in their order.

        With a shard, only its cells are trained and no table is written, so that shards can run side by side in one
        folder or in several. Wrong names and settings are refused before any cell is trained.
        """
        check_on(on)
        if on == LOCAL:
            choose_device(device)
        create_trackers(trackers)  # raises if one cannot be used
        self._check_names()
        if (out / CONFIG).exists():
            raise InputError(f"{out} holds a run: choose another folder with --out")
        cells: Sequence[tuple[Path, Experiment]] = list(self.cells(out))
        _check_folders(cells)
        cells = cells if shard is None else shard.take(cells)
        _check_cells(cells)
        with run_lock(out, shard_lock(shard)):
            write_shared_json(out / STUDY, self.request())
            with show_cells(log) as watch:
                finished = run_cells(cells, out, device, jobs, watch, shard, on, trackers)
            _check_data(cells)
            if shard is None:
                write_tables([cell.result for cell in finished if cell.result], out)
                remove_leftovers(out)
        return finished

    def request(self) -> dict[str, Any]:
        """The content of study.json: the grid, the recipe, and every setting that is not the default."""
        plain = Experiment(Data(self.common.data.source), self.common.method, recipe=self.common.recipe)
        settings, defaults = ({**asdict(one), **asdict(one.data)} for one in (self.common, plain))
        settings["method_options"] = self.common.method_options | self.method_options
        changes = {name: value for name, value in settings.items() if name != "data" and value != defaults[name]}
        grid = {name: list(getattr(self, name)) for name in ("sources", "scenarios", "methods", "folds", "seeds")}
        vary = {name: list(values) for name, values in self.vary.items()}
        chosen = {"vary": vary, "reference": self.reference}
        return (
            grid
            | {name: value for name, value in chosen.items() if value}
            | {
                "recipe": self.common.recipe,
                "changes": changes,
            }
        )

    def _check_names(self) -> None:
        for scenario in set(self.scenarios) - set(SCENARIOS):
            majority_range(scenario, n_classes=1_000, size=1_000)
        for fold in set(self.folds) - set(range(N_FOLDS)):
            raise InputError(f"there is no fold {fold}: folds are numbered from 0 to {N_FOLDS - 1}")
        for name in self.vary.keys() & self.common.settings.keys():
            raise InputError(f"--vary {name} and --set {name} (or its short form) are the same setting: give it once")
        for name in self.method_options:
            method = name.rpartition(".")[0]
            if method and method not in self.methods:
                known = ", ".join(self.methods)
                raise InputError(f"--option {name}: this study has no method {method}: it has {known}")
        for method, variant in product(self.methods, self._variants()):
            settings, options = self.common.settings | variant, self._options_of(method)
            replace(self.common, method=method, method_options=options, settings=settings)  # raises if these are wrong
        rows = [
            row_name({"method": name, "varied": variant}) for name, variant in product(self.methods, self._variants())
        ]
        if self.reference is not None and self.reference not in rows:
            cure = f"give one of {'; '.join(rows)}, or give it to `majority report`"
            raise InputError(f"--reference {self.reference}: this study has no such row: {cure}")
        custom = [source for source in self.sources if is_custom_source(source)]
        if len(custom) == len(self.sources):
            self._refuse_benchmark_options(custom[0])
        for source in custom:
            data = next(self._data_of(source))
            data.parts(data.open())  # raises with every problem
        for source in set(self.sources) - set(names()):
            if not Path(source).expanduser().is_file():
                load(source)  # raises with the reason

    def _refuse_benchmark_options(self, source: str) -> None:
        plain = Data(self.common.data.source, data_seed=self.common.data.data_seed)
        given = [name for name, value in asdict(self.common.data).items() if value != getattr(plain, name)]
        if given:
            option = f"--{given[0].replace('_', '-')}"
            raise InputError(f"{option} makes bags from labelled sets, and {source} has its own bags: leave it out")


@cache
def _is_divided(source: str) -> bool:
    """Whether bags of your own have a column that divides them into training, validation and test bags."""
    opened = load(source)
    return isinstance(opened, CustomBags) and opened.split is not None


def _place_of(experiment: Experiment) -> Path:
    """The folder of a cell in that of the study."""
    data = experiment.data
    variant = [f"{name}={experiment.settings[name]}" for name in experiment.varied]
    safe = [re.sub(r"[^\w.=+-]+", "-", part) for part in variant]
    seed = f"-seed{experiment.seed}" if experiment.seed else ""
    scenario = (data.scenario or "bags").replace(",", "-")
    return Path(Path(data.source).stem, scenario, experiment.method, *safe, f"fold{data.fold}{seed}")


def join_ranges(scenarios: Sequence[str]) -> tuple[str, ...]:
    """The scenarios of a list that was split at its commas: two numbers in a row are joined to a range.

    >>> join_ranges(["small", "0.3", "0.5", "large"])
    ('small', '0.3,0.5', 'large')
    """
    return tuple(re.findall(r"[\d.]+,[\d.]+|[^,]+", ",".join(scenarios)))


def _check_folders(cells: Sequence[tuple[Path, Experiment]]) -> None:
    seen = set()
    for folder, _ in cells:
        if folder in seen:
            raise InputError(
                f"two cells would share {folder}: give each source, scenario, method, fold, seed and value once, "
                "and files with different names"
            )
        seen.add(folder)


def _check_cells(cells: Sequence[tuple[Path, Experiment]]) -> None:
    for folder, experiment in cells:
        experiment.finished(folder)  # raises if the folder holds a run of other settings
    _check_data(cells)


def _check_data(cells: Sequence[tuple[Path, Experiment]]) -> None:
    """Methods are compared on the same bags: the files of a source must not change between cells."""
    seen: dict[tuple[Data, bool], tuple[object, Path]] = {}
    for folder, experiment in cells:
        if has_started(folder):
            key = (experiment.data, sees_instance_labels(experiment.method))
            fingerprint = read_config(folder)["data"]["fingerprint"]
            first, first_folder = seen.setdefault(key, (fingerprint, folder))
            if fingerprint != first:
                raise InputError(
                    f"{first_folder} and {folder} were trained on different data: {experiment.data.source} has "
                    "changed. Remove the folders with the old data and repeat the command, or choose another --out"
                )
