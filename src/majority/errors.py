"""The two ways in which a person's request can fail. Everything else is a bug and keeps its traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input or wrong use: the message says what is wrong, where, and the cure."""


class TrainingError(RuntimeError):
    """Training went wrong (a loss that is not finite, log); nothing bad was saved."""


def unknown_name(kind: str, name: str, known: Iterable[str], more: str = "") -> InputError:
    """
    >>> print(no_such("method", "vot", ["count", "vote"], ", or one of your own"))
    there is no method 'vot' (did you mean vote?): take one of count, vote, or one of your own
    """
    known = list(known)
    close = closest(name, known)
    guess = f" (did you mean {close}?)" if close else ""
    return InputError(f"there is no {kind} {name!r}{guess}: take one of {', '.join(known)}{more}")


def closest(name: str, known: Iterable[str], alike: float = 0.6) -> str | None:
    """The known name that is written most alike, whatever its capitals; None where none is alike enough."""
    lower = {each.lower(): each for each in known}
    close = difflib.get_close_matches(name.lower(), lower, n=1, cutoff=alike)
    return lower[close[0]] if close else None


def count_noun(number: int, noun: str) -> str:
    """
    >>> count_noun(1, "bag"), count_noun(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
