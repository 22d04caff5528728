"""Options as text: in the words of a command, and in files."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

WORDS = {"none": None, "true": True, "false": False}
NULL = "null"  # in a file, of a setting that is off: TOML has no word for it
IN_COMMAND = {"method_options": "option", "settings": "set"}  # the names of fields in commands and files


def split_names(value: object) -> object:
    """
    >>> split_names('a,"b, c"'), split_names(["d"])
    (('a', 'b, c'), ('d',))
    """
    if isinstance(value, str):
        return tuple(name.strip() for name in next(csv.reader([value], skipinitialspace=True)) if name.strip())
    return tuple(value) if isinstance(value, list) else value


def read_item(text: str) -> Any:
    """JSON, a number as Python writes it, or else text.

    >>> read_item("1e-3"), read_item(".5"), read_item("None"), read_item("muon")
    (0.001, 0.5, None, 'muon')
    """
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for read in (json.loads, float) if any(map(str.isdigit, text)) else (json.loads,):
        with suppress(ValueError, RecursionError):
            return read(text)
    return text


def plain(value: Any) -> Any:
    """Numbers of numpy, and paths, as Python's own types."""
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        return value.item()
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(plain, value)) if type(value) in (list, tuple) else value
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def as_words(options: Mapping[str, Any]) -> Iterator[str]:
    """The options as words of a command.

    >>> list(as_words({"fold": 1, "eager": True, "refit": False, "method_options": {"of": "counts"}}))
    ['--fold', '1', '--eager', '--no-refit', '--option', 'of=counts']
    """
    from ..io.custom.names import join_names

    for name, value in options.items():
        option = IN_COMMAND.get(name, name).replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        elif isinstance(value, dict):
            for key, of_key in value.items():
                yield from (f"--{option}", f"{key}={of_key if isinstance(of_key, str) else json.dumps(of_key)}")
        elif value is not None:
            yield from (f"--{option}", join_names(value) if isinstance(value, list | tuple) else str(value))
