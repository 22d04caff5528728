"""`majority study`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from ..errors import InputError
from .app import command, tell_how_to_continue
from .printing import end_study, log

if TYPE_CHECKING:
    from ..run.options import Option

SOURCES_HELP = "Names from `majority list`, labelled .npz or .mat files, or bags of your own (five folds)."


def of_study() -> Mapping[str, Option]:
    from ..run.study_config import STUDY_OPTIONS

    return STUDY_OPTIONS


@command("study", of_study, in_file=True)
def study(sources: Annotated[list[str] | None, Parameter(help=SOURCES_HELP)] = None, /, **options: Any) -> None:
    """Train every method on every scenario, fold and seed, and print one table.

    If it is interrupted, repeat the command to continue.
    """
    from ..run.options import checked
    from ..run.study_config import OF_RUNS, OF_STUDY, STUDY_MACHINE, StudyConfig, StudyMachine

    if not sources:
        raise InputError("there are no sources: give one or more, in the command or in its --config file")
    of_machine = {name: options[name] for name in STUDY_MACHINE if name in options}
    of_study = {name: options[name] for name in OF_STUDY if name in options}
    of_runs = {name: options[name] for name in OF_RUNS if name in options}
    machine = checked(StudyMachine, of_machine)
    listed = [sources] if isinstance(sources, str) else sources
    config = checked(StudyConfig, of_study | {"sources": tuple(listed), "options": of_runs})
    from ..run.shards import Shard
    from ..run.study import run_study

    shard = None if machine.shard is None else Shard.parse(machine.shard)
    out = Path(machine.out)
    with tell_how_to_continue(out):
        done = run_study(config, machine, log)
    end_study(done, out, shard)
