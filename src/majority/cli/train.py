"""Commands that train: train, config, study."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from .app import ConfigFile, Flag, Source, command, tell_how_to_continue
from .printing import end_study, log, print_folds, print_next, print_result

if TYPE_CHECKING:
    from ..run.config import Machine, RunConfig


@command("train", "config.TRAIN")
def train(source: Source = None, /, *, config: ConfigFile = None, **options: Any) -> None:
    """Train an instance classifier from majority labels, in a run folder.

    If it is interrupted, repeat the command to continue. With `torchrun --nproc-per-node N -m majority train ...`,
    several processes train together.
    """
    from ..run.experiment import How, run_experiment, run_folds
    from ..run.trackers import create_trackers
    from ..training.distributed import is_first, join_torchrun

    machine, run = _describe(source, config, options)
    parts = [Path(run.bags.source).resolve().stem, getattr(run.bags, "scenario", "").replace(",", "-"), run.method]
    if not run.all_folds:
        parts.append(f"fold{run.bags.fold}")
    out = Path(machine.out or Path("runs", "-".join(filter(None, parts))))
    with join_torchrun(machine.device):  # if it starts the command in several processes, they train together
        how = How(machine.device, log, machine.eager, create_trackers(machine.log))
        with tell_how_to_continue(out) if is_first() else nullcontext():
            folds = run.all_folds
            results = run_folds(run, folds, out, how) if folds else [run_experiment(run, out, how)]
        if not is_first():
            return
        if folds:
            print_folds(results)
            log(f"run folders: {out}/fold0 to fold{folds[-1]}")
        else:
            print_result(results[0])
            log(f"run folder: {out}")
        print_next(out)


def _describe(source: str | None, config: Path | None, options: dict[str, Any]) -> tuple[Machine, RunConfig]:
    from ..run.config import MACHINE, Machine, RunConfig
    from ..run.options import checked
    from .options import with_file

    given = with_file(config, options)
    of_file = given.pop("source", None)
    source = source or of_file
    if not isinstance(source, str):
        raise InputError(
            'there is no SOURCE: give the bags to train on, in the command or as source = "..." in its --config file'
        )
    of_machine = {name: given.pop(name) for name in MACHINE if name in given}
    return checked(Machine, of_machine), RunConfig.from_options(source, **given)


@command("config", "config.TRAIN")
def show_config(source: Source = None, /, *, schema: Flag = False, config: ConfigFile = None, **options: Any) -> None:
    """Print the description of a run, with every option, as a file for --config; nothing is trained.

    Args:
        schema: Print the JSON schema of a --config file, for editors.
    """
    from ..run.config import as_toml, json_schema
    from ..run.plan import check_config

    if schema:
        log(json.dumps(json_schema(), indent=2))
        return
    machine, run = _describe(source, config, options)
    check_config(run)
    log(as_toml(run, machine, {"fold"} if run.all_folds else ()))


@command("study", "study_config.STUDY_OPTIONS")
def study(sources: list[str] | None = None, /, *, config: ConfigFile = None, **options: Any) -> None:
    """Train every method on every scenario, fold and seed, and write the report.

    If it is interrupted, repeat the command to continue.

    Args:
        sources: Names from `majority list`, labelled .npz or .mat files, or bags of your own (five folds).
    """
    from ..run.options import checked
    from ..run.study_config import OF_RUNS, STUDY_MACHINE, StudyConfig, StudyMachine
    from .options import with_file

    given = with_file(config, options | ({"sources": sources} if sources else {}))
    if "sources" not in given:
        raise InputError("there are no SOURCES: give one or more, in the command or as sources in its --config file")
    of_machine, of_runs = ({name: given.pop(name) for name in of if name in given} for of in (STUDY_MACHINE, OF_RUNS))
    machine = checked(StudyMachine, of_machine)
    described = checked(StudyConfig, given | {"options": of_runs})
    from ..run.study import run_study

    with tell_how_to_continue(Path(machine.out)):
        done = run_study(described, machine, log)
    end_study(done, Path(machine.out), machine.shard)
