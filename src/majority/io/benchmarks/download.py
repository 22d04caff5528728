"""Downloads over https with checksum, size limit and progress bar: a file is either complete or absent."""

from __future__ import annotations

import sys
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
        import requests
    except ImportError:
        raise InputError(
            f"{name} is not on this machine, and pooch, which downloads it, is missing: pip install pooch, or {by_hand}"
        ) from None
    bar = _Bar(name)
    algorithm, checksum = published.checksum
    try:
        check_address(published.url)
        with bar.progress:
            path = pooch.retrieve(
                published.url,
                known_hash=f"{algorithm}:{checksum}",
                fname=name,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT, hooks={"response": check_answer}),
            )
    except Refused as error:
        cause = str(error)
    except requests.HTTPError as error:
        answer = error.response
        cause = "no answer" if answer is None else f"the server answered {answer.status_code} {answer.reason}"
    except requests.Timeout:
        cause = f"no answer within {TIMEOUT} s"
    except requests.exceptions.ChunkedEncodingError:
        cause = "the connection was interrupted"
    except requests.ConnectionError:
        cause = "no connection"
    except OSError as error:
        cause = str(error)
    except ValueError:
        cause = f"the downloaded file does not have the published {algorithm} {checksum}"
    else:
        return Path(path)
    raise InputError(f"{name} could not be downloaded from {published.url} ({cause}): try again later, or {by_hand}")


def check_address(url: str) -> None:
    """Refuse an address of another scheme than https."""
    if urlsplit(url).scheme != SCHEME:
        raise Refused(f"{url} is not an address of {SCHEME}")


def check_answer(answer: Any, **_: object) -> None:
    """Refuse a redirection to another scheme and a file that is too large; requests calls this for every answer."""
    if answer.is_redirect:
        check_address(urljoin(answer.url, answer.headers["location"]))
    elif int(answer.headers.get("content-length", 0)) > MAX_BYTES:
        raise _too_large()


def _too_large() -> Refused:
    return Refused(f"the file has more than {MAX_BYTES / 1e6:,.0f} MB")


class _Bar:
    """A progress bar with the methods that pooch calls, drawn by rich; not shown if stderr is not a terminal."""

    def __init__(self, name: str):
        from rich.console import Console
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
        )
        self._task = self.progress.add_task(name, total=None)
        self._received = 0

    @property
    def total(self) -> float | None:
        return self.progress.tasks[self._task].total

    @total.setter
    def total(self, size: int) -> None:
        self.progress.update(self._task, total=size or None)

    def update(self, size: int) -> None:
        self._received += size
        if self._received > MAX_BYTES:  # a server need not say the size beforehand
            raise _too_large()
        self.progress.advance(self._task, size)

    def reset(self) -> None:
        self._received = 0
        self.progress.reset(self._task)

    def close(self) -> None:
        self.progress.stop()
