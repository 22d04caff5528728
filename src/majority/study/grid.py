"""The cells of a study: sources x scenarios x folds x methods, each in its own run folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..data.device import choose_device
from ..data.scenarios import SCENARIOS, majority_range
from ..errors import InputError
from ..experiments.data import Data
from ..experiments.experiment import Experiment
from ..experiments.run_folder import CONFIG, has_started, read_config, run_lock
from ..files import remove_leftovers, write_json
from ..log import Log, no_log
from ..methods import sees_instance_labels
from ..sources import load, names
from ..sources.benchmarks.labelled import N_FOLDS
from .live import show_cells
from .tables import write_tables
from .workers import FinishedCell, run_cells

STUDY = "study.json"


@dataclass(frozen=True)
class Study:
    sources: tuple[str, ...]
    scenarios: tuple[str, ...]
    methods: tuple[str, ...]
    folds: tuple[int, ...]
    common: Experiment  # what all cells share; its source, scenario, fold and method are replaced

    def cells(self, out: Path) -> Iterator[tuple[Path, Experiment]]:
        for source in self.sources:
            for scenario in self.scenarios:
                for fold in self.folds:
                    data = replace(self.common.data, source=source, scenario=scenario, fold=fold)
                    for method in self.methods:
                        folder = out / Path(source).stem / scenario.replace(",", "-") / method / f"fold{fold}"
                        yield folder, replace(self.common, data=data, method=method)

    def run(self, out: Path, device: str = "auto", jobs: int | None = None, log: Log = no_log) -> list[FinishedCell]:
        """Train every cell that is not finished and write the tables; return how each cell ended, in their order.

        Wrong names and settings are refused before any cell is trained.
        """
        choose_device(device)
        self._check_names()
        if (out / CONFIG).exists():
            raise InputError(f"{out} holds a run: choose another folder with --out")
        cells = list(self.cells(out))
        _check_folders(cells)
        _check_data(cells)
        with run_lock(out):
            write_json(out / STUDY, self.request())
            with show_cells(log) as watch:
                finished = run_cells(cells, out, device, jobs, watch)
            _check_data(cells)
            write_tables([cell.result for cell in finished if cell.result], out)
            remove_leftovers(out)
        return finished

    def request(self) -> dict[str, Any]:
        """The content of study.json: the grid, the recipe, and every setting that is not the default."""
        plain = Experiment(Data(self.common.data.source), self.common.method, recipe=self.common.recipe)
        settings, defaults = ({**asdict(one), **asdict(one.data)} for one in (self.common, plain))
        changes = {name: value for name, value in settings.items() if name != "data" and value != defaults[name]}
        grid = {name: list(getattr(self, name)) for name in ("sources", "scenarios", "methods", "folds")}
        return grid | {"recipe": self.common.recipe, "changes": changes}

    def _check_names(self) -> None:
        for scenario in set(self.scenarios) - set(SCENARIOS):
            majority_range(scenario, n_classes=1_000, size=1_000)
        for fold in set(self.folds) - set(range(N_FOLDS)):
            raise InputError(f"there is no fold {fold}: folds are numbered from 0 to {N_FOLDS - 1}")
        for method in self.methods:
            replace(self.common, method=method)  # raises if its options or settings are wrong
        for source in set(self.sources) - set(names()):
            if not Path(source).expanduser().is_file():
                load(source)  # raises with the reason


def join_ranges(scenarios: Sequence[str]) -> tuple[str, ...]:
    """The scenarios of a list that was split at its commas: two numbers in a row are joined to a range.

    >>> join_ranges(["small", "0.3", "0.5", "large"])
    ('small', '0.3,0.5', 'large')
    """
    return tuple(re.findall(r"[\d.]+,[\d.]+|[^,]+", ",".join(scenarios)))


def _check_folders(cells: Sequence[tuple[Path, Experiment]]) -> None:
    seen = set()
    for folder, experiment in cells:
        if folder in seen:
            raise InputError(
                f"two cells would share {folder}: give each source, scenario, method and fold once, "
                "and files with different names"
            )
        seen.add(folder)
        experiment.finished(folder)  # raises if the folder holds a run of other settings


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
