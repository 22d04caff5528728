"""The cells of a study: sources x scenarios x folds x methods, each a run folder."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..data.device import choose_device
from ..data.scenarios import SCENARIOS, majority_range
from ..errors import InputError
from ..experiments.data import Data
from ..experiments.experiment import Experiment
from ..experiments.run_folder import CONFIG, has_started, read_config, run_lock
from ..files import write_json
from ..methods import METHODS
from ..sources import load, names
from ..sources.benchmarks.labelled import N_FOLDS
from .live import show_cells
from .tables import write_tables
from .workers import Done, run_cells

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
                    data: Data = replace(self.common.data, source=source, scenario=scenario, fold=fold)
                    for method in self.methods:
                        folder = out / Path(source).stem / scenario.replace(",", "-") / method / f"fold{fold}"
                        yield folder, replace(self.common, data=data, method=method)

    def run(
        self,
        out: Path,
        device: str = "auto",
        jobs: int | None = None,
        log: Callable[[str], None] = lambda line: None,
    ) -> list[Done]:
        """Train every cell that is not finished, write the tables; how every cell ended, in the order of the cells.

        What cannot be right is refused before any begins.
        """
        choose_device(device)
        self._check_names()
        if (out / CONFIG).exists():
            raise InputError(f"{out} holds a run: choose another folder with --out")
        cells = list(self.cells(out))
        _check_folders(cells)
        _check_data(cells)
        with run_lock(out):
            write_json(out / STUDY, self.asked())
            with show_cells(log) as watch:
                done = run_cells(cells, out, device, jobs, watch)
            _check_data(cells)
            write_tables([cell.result for cell in done if cell.result], out)
        return done

    def asked(self) -> dict:
        """What is written into study.json: the grid, the recipe, and every setting that is not the default."""
        plain = Experiment(Data(self.common.data.source), self.common.method, recipe=self.common.recipe)
        settings, defaults = ({**asdict(one), **asdict(one.data)} for one in (self.common, plain))
        changes = {name: value for name, value in settings.items() if name != "data" and value != defaults[name]}
        grid = {name: list(getattr(self, name)) for name in ("sources", "scenarios", "methods", "folds")}
        return grid | {"recipe": self.common.recipe, "changes": changes}

    def _check_names(self) -> None:
        for scenario in set(self.scenarios) - set(SCENARIOS):
            majority_range(scenario, n_classes=1_000, size=1_000)
        for fold in set(self.folds) - set(range(N_FOLDS)):
            raise InputError(f"there is no fold {fold}: the folds are numbered 0 to {N_FOLDS - 1}")
        for method in self.methods:
            replace(self.common, method=method)  # refuses what cannot be
        for source in set(self.sources) - set(names()):
            if not Path(source).expanduser().is_file():
                load(source)  # says what is wrong


def with_ranges(scenarios: Sequence[str]) -> tuple[str, ...]:
    """Two numbers in a row, which a comma parted, are a range again.

    >>> with_ranges(["small", "0.3", "0.5", "large"])
    ('small', '0.3,0.5', 'large')
    """
    return tuple(re.findall(r"[\d.]+,[\d.]+|[^,]+", ",".join(scenarios)))


def _check_folders(cells: Sequence[tuple[Path, Experiment]]) -> None:
    seen = set()
    for folder, experiment in cells:
        if folder in seen:
            raise InputError(
                f"two cells would share {folder}: give each source, scenario, method and fold once, "
                "and files of different names"
            )
        seen.add(folder)
        experiment.finished(folder)  # refuses the run of other settings


def _check_data(cells: Sequence[tuple[Path, Experiment]]) -> None:
    """Methods are compared on the same bags: none on files as they were, beside others on files as they are."""
    seen: dict[tuple, tuple[str, Path]] = {}
    for folder, experiment in cells:
        if has_started(folder):
            key = (experiment.data, METHODS.find(experiment.method).head.sees_instance_labels)
            fingerprint = read_config(folder)["data"]["fingerprint"]
            first, where = seen.setdefault(key, (fingerprint, folder))
            if fingerprint != first:
                raise InputError(
                    f"{where} and {folder} were trained on different data: {experiment.data.source} has changed. "
                    "Remove the folders that are of the old data and repeat the command, or take another --out"
                )
