"""The run folder: config.json, metrics.jsonl, a checkpoint during training, best.safetensors, result.json."""

from __future__ import annotations

import json
import os
import platform
import reprlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import BusyError, InputError
from ..files import UNFINISHED, flatten, hold_lock, read_json, write_error, write_json
from ..io import is_custom_source
from ..io.embedding import Embedding
from ..io.image_summary import ImageFileSummary
from ..parsing import parse_record, read_record
from ..predict.classifier import CLASSIFIER, REFITTED
from ..records import Config as ConfigRecord
from ..records import RunResult, TaskRecord
from ..version import __version__
from .data import Data

SCHEMA = 5
LOCK = ".lock"
CONFIG, RESULT = "config.json", "result.json"
SHOWN = 3  # differences between two runs, in a message
MAY_DIFFER = (
    "source_path",
    "environment.",
    "images",
    "embedding",
    "task.",
    "settings.",
    "planned_epochs",
)  # when a run continues

Config = dict[str, Any]


@contextmanager
def run_lock(folder: Path, name: str = LOCK) -> Iterator[None]:
    """Lock the folder, so that two commands never write the same run or study; or the same shard, with its own lock."""
    created = [place for place in (folder, *folder.parents) if not place.exists()]
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.callback(_remove_if_refused, folder, created)  # after the lock file is removed
            stack.enter_context(hold_lock(folder / name))
        except BlockingIOError:
            raise BusyError(f"another command is working in {folder}: wait for it or choose another folder") from None
        except OSError as error:
            raise write_error(folder, error) from None
        yield


def _remove_if_refused(folder: Path, created: list[Path]) -> None:
    """Remove the folders that were created for a run that did not start."""
    if not (folder / CONFIG).exists():
        with suppress(OSError):  # not empty
            for place in created:
                place.rmdir()


def open_run(folder: Path, config: Config, device: str = "auto") -> dict[str, Any] | None:
    """Start or continue a run: return its result if it is finished, else None.

    A folder in which a run with other settings has started is refused. Until it is finished, it may continue with or
    without a second training, on all bags: the first one is the same.
    """
    path, finished = folder / CONFIG, (folder / RESULT).exists()
    before = _read_config_file(folder) if path.exists() else None
    foreign = _training_files(folder) if before is None else [] if "schema" in before else [path]
    if foreign:
        name = foreign[0].relative_to(folder)
        raise InputError(f"{folder} holds {name} but no run: choose another folder with --out")
    if before is not None and has_started(folder):
        started = _check_config(folder, before)
        continued = started if finished else started | {"refit": config["refit"]}
        check_same_settings(folder, continued, config)
        if continued != started:
            write_json(path, continued)
    else:
        write_json(path, {"schema": SCHEMA, **config, "environment": environment(device)})
    if not finished:
        return None
    classifier_file(folder)  # an error if it is gone
    return read_result(folder)


def has_started(folder: Path) -> bool:
    """Whether this is a run folder in which training has written something."""
    return (folder / CONFIG).exists() and bool(_training_files(folder))


def _training_files(folder: Path) -> list[Path]:
    """Files other than those that exist before the first epoch ends, and those that a kill left unfinished."""
    return [path for path in folder.rglob("*") if path.is_file() and not _is_written_before_training(path)]


def _is_written_before_training(path: Path) -> bool:
    return path.name == CONFIG or path.name.endswith((LOCK, UNFINISHED)) or path.stat().st_size == 0


def fold_folders(folder: Path) -> list[Path]:
    """The runs of a cross-validation, all of them; empty if the folder holds none."""
    if not (folder / "fold0" / CONFIG).is_file():
        return []
    expected = read_config(folder / "fold0")["data"].get("folds") or 1
    folds = [folder / f"fold{number}" for number in range(expected)]
    missing = [fold.name for fold in folds if not (fold / CONFIG).is_file()]
    if missing:
        raise InputError(f"{folder} has no {missing[0]}: repeat its `majority train` command to continue")
    return folds


def first_run(folder: Path) -> Path:
    """The folder itself, or the first run of a cross-validation in it."""
    return folder / "fold0" if (folder / "fold0" / CONFIG).is_file() else folder


def read_config(folder: Path) -> Config:
    if (folder / "fold0" / CONFIG).is_file():
        raise InputError(f"{folder} holds the runs of a cross-validation: give one of them, such as {folder / 'fold0'}")
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is not a run folder (no {CONFIG}): give the --out of `majority train`")
    return _check_config(folder, _read_config_file(folder))


def read_result(folder: Path) -> dict[str, Any]:
    """The result.json of a finished run."""
    cure = f"replace it with a complete copy, or remove it and repeat the `majority train` command of {folder}"
    return dict(read_record(RunResult, folder / RESULT, cure))


def data_of(config: Config) -> Data:
    """The data that a run was trained on."""
    choices = {name: value for name, value in config["data"].items() if name != "fingerprint"}
    return parse_record(Data, choices, CONFIG, field="data")


def _read_config_file(folder: Path) -> Config:
    return read_json(folder / CONFIG, _config_cure(folder))


def _config_cure(folder: Path) -> str:
    return f"replace it with a complete copy, or move {folder} away and train again"


def _check_config(folder: Path, content: Config) -> Config:
    """The content of a config.json if it is that of a run of this version, with every field that is used."""
    if content.get("schema") != SCHEMA:
        found = f"{folder} has schema {reprlib.repr(content.get('schema'))}, this version reads schema {SCHEMA}"
        raise InputError(f"{found}: train again, in another folder")
    path, cure = folder / CONFIG, _config_cure(folder)
    config: Config = {"refit": False} | dict(parse_record(ConfigRecord, content, path, cure))
    data = dict(config["data"])
    parse_record(list[str | None], data.pop("fingerprint", None), path, cure, "data.fingerprint")
    parse_record(Data, data, path, cure, "data")
    if unknown := sorted(config["task"].keys() - TaskRecord.__annotations__.keys()):
        raise InputError(f"{path} is damaged (task.{unknown[0][:40]} is unknown): {cure}")
    if config.get("images") is not None:
        parse_record(ImageFileSummary, config["images"], path, cure, "images")
    if config.get("embedding") is not None:
        parse_record(Embedding, config["embedding"], path, cure, "embedding")
    return config


def finished_file(folder: Path, name: str) -> Path:
    """The path of a file that a finished run has."""
    read_config(folder)
    if not (folder / name).is_file():
        if (folder / RESULT).is_file():  # repeating the command alone would do nothing
            cure = f"put it back, or remove {RESULT} and repeat its `majority train` command, which trains again"
            raise InputError(f"{folder} is finished, but its {name} is gone: {cure}")
        raise InputError(f"{folder} is not finished: repeat its `majority train` command to continue")
    return folder / name


def classifier_file(folder: Path) -> Path:
    """The classifier of a finished run for bags that are not its own: trained on all of its bags, if there is one."""
    first = finished_file(folder, CLASSIFIER)
    return finished_file(folder, REFITTED) if read_config(folder)["refit"] else first


def source_of(config: Config) -> str:
    """Where a run's source is now: its name, its recorded path, or else as the user wrote it."""
    path = config.get("source_path")
    source: str = path if path and os.path.exists(path) else config["data"]["source"]
    return source


def is_trained_on(config: Config, source: str) -> bool:
    """Whether the run's training bags are among the bags of this source: of custom bags, all are read."""
    same = Path(source).expanduser().resolve() == Path(source_of(config)).expanduser().resolve()
    return same and is_custom_source(source)


def environment(device: str = "auto") -> dict[str, Any]:
    """The versions and the hardware that a command on this device uses."""
    import torch

    from ..data.device import choose_device

    chosen = choose_device(device)
    on_gpu = chosen.type == "cuda"
    return {
        "majority": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "device": torch.cuda.get_device_name(chosen) if on_gpu else platform.processor() or platform.machine(),
        "threads": torch.get_num_threads(),
    }


def check_same_settings(folder: Path, before: Config, requested: Config) -> None:
    """Compare the config of a run with the requested one; a difference is an error that names it.

    A run may continue on another machine: everything that depends on the machine or on --set is in its plan.
    """
    requested = flatten(json.loads(json.dumps({"schema": SCHEMA, **requested})))  # as it would read back
    before = flatten(before)
    same_file = before.get("source_path") == requested.get("source_path") is not None  # however the path was written
    may_differ = MAY_DIFFER + (("data.source",) if same_file else ())
    names = sorted(name for name in before.keys() | requested.keys() if not name.startswith(may_differ))
    changed = [name for name in names if before.get(name) != requested.get(name)]
    if changed == ["data.fingerprint"]:
        raise InputError(
            f"the data have changed since {folder} was started: put the old files back or choose another --out"
        )
    if changed:
        changed = [name for name in changed if name != "data.fingerprint"]
        changed.sort(key=lambda name: name.startswith("plan.") and name != "plan.recipe")  # what the user chose first
        shown = "; ".join(f"{name} is {before.get(name)}, not {requested.get(name)}" for name in changed[:SHOWN])
        shown += f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        raise InputError(f"{folder} holds another run ({shown}): choose another --out, or repeat its settings")
