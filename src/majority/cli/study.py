"""`majority study`."""

from __future__ import annotations

from typing import Any

from ..errors import InputError
from .app import ConfigFile, command, tell_how_to_continue
from .printing import end_study, log


@command("study", "study_config.STUDY_OPTIONS")
def study(sources: list[str] | None = None, /, *, config: ConfigFile = None, **options: Any) -> None:
    """Train every method on every scenario, fold and seed, and print one table.

    If it is interrupted, repeat the command to continue.

    Args:
        sources: Names from `majority list`, labelled .npz or .mat files, or bags of your own (five folds).
    """
    from pathlib import Path

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
