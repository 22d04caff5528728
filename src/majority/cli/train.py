"""`majority train` and `majority config`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..errors import InputError
from .app import command, tell_how_to_continue
from .arguments import Source
from .printing import log, print_folds, print_result

if TYPE_CHECKING:
    from ..run.config import Machine, RunConfig
    from ..run.config_options import Option

SCHEMA_HELP = "Print the JSON schema of a --config file, for editors."


def of_train() -> Mapping[str, Option]:
    from ..run.config import MACHINE, OPTIONS

    return OPTIONS | MACHINE


@command("train", of_train, in_file=True)
def train(source: Source = None, /, **options: Any) -> None:
    """Train an instance classifier from majority labels, in a run folder.

    If it is interrupted, repeat the command to continue. With `torchrun --nproc-per-node N -m majority train ...`,
    several processes train together.
    """
    from ..run.config import OwnBags

    machine, config = _read_options(source, options)
    parts = [Path(config.bags.source).resolve().stem, getattr(config.bags, "scenario", "").replace(",", "-")]
    stem = "-".join(filter(None, [*parts, config.method]))
    with _joined(machine.device):
        if isinstance(config.bags, OwnBags) and config.bags.folds is not None and "fold" not in options:
            _cross_validate(config, config.bags.folds, Path(machine.out or Path("runs", stem)), machine)
            return
        _train_one(config, Path(machine.out or Path("runs", f"{stem}-fold{config.bags.fold}")), machine)


def _read_options(source: str | None, options: dict[str, Any]) -> tuple[Machine, RunConfig]:
    from ..run.config import MACHINE, Machine, RunConfig
    from ..run.config_options import checked

    if source is None:
        raise InputError(
            "there is no SOURCE: give the bags to train on, in the command or as source in its --config file"
        )
    of_machine = {name: options.pop(name) for name in MACHINE if name in options}
    return checked(Machine, of_machine), RunConfig.from_options(source, **options)


def _joined(device: str) -> Any:
    """If torchrun starts the command in several processes, they do it together."""
    from ..training.distributed import join_torchrun

    return join_torchrun(device)


def _train_one(config: RunConfig, folder: Path, machine: Machine, printed: Callable[[str], None] = log) -> None:
    from ..training.distributed import is_first

    result = _run(config, folder, machine, log, folder)
    if is_first():
        print_result(result)
        log(f"run folder: {folder}")


def _run(config: RunConfig, folder: Path, machine: Machine, log: Callable[[str], None], out: Path) -> dict[str, Any]:
    from ..run.experiment import How, run_experiment
    from ..run.trackers import create_trackers
    from ..training.distributed import is_first

    how = How(machine.device, log, machine.eager, create_trackers(machine.log))
    with tell_how_to_continue(out) if is_first() else nullcontext():
        return run_experiment(config, folder, how)


def _cross_validate(config: RunConfig, folds: int, out: Path, machine: Machine) -> None:
    """Train each fold in its own folder below `out` and print the means. A warning that folds share is printed once."""
    from ..training.distributed import is_first

    warned: set[str] = set()

    def log_once(line: str) -> None:
        if line not in warned:
            log(line)
        if line.startswith("warning: "):
            warned.add(line)

    results = [
        _run(config.with_options(fold=fold), out / f"fold{fold}", machine, log_once, out) for fold in range(folds)
    ]
    if is_first():
        print_folds(results)
        log(f"run folders: {out}/fold0 to fold{folds - 1}")


@command("config", of_train, in_file=True)
def show_config(
    source: Source = None,
    /,
    *,
    schema: Annotated[bool, Parameter(help=SCHEMA_HELP, negative="")] = False,
    **options: Any,
) -> None:
    """Print the description of a run, with every option, as a file for --config; nothing is trained."""
    import json

    from ..run.config import OwnBags
    from ..run.config_file import as_toml, json_schema
    from ..run.plan import check_config

    if schema:
        log(json.dumps(json_schema(of_train()), indent=2))
        return
    machine, config = _read_options(source, options)
    check_config(config)
    trains_all_folds = isinstance(config.bags, OwnBags) and config.bags.folds is not None and "fold" not in options
    log(as_toml(config, machine, {"fold"} if trains_all_folds else ()))
