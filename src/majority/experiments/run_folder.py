"""The run folder: config.json, metrics.jsonl, a checkpoint while training, best.safetensors, result.json."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from .. import __version__
from ..errors import InputError
from ..files import UNFINISHED, open_locked, read_json, write_error, write_json
from ..recipes.plan import flatten, plan_as_now
from ..sources import is_custom_source

SCHEMA = 2
LOCK = ".lock"
CONFIG, RESULT, CLASSIFIER = "config.json", "result.json", "best.safetensors"


@contextmanager
def run_lock(folder: Path) -> Iterator[None]:
    """Hold the folder, so that two commands never write one run, or one study."""
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = open_locked(folder / LOCK)
    except BlockingIOError:
        raise InputError(f"another command is working in {folder}: wait for it or choose another folder") from None
    except OSError as error:
        raise write_error(folder, error) from None
    with lock:
        try:
            yield
        finally:
            if not (folder / CONFIG).exists():  # refused: leave nothing behind
                (folder / LOCK).unlink(missing_ok=True)
                with suppress(OSError):  # not empty
                    for place in made:
                        place.rmdir()


def open_run(folder: Path, config: dict) -> dict | None:
    """Begin or continue a run: its result if it is finished, else None.

    Other settings are refused in a folder where training has left anything.
    """
    place = folder / CONFIG
    there = _config(folder) if place.exists() else None
    foreign = _left(folder) if there is None else [] if "schema" in there else [place]
    if foreign:
        name = foreign[0].relative_to(folder)
        raise InputError(f"{folder} holds {name} but no run: choose another folder with --out")
    if has_started(folder):
        check_same_settings(folder, there, config)
    else:
        write_json(place, {"schema": SCHEMA, **config, "environment": environment()})
    if not (folder / RESULT).exists():
        return None
    finished_file(folder, CLASSIFIER)  # refuses where it is gone
    return read_json(folder / RESULT)


def has_started(folder: Path) -> bool:
    """Whether a run is here of which training has left anything."""
    return (folder / CONFIG).exists() and bool(_left(folder))


def _left(folder: Path) -> list[Path]:
    """All files but those that are there before an epoch is finished, and what was being written at a kill."""
    of_no_run = lambda file: file.name in (LOCK, CONFIG) or file.name.endswith(UNFINISHED) or file.stat().st_size == 0
    return [entry for entry in folder.rglob("*") if entry.is_file() and not of_no_run(entry)]


def read_config(folder: Path) -> dict:
    if (folder / "fold0" / CONFIG).is_file():
        raise InputError(f"{folder} holds the runs of a cross-validation: give one of them, such as {folder / 'fold0'}")
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is no run folder (no {CONFIG}): give the --out of `majority train`")
    config = _config(folder)
    if config.get("schema") != SCHEMA:
        raise InputError(f"{folder} has schema {config.get('schema')}, this version reads {SCHEMA}: train again")
    return config


def _config(folder: Path) -> dict:
    return read_json(folder / CONFIG, f"put a whole copy in its place, or move {folder} away and train again")


def finished_file(folder: Path, name: str) -> Path:
    """A file that a run leaves at its end."""
    read_config(folder)
    if not (folder / name).is_file():
        if (folder / RESULT).is_file():  # its command alone does nothing
            cure = f"put it back, or remove {RESULT} and repeat its `majority train` command, which trains again"
            raise InputError(f"{folder} is finished, but its {name} is gone: {cure}")
        raise InputError(f"{folder} is not finished: repeat its `majority train` command, it continues where it was")
    return folder / name


def source_of(config: dict) -> str:
    """Where a run's source is now: its name, where it was, or else as it was written."""
    path = config.get("source_path")
    return path if path and Path(path).exists() else config["data"]["source"]


def is_trained_on(config: dict, source: str) -> bool:
    """Whether a run's training bags are among those of a source: all bags of one of one's own are taken."""
    same = Path(source).expanduser().resolve() == Path(source_of(config)).expanduser().resolve()
    return same and is_custom_source(source)


def environment() -> dict:
    import torch

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else platform.processor() or platform.machine()
    return {
        "majority": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": device,
        "threads": torch.get_num_threads(),
    }


def check_same_settings(folder: Path, there: dict, asked: dict) -> None:
    """Compare two configs; a difference is an error that shows it.

    A run may go on elsewhere: what follows from the machine and from --set is in its plan.
    """
    asked = json.loads(json.dumps({"schema": SCHEMA, **asked}))  # as it would read back
    there, asked = flatten(there | {"plan": plan_as_now(there.get("plan", {}))}), flatten(asked)
    one_file = there.get("source_path") == asked.get("source_path") is not None  # however it was written
    aside = ("source_path", "environment.", "images.", "task.", "settings.")
    aside += ("data.source",) if one_file else ()
    names = sorted(name for name in there.keys() | asked.keys() if not name.startswith(aside))
    changed = [name for name in names if there.get(name) != asked.get(name)]
    if changed == ["data.fingerprint"]:
        raise InputError(
            f"the data has changed since {folder} was begun: put the old files back or choose another --out"
        )
    if changed:
        changed = [name for name in changed if name != "data.fingerprint"]
        changed.sort(key=lambda name: name.startswith("plan.") and name != "plan.recipe")  # what was chosen comes first
        shown = "; ".join(f"{name} is {there.get(name)}, asked {asked.get(name)}" for name in changed[:5])
        shown += f"; and {len(changed) - 5} more" if len(changed) > 5 else ""
        raise InputError(
            f"{folder} holds another run ({shown}): repeat its settings or choose another folder with --out"
        )
