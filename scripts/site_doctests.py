"""Griffe extension: examples in docstrings become code blocks in the API reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^([ ]*)>>> .*(?:\n[ ]*\S.*)*", re.MULTILINE)  # up to an empty line


class FencedDoctests(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(r"\1```pycon\n\g<0>\n\1```", obj.docstring.value)
