"""Files that are either complete or absent: each is written beside its place, then moved there in one step."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Literal, TypeVar

from .errors import BusyError, InputError, closest

UNFINISHED = ".unfinished"
LOCK = ".lock"
FULL_DISK = {getattr(errno, name, None) for name in ("ENOSPC", "EDQUOT", "EFBIG")}  # not every system has all three
LOCK_ATTEMPTS = 100
BUSY_SECONDS, BUSY_POLL = 120, 0.1  # how long to wait for another command, and between attempts
CURE = "replace it with an intact copy, or remove it and run again"
EXPANSION, LIMIT_VARIABLE = 20, "MAJORITY_MAX_GB"
FORBIDDEN = set('/\\:*?"<>|\0\n\r\t')  # in names of files, on some system
MAX_NAME = 200  # bytes
UNICODE_FORM: Literal["NFC"] = "NFC"  # accented letters have two forms in Unicode: names are compared in this one
Value = TypeVar("Value")
KINDS = {stat.S_IFIFO: "named pipe", stat.S_IFSOCK: "socket", stat.S_IFCHR: "device", stat.S_IFBLK: "device"}
MIN_SIMILARITY = 0.7  # of the name of a missing file and the name that is suggested for it


def check_regular(path: Path) -> None:
    """Refuse a file that is not regular, nor a link to one: to open a named pipe or a device may never end.

    A file that does not exist is left to the caller.
    """
    try:
        kind = stat.S_IFMT(os.stat(path).st_mode)
    except (OSError, ValueError):
        return
    if kind != stat.S_IFREG:
        found = "folder" if kind == stat.S_IFDIR else KINDS.get(kind, "special file")
        raise InputError(f"{path} is a {found}, not a file: give a regular file")


def user_path(path: str | Path) -> Path:
    """The path with ~ and ~user replaced by the folder that they stand for."""
    return Path(os.path.expanduser(path))


def missing_file(path: Path, kind: str = "file") -> InputError:
    """The error for a path that does not exist, with a similar name in its folder."""
    return InputError(f"there is no {kind} {path}{similar_file(path)}: check the path")


def similar_file(path: Path) -> str:
    """A question for the message about a file that does not exist; empty if no name in its folder is similar."""
    with suppress(OSError, ValueError):  # the folder does not exist either, or cannot be read
        if similar := closest(path.name, {*os.listdir(path.parent)} - {path.name}, MIN_SIMILARITY):
            return f" (did you mean {path.parent / similar}?)"
    return ""


def check_expansion(path: Path, size: int) -> None:
    """Refuse a file that would take this many bytes in memory, if that is far more than its own size justifies.

    A small file may claim or unpack to any size. Ask before its content is read.
    """
    given = os.environ.get(LIMIT_VARIABLE, "1")
    try:
        limit = float(given) * 1e9
    except ValueError:
        raise InputError(f"{LIMIT_VARIABLE} is {given!r}: give a number of gigabytes, such as 8") from None
    own = path.stat().st_size
    if size > max(limit, EXPANSION * own):
        found = f"would take {size / 1e9:,.1f} GB of memory and has {own / 1e6:,.1f} MB"
        raise InputError(f"{path} {found}: if that is right, set {LIMIT_VARIABLE}={size / 1e9 + 1:.0f}")


def file_names(names: Iterable[str], cure: str) -> list[str]:
    """The names in one Unicode form, if each can be the name of its own file on any system; otherwise an error."""
    found: dict[str, str] = {}  # lower case -> name: some systems do not distinguish cases
    for name in names:
        normal = unicodedata.normalize(UNICODE_FORM, name)
        if set(normal) & FORBIDDEN or normal.startswith(".") or len(os.fsencode(normal)) > MAX_NAME:
            raise InputError(f"bag {name!r} cannot be the name of a file: {cure}")
        key = normal.casefold()
        if key in found:
            raise InputError(f"bags {found[key]!r} and {name!r} would have the same file on some systems: {cure}")
        found[key] = normal
    return list(found.values())


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` with a temporary path in the same folder; its file then replaces `path` in one step."""
    check_regular(path)
    with exclusive_draft(path) as draft:
        check_regular(draft)  # another program may have put it there
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
        raise BusyError(f"{path} is being written by another command: wait, or choose another path") from None
    except OSError as error:
        raise write_error(path, error) from None


def remove_leftovers(folder: Path) -> None:
    """Remove the locks and drafts below the folder that killed processes left; those in use stay."""
    for lock in [path for path in folder.rglob(f"*{LOCK}") if path.name.startswith(".")]:
        with suppress(OSError, InputError), hold_lock(lock):  # a lock that can be held is removed at the end
            lock.with_name(f"{lock.name.removesuffix(LOCK)}{UNFINISHED}").unlink(missing_ok=True)


@contextmanager
def hold_lock(path: Path) -> Iterator[None]:
    """Hold a lock file, which is removed at the end. Raise BlockingIOError at once if another process holds it.

    The lock ends with its process, so that a file left behind by a killed process does not block.
    """
    from filelock import FileLock, Timeout  # imports much that most commands do not need

    os.stat(os.path.join(path.parent, ""))  # filelock would create a missing folder
    check_regular(path)
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
    write_atomically(path, lambda draft: draft.write_text(text, encoding="utf-8", errors="replace", newline="\n"))


def write_error(path: Path, error: OSError) -> InputError:
    full = error.errno in FULL_DISK
    cure = "free disk space and repeat the command" if full else "make it writable, or choose another path"
    return InputError(f"{path} cannot be written ({error.strerror or error}): {cure}")


def cache_folder() -> Path:
    """The folder of this user for downloaded files and decoded images."""
    import pooch

    return Path(pooch.os_cache("majority")).expanduser()


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_shared_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON file that several commands may write at the same time, all with the same content."""
    text = json.dumps(content, indent=2) + "\n"
    with suppress(OSError, ValueError):
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            return
    retry_while_busy(lambda: write_text(path, text))


def retry_while_busy(action: Callable[[], Value], seconds: float = BUSY_SECONDS) -> Value:
    """Call a function until no other command holds what it writes; after this many seconds, raise its BusyError."""
    end = time.monotonic() + seconds
    while True:
        try:
            return action()
        except BusyError:
            if time.monotonic() > end:
                raise
            time.sleep(BUSY_POLL)


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Write a whole JSON-lines file."""
    write_text(path, "".join(json.dumps(record) + "\n" for record in records))


def append(path: Path, text: str) -> None:
    """Append to a file of lines. If the process is killed, the last line may be incomplete."""
    check_regular(path)
    try:
        with path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)
    except OSError as error:
        raise write_error(path, error) from None


def append_line(path: Path, record: Mapping[str, Any]) -> None:
    append(path, json.dumps(record) + "\n")


def read_json(path: Path, cure: str = CURE) -> dict[str, Any]:
    """The content of a JSON file; its fields are not checked."""
    return decode_json(_read_text(path, cure), path, cure)


def read_lines(path: Path, cure: str = CURE, limit: int | None = None) -> list[dict[str, Any]]:
    """Read the complete lines of a JSON-lines file, the first `limit` of them; an incomplete last line is left out."""
    if not path.exists():
        return []
    lines = _read_text(path, cure).split("\n")[:-1][:limit]
    return [decode_json(line, f"{path}, line {number}", cure) for number, line in enumerate(lines, start=1)]


def decode_json(text: str, name: str | Path, cure: str = CURE) -> dict[str, Any]:
    """The dict that a JSON text is, which is called `name` in messages."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{name} is damaged ({error}): {cure}") from None
    if not isinstance(content, dict):
        raise InputError(f"{name} is damaged (it holds no named fields): {cure}")
    return content


def _read_text(path: Path, cure: str) -> str:
    check_regular(path)
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}): {cure}") from None
    except ValueError:
        raise InputError(f"{path} is damaged (it is not UTF-8 text): {cure}") from None


def flatten(content: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """The nested content of a JSON file by dotted name.

    >>> flatten({"a": {"b": 1}, "c": None})
    {'a.b': 1, 'c': None}
    """
    flat: dict[str, Any] = {}
    for key, value in content.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat
