"""Files that are either complete or absent: each is written beside its place, then moved there in one step."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from .errors import InputError

UNFINISHED = ".unfinished"
LOCK = ".lock"
FULL_DISK = {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG")}  # not every system has all three
LOCK_ATTEMPTS = 100


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary path in the same folder; its file then replaces `path` in one step."""
    with exclusive_draft(path) as draft:
        try:
            write(draft)
            os.replace(draft, path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise


@contextmanager
def exclusive_draft(path: Path) -> Iterator[Path]:
    """Yield a hidden path beside `path` to write to. Only one process at a time gets it; others get an InputError.

    The draft that a killed process left behind may still be there.
    """
    try:
        with hold_lock(path.with_name(f".{path.name}{LOCK}")):
            yield path.with_name(f".{path.name}{UNFINISHED}")
    except BlockingIOError:
        raise InputError(f"{path} is being written by another command: wait, or choose another path") from None
    except OSError as error:
        raise write_error(path, error) from None


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock file, which is removed at the end. Raise BlockingIOError at once if another process holds it.

    The lock ends with its process, so that a file left behind by a killed process does not block.
    """
    from filelock import FileLock, Timeout  # imports much that most commands do not need

    os.stat(os.path.join(path.parent, ""))  # filelock would create a missing folder
    lock = FileLock(path, blocking=False, thread_local=False)
    for _ in range(LOCK_ATTEMPTS):
        try:
            lock.acquire()
            break
        except Timeout:
            if path.exists():
                raise BlockingIOError(errno.EWOULDBLOCK, "locked by another process", str(path)) from None
            # The previous holder removed the file just before it was locked here: try again.
    else:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))  # no file can be created there
    try:
        yield
    finally:
        # Removed while the lock is held: afterwards the file could be another process's lock. Windows refuses to remove
        # an open file; there, filelock removes it on release.
        with suppress(OSError):
            path.unlink()
        lock.release()


def write_text(path: Path, text: str) -> None:
    """Write UTF-8; characters that cannot be encoded, as in file names of another encoding, become question marks."""

    def write(draft: Path) -> None:
        draft.write_text(text, encoding="utf-8", errors="replace", newline="\n")

    write_atomically(path, write)


def append(path: Path, text: str) -> None:
    """Append to a file of lines. If the process is killed, the last line may be incomplete."""
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise write_error(path, error) from None


def write_error(path: Path, error: OSError) -> InputError:
    full = error.errno in FULL_DISK
    cure = "free disk space and repeat the command" if full else "make it writable, or choose another path"
    return InputError(f"{path} cannot be written ({error.strerror or error}): {cure}")


def write_json(path: Path, content: dict) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def read_json(path: Path, cure: str = "remove it and run again") -> dict:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): {cure}") from None


def write_lines(path: Path, records: list[dict]) -> None:
    """Write a whole JSON-lines file."""
    write_text(path, "".join(json.dumps(record) + "\n" for record in records))


def append_line(path: Path, record: dict) -> None:
    append(path, json.dumps(record) + "\n")


def read_lines(path: Path) -> list[dict]:
    """Read the complete lines of a JSON-lines file; an incomplete last line is left out."""
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return [json.loads(line) for line in lines]


def flatten(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The nested content of a JSON file by dotted name.

    >>> flatten({"a": {"b": 1}, "c": None})
    {'a.b': 1, 'c': None}
    """
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
