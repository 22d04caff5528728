"""Log: how a function reports its progress to its caller, who prints it or not."""

from __future__ import annotations

from collections.abc import Callable

Log = Callable[[str], None]  # takes one line for the user


def no_log(line: str) -> None:
    pass
