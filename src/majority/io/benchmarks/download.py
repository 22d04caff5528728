"""Downloads over https with checksum and size limit: a file is either complete or absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urljoin, urlsplit

from ...errors import InputError
from .published import PUBLISHED

TIMEOUT = 30  # seconds without data
SCHEME = "https"  # also of every address to which a server redirects
MAX_BYTES = 500_000_000  # the largest published file has 206 MB


class Refused(Exception):
    """The server's answer is not accepted."""


def download(name: str, folder: Path) -> Path:
    """Download the published file of this name from its authors' address into a folder."""
    published = PUBLISHED[name]
    by_hand = f"download {published.url} by hand and save it as {name} in {folder} or in the MAJORITY_DATA folder"
    try:
        import pooch
    except ImportError:
        raise InputError(
            f"{name} is not on this machine, and pooch, which downloads it, is missing: pip install pooch, or {by_hand}"
        ) from None
    bar = _Bar(name)
    try:
        check_address(published.url)
        with bar.progress:
            path = pooch.retrieve(
                published.url,
                known_hash=":".join(published.checksum),
                fname=name,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT, hooks={"response": check_answer}),
            )
    except (Refused, OSError, ValueError) as error:  # no connection, no such page, another checksum, a full disk
        raise InputError(
            f"{name} could not be downloaded from {published.url} ({error}): try again later, or {by_hand}"
        ) from None
    return Path(path)


def check_address(url: str) -> None:
    """Refuse an address of another scheme than https."""
    if urlsplit(url).scheme != SCHEME:
        raise Refused(f"{url} is not an address of {SCHEME}")


def check_answer(answer: Any, **_: object) -> None:
    """Refuse a redirection to another scheme; requests calls this for every answer."""
    if answer.is_redirect:
        check_address(urljoin(answer.url, answer.headers["location"]))


class _Bar:
    """A progress bar with the methods that pooch calls, drawn by rich; not shown if stderr is not a terminal."""

    def __init__(self, name: str):
        from rich.console import Console
        from rich.progress import Progress

        console = Console(stderr=True)
        self.progress = Progress(console=console, disable=not console.is_terminal)
        self.task = self.progress.add_task(name, total=None)
        self.total = 0
        self.received = 0

    def update(self, size: int) -> None:
        self.received += size
        if self.received > MAX_BYTES:
            raise Refused(f"the file has more than {MAX_BYTES / 1e6:,.0f} MB")
        self.progress.update(self.task, total=self.total or None, completed=self.received)

    def reset(self) -> None:
        self.received = 0

    def close(self) -> None:
        self.progress.stop()
