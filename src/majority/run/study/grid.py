"""The cells of a study: sources x scenarios x folds x seeds x methods x variants, each in its own run folder."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from ...data.device import choose_device
from ...data.scenarios import majority_range
from ...errors import InputError
from ...files import remove_leftovers, user_path
from ...io import CustomBags, is_custom_source, load, names
from ...io.benchmarks.labelled import N_FOLDS
from ...log import Log, no_log
from ...nn.methods import METHODS, sees_instance_labels
from ..cluster import LOCAL, Shard, check_on
from ..config import OPTIONS, BenchmarkBags, RunConfig, bags_class, may_have, plan_setting
from ..data import make_parts, open_source
from ..experiment import finished_result
from ..folder import has_started, read_config, run_lock
from ..plan import check_config
from ..record import CONFIG
from ..study_config import StudyConfig, StudyMachine
from ..trackers import create_trackers
from .live import show_cells
from .page import write_study
from .results import row_name, save_results, setting_of, write_request
from .workers import Cell, FinishedCell, run_cells, shard_lock

METHOD_OPTION = "option."  # before the name of a method's option that varies

Cells = Sequence[tuple[Path, Cell]]


def run_study(config: StudyConfig, machine: StudyMachine, log: Log = no_log) -> list[FinishedCell]:
    """Train every cell that is not finished and write the report; return how each cell ended, in their order.

    With a shard, only its cells are trained and no report is written, so that shards can run side by side in one
    folder or in several. Wrong names and settings are refused before any cell is trained.
    """
    out, shard = Path(machine.out), None if machine.shard is None else Shard.parse(machine.shard)
    check_on(machine.on)
    if machine.on == LOCAL:
        choose_device(machine.device)
    create_trackers(machine.log)  # raises if one cannot be used
    every_cell = _checked_cells(config, out)
    if (out / CONFIG).exists():
        raise InputError(f"{out} holds a run: choose another folder with --out")
    cells = every_cell if shard is None else shard.take(every_cell)
    for folder, cell in cells:
        result = finished_result(cell.config, folder)  # raises if the folder holds a run of other settings
        if result is not None:
            setting_of(result | {"cell": str(folder)})  # raises if its task has been edited
    _check_data(cells)
    with run_lock(out, shard_lock(shard)):
        write_request(config, [folder for folder, _ in every_cell], out)
        with show_cells(log) as watch:
            finished = run_cells(cells, out, machine.device, machine.jobs, watch, shard, machine.on, machine.log)
        _check_data(cells)
        if shard is None:
            if any(cell.result for cell in finished):
                save_results(out)
                write_study(out)
            remove_leftovers(out)
    return finished


# ---------------------------------------------------------------------- the cells


def study_cells(config: StudyConfig, out: Path) -> Iterator[tuple[Path, Cell]]:
    """Of several kinds of sources, each has the options that are for it."""
    kinds, methods = {bags_class(source) for source in config.sources}, config.methods
    methods = tuple(METHODS) if methods == ("all",) else methods
    variants = [dict(zip(config.vary, values, strict=True)) for values in product(*config.vary.values())]
    for source in config.sources:
        kind, own = bags_class(source), is_custom_source(source)
        common = {name: value for name, value in config.options.items() if len(kinds) == 1 or may_have(kind, name)}
        for place, seed, method, variant in product(_places(config, source), config.seeds, methods, variants):
            refit = False if own else None  # cells are compared by their test bags
            run = RunConfig.from_options(source, **common, **place, method=method, seed=seed, refit=refit)
            cell = Cell(_vary(run, variant), variant)
            yield out / _folder_of(cell), cell


def _places(config: StudyConfig, source: str) -> list[dict[str, Any]]:
    """The scenario and fold of each cell. Bags of your own have no scenarios, and five folds if nothing divides
    them."""
    if not is_custom_source(source):
        return [{"scenario": scenario, "fold": fold} for scenario, fold in product(config.scenarios, config.folds)]
    return [{}] if _is_divided(source) else [{"folds": N_FOLDS, "fold": fold} for fold in config.folds]


def _vary(config: RunConfig, variant: dict[str, Any]) -> RunConfig:
    """The run with other options, by name, settings, or options of the method, as in option.of."""
    changes: dict[str, Any] = {}
    for name, value in variant.items():
        if name in OPTIONS:
            changes[name] = value
        elif name.startswith(METHOD_OPTION):
            changes.setdefault("method_options", {})[name.removeprefix(METHOD_OPTION)] = value
        else:
            changes.setdefault("settings", {})[name] = value
    return config.with_options(**changes) if changes else config


@cache
def _is_divided(source: str) -> bool:
    """Whether bags of your own have a column that divides them into training, validation and test bags."""
    opened = load(source)
    return isinstance(opened, CustomBags) and opened.split is not None


def _folder_of(cell: Cell) -> Path:
    """In that of the study."""
    config, bags = cell.config, cell.config.bags
    safe = [re.sub(r"[^\w.=+-]+", "-", f"{name}={value}") for name, value in cell.varied.items()]
    seed = f"-seed{config.seed}" if config.seed else ""
    scenario = bags.scenario.replace(",", "-") if isinstance(bags, BenchmarkBags) else "bags"
    return Path(Path(bags.source).stem, scenario, config.method, *safe, f"fold{bags.fold}{seed}")


# ---------------------------------------------------------------------- checks


def _checked_cells(config: StudyConfig, out: Path) -> Cells:
    """All cells. Wrong names and settings are refused."""
    for source in set(config.sources) - set(names()):
        if not is_custom_source(source) and not user_path(source).is_file():
            load(source)  # raises with the reason
    cells = list(study_cells(config, out))
    _check_options(config)
    rows = dict.fromkeys(row_name({"method": cell.config.method, "varied": cell.varied}) for _, cell in cells)
    if config.reference is not None and config.reference not in rows:
        raise InputError(f"reference {config.reference}: this study has no such row: give one of {'; '.join(rows)}")
    for cell in {(cell.config.method, str(cell.varied)): cell for _, cell in cells}.values():
        check_config(cell.config)
    if len(dict(cells)) < len(cells):
        raise InputError(
            f"two cells would share a folder in {out}: give each source, scenario, method, fold, seed and value once, "
            "and files with different names"
        )
    for source in filter(is_custom_source, config.sources):
        first = next(cell.config for _, cell in cells if cell.config.bags.source == source)
        make_parts(first, open_source(first.bags))  # raises with every problem
    return cells


def _check_options(config: StudyConfig) -> None:
    if all(map(is_custom_source, config.sources)) and "scenarios" in config.model_fields_set:
        raise InputError(f"scenarios is not for bags of your own such as {config.sources[0]}: leave it out")
    for scenario in config.scenarios:
        majority_range(scenario, n_classes=1_000, size=1_000)  # raises if there is no such scenario
    given = {*config.options, *config.options.get("settings", {})}
    vary, fixed = ({*map(plan_setting, names)} for names in (config.vary, given))
    if vary & fixed:
        name = min(vary & fixed)
        raise InputError(f"vary {name}: {name} is also given for all runs: give it once")


def _check_data(cells: Cells) -> None:
    """Methods are compared on the same bags: the files of a source must not change between cells."""
    seen: dict[tuple[str, bool], tuple[object, Path]] = {}
    for folder, cell in cells:
        if has_started(folder):
            bags = cell.config.model_dump_json(include={"bags", "background", "instance_labels"})
            fingerprint = read_config(folder).fingerprint
            key = (bags, sees_instance_labels(cell.config.method))
            first, first_folder = seen.setdefault(key, (fingerprint, folder))
            if fingerprint != first:
                raise InputError(
                    f"{first_folder} and {folder} were trained on different data: {cell.config.bags.source} has "
                    "changed. Remove the folders with the old data and repeat the command, or choose another --out"
                )
