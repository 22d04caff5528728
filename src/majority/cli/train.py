"""`majority train` and `majority config`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..errors import InputError
from .app import command, tell_how_to_continue
from .arguments import Source
from .printing import log, print_folds, print_next, print_result

if TYPE_CHECKING:
    from ..run.config import Machine, RunConfig
    from ..run.options import Option

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
    from ..run.experiment import How, run_experiment, run_folds
    from ..run.trackers import create_trackers
    from ..training.distributed import is_first, join_torchrun

    machine, config = _read_options(source, options)
    folds = config.all_folds
    parts = [Path(config.bags.source).resolve().stem, getattr(config.bags, "scenario", "").replace(",", "-")]
    stem = "-".join(filter(None, [*parts, config.method]))
    out = Path(machine.out or Path("runs", stem if folds else f"{stem}-fold{config.bags.fold}"))
    with join_torchrun(machine.device):  # if it starts the command in several processes, they train together
        how = How(machine.device, log, machine.eager, create_trackers(machine.log))
        with tell_how_to_continue(out) if is_first() else nullcontext():
            results = run_folds(config, folds, out, how) if folds else [run_experiment(config, out, how)]
        if not is_first():
            return
        if folds:
            print_folds(results)
            log(f"run folders: {out}/fold0 to fold{folds[-1]}")
        else:
            print_result(results[0])
            log(f"run folder: {out}")
        print_next(out)


def _read_options(source: str | None, options: dict[str, Any]) -> tuple[Machine, RunConfig]:
    from ..run.config import MACHINE, Machine, RunConfig
    from ..run.options import checked

    if source is None:
        raise InputError(
            "there is no SOURCE: give the bags to train on, in the command or as source in its --config file"
        )
    of_machine = {name: options.pop(name) for name in MACHINE if name in options}
    return checked(Machine, of_machine), RunConfig.from_options(source, **options)


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

    from ..run.config_file import as_toml, json_schema
    from ..run.plan import check_config

    if schema:
        log(json.dumps(json_schema(of_train()), indent=2))
        return
    machine, config = _read_options(source, options)
    check_config(config)
    log(as_toml(config, machine, {"fold"} if config.all_folds else ()))
