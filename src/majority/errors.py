"""The two kinds of errors that a user can cause or solve. Any other exception is a bug and keeps its traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class InputError(ValueError):
    """Bad input or wrong use. The message says what is wrong, where, and how to solve it."""


class BusyError(InputError):
    """Another command is writing the same file or working in the same folder."""


class TrainingError(RuntimeError):
    """Training failed, for example because the loss is not finite. Nothing invalid was saved."""


def unknown_name(kind: str, name: str, known: Iterable[str], more: str = "", option: str = "") -> InputError:
    """Return the error for a name that does not exist; `option` is the one that it was given with.

    >>> print(unknown_name("method", "vot", ["count", "vote"], ", or register your own"))
    there is no method 'vot' (did you mean vote?): use one of count, vote, or register your own
    >>> print(unknown_name("known source", "cat", ["cifar10", "svhn"], option="--like"))
    --like: there is no known source 'cat': use one of cifar10, svhn
    """
    names = list(known)
    similar = closest(name, names)
    guess = f" (did you mean {similar}?)" if similar else ""
    given = f"{option}: " if option else ""
    return InputError(f"{given}there is no {kind} {name!r}{guess}: use one of {', '.join(names)}{more}")


def closest(name: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the most similar known name, ignoring case; None if no similarity reaches the cutoff.

    >>> closest("Vot", ["count", "vote"])
    'vote'
    """
    by_lower_case = {each.lower(): each for each in known}
    similar = difflib.get_close_matches(name.lower(), by_lower_case, n=1, cutoff=cutoff)
    return by_lower_case[similar[0]] if similar else None


def count_noun(number: int, noun: str) -> str:
    """
    >>> count_noun(1, "bag"), count_noun(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
