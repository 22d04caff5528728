"""The run folder: config.json, metrics.jsonl, a checkpoint during training, best.safetensors, result.json."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from ..errors import BusyError, InputError
from ..files import UNFINISHED, hold_lock, read_json, user_path, write_error, write_json
from ..io import is_custom_source
from ..predict.classifier import CLASSIFIER, REFITTED
from ..version import __version__
from .config import OwnBags
from .record import CONFIG, RESULT, RunRecord, check_same_run, read_record, read_result

LOCK = ".lock"


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


def open_run(folder: Path, record: RunRecord) -> dict[str, Any] | None:
    """Start or continue a run: return its result if it is finished, else None.

    A folder in which a run with other settings has started is refused. Until it is finished, it may continue with or
    without a second training, on all bags: the first one is the same.
    """
    path, finished = folder / CONFIG, (folder / RESULT).exists()
    if not path.exists() or "schema_version" not in read_json(path, f"move {folder} away and train again"):
        foreign = [path] if path.exists() else _training_files(folder)
        if foreign:
            name = foreign[0].relative_to(folder)
            raise InputError(f"{folder} holds {name} but no run: choose another folder with --out")
    started = read_record(folder) if has_started(folder) else None
    if started is not None:
        continued = started if finished else started.model_copy(update={"refit": record.refit})
        check_same_run(folder, continued, record)
        record = continued
    if not finished:
        if record != started:
            write_json(path, record.as_json())
        return None
    classifier_file(folder)  # an error if it is gone
    return read_result(folder)


def has_started(folder: Path) -> bool:
    """Whether this is a run folder in which training has written something."""
    return (folder / CONFIG).exists() and bool(_training_files(folder))


def _training_files(folder: Path) -> list[Path]:
    """Files other than those that exist before the first epoch ends, and those that a kill left unfinished."""

    def is_early(path: Path) -> bool:
        return path.name == CONFIG or path.name.endswith((LOCK, UNFINISHED)) or path.stat().st_size == 0

    return [path for path in folder.rglob("*") if path.is_file() and not is_early(path)]


def fold_folders(folder: Path) -> list[Path]:
    """The runs of a cross-validation, all of them; empty if the folder holds none."""
    if not (folder / "fold0" / CONFIG).is_file():
        return []
    bags = read_record(folder / "fold0").run.bags
    expected = (bags.folds if isinstance(bags, OwnBags) else None) or 1
    folds = [folder / f"fold{number}" for number in range(expected)]
    missing = [fold.name for fold in folds if not (fold / CONFIG).is_file()]
    if missing:
        raise InputError(f"{folder} has no {missing[0]}: repeat its `majority train` command to continue")
    return folds


def first_run(folder: Path) -> Path:
    """The folder itself, or the first run of a cross-validation in it."""
    return folder / "fold0" if (folder / "fold0" / CONFIG).is_file() else folder


def read_config(folder: Path) -> RunRecord:
    if (folder / "fold0" / CONFIG).is_file():
        raise InputError(f"{folder} holds the runs of a cross-validation: give one of them, such as {folder / 'fold0'}")
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is not a run folder (no {CONFIG}): give the --out of `majority train`")
    return read_record(folder)


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
    return finished_file(folder, REFITTED) if read_config(folder).refit else first


def source_of(record: RunRecord) -> str:
    """Where a run's source is now: its name, its recorded path, or else as the user wrote it."""
    path = record.source_path
    return path if path and os.path.exists(path) else record.run.bags.source


def sources_of(folder: Path, source: str | None) -> list[str]:
    """What a file that is made of a run, and of bags of another source, must not replace."""
    return [*filter(None, [source, source_of(read_config(first_run(folder)))])]


def is_trained_on(record: RunRecord, source: str) -> bool:
    """Whether the run's training bags are among the bags of this source: of custom bags, all are read."""
    same = user_path(source).resolve() == user_path(source_of(record)).resolve()
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
