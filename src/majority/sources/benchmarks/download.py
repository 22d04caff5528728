"""Downloads with checksum and progress: a whole file under its name, or nothing."""

from __future__ import annotations

import sys
from pathlib import Path

from ...errors import InputError
from .published import PUBLISHED

TIMEOUT = 30  # seconds without a byte


def download(name: str, folder: Path) -> Path:
    """Fetch the published file of this name from its authors' address into a folder."""
    published = PUBLISHED[name]
    by_hand = f"fetch {published.url} by other means and put it, as {name}, into {folder} or the MAJORITY_DATA folder"
    try:
        import pooch
        import requests
    except ImportError:
        raise InputError(
            f"{name} is not here, and the package that downloads files is missing: pip install pooch, or {by_hand}"
        ) from None
    bar = _Bar(name)
    try:
        with bar.progress:
            path = pooch.retrieve(
                published.url,
                known_hash=f"md5:{published.md5}",
                fname=name,
                path=folder,
                downloader=pooch.HTTPDownloader(progressbar=bar, timeout=TIMEOUT),
            )
    except requests.HTTPError as error:
        cause = f"the server answered {error.response.status_code} {error.response.reason}"
    except requests.Timeout:
        cause = f"no answer within {TIMEOUT} s"
    except requests.exceptions.ChunkedEncodingError:
        cause = "the connection broke off"
    except requests.ConnectionError:
        cause = "no connection"
    except OSError as error:
        cause = str(error)
    except ValueError:
        cause = f"what arrived does not have the published md5 {published.md5}"
    else:
        return Path(path)
    raise InputError(
        f"{name} could not be downloaded from {published.url} ({cause}): try again when connected, or {by_hand}"
    )


class _Bar:
    """The few calls that pooch makes of a progress bar, drawn by rich; silent where stderr is no terminal."""

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

    @property
    def total(self) -> float | None:
        return self.progress.tasks[self._task].total

    @total.setter
    def total(self, size: int) -> None:
        self.progress.update(self._task, total=size or None)

    def update(self, size: int) -> None:
        self.progress.advance(self._task, size)

    def reset(self) -> None:
        self.progress.reset(self._task)

    def close(self) -> None:
        self.progress.stop()
