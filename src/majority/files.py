"""Files that are whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from .errors import InputError

UNFINISHED = ".unfinished"


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """`write` gets a temporary path in the same folder; its file takes the place of `path` in one step."""
    unfinished = path.with_name(f".{path.name}{UNFINISHED}")
    try:
        with open_locked(unfinished):
            try:
                write(unfinished)
                os.replace(unfinished, path)
            except BaseException:
                unfinished.unlink(missing_ok=True)
                raise
    except BlockingIOError:
        raise InputError(f"{path} is being written by another command: wait, or choose another place") from None
    except OSError as error:
        raise write_error(path, error) from None


def write_text(path: Path, text: str) -> None:
    """In UTF-8; what has no place in it, as of a file name in another encoding, becomes a question mark."""
    write_atomically(path, lambda place: place.write_text(text, encoding="utf-8", errors="replace"))


def append(path: Path, text: str) -> None:
    """At the end of a file of lines; a kill may cut the last one short."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise write_error(path, error) from None


def write_error(path: Path, error: OSError) -> InputError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    cure = "make room and repeat the command" if full else "make that place writable, or choose another"
    return InputError(f"{path} cannot be written ({error.strerror or error}): {cure}")


def open_locked(path: Path) -> BinaryIO:
    """The file, made where there is none, open and held until it is closed; BlockingIOError where another holds it."""
    while True:
        held = path.open("ab")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(held.fileno()), path.stat()):
                return held
        except FileNotFoundError:
            pass
        except OSError:
            held.close()
            raise
        held.close()  # it was removed or replaced before it was held


def write_json(path: Path, content: dict) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def read_json(path: Path, cure: str = "remove it and run again") -> dict:
    try:
        return json.loads(path.read_text())
    except ValueError as error:
        raise InputError(f"{path} is damaged ({error}): {cure}") from None


def write_lines(path: Path, records: list[dict]) -> None:
    """A JSON-lines file, all of it."""
    write_text(path, "".join(json.dumps(record) + "\n" for record in records))


def append_line(path: Path, record: dict) -> None:
    append(path, json.dumps(record) + "\n")


def read_lines(path: Path) -> list[dict]:
    """The whole lines of a JSON-lines file; a last line cut short by a kill is left out."""
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    return [json.loads(line) for line in lines]
