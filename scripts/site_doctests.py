"""Griffe extension: examples in docstrings become code that can be copied, with what it prints as comments."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^([ ]*)>>> .*(?:\n[ ]*\S.*)*", re.MULTILINE)  # up to an empty line


def without_prompts(found: re.Match[str]) -> str:
    indent, lines = found[1], []
    for line in (line.removeprefix(indent) for line in found[0].splitlines()):
        is_code = line.startswith((">>> ", "... ")) or line in (">>>", "...")
        lines.append(f"{indent}{line[4:]}" if is_code else f"{indent}# {line}")
    return "\n".join([f"{indent}```python", *lines, f"{indent}```"])


class FencedDoctests(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = EXAMPLE.sub(without_prompts, obj.docstring.value)
