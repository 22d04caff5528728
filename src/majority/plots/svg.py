"""SVG as escaped text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from unicodedata import east_asian_width


def tag(name: str, *children: str, **attributes) -> str:
    """An element; children are markup already, attributes are escaped and `_` in their names becomes `-`.

    >>> tag("rect", x=1.5, stroke_width=2)
    '<rect x="1.5" stroke-width="2"/>'
    """
    written = "".join(f' {key.rstrip("_").replace("_", "-")}="{_value(value)}"' for key, value in attributes.items())
    inside = "".join(children)
    return f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>"


def words(content: object, **attributes) -> str:
    return tag("text", escape(str(content)), **attributes)


def paragraph(lines: Iterable[str], x: float, step: float, **attributes) -> str:
    """Words line below line, each around or from `x`."""
    return tag("text", *(tag("tspan", escape(line), x=x, dy=step) for line in lines), **attributes)


def hint(content: object) -> str:
    """What a pointer that rests on the parent shows."""
    return tag("title", escape(str(content)))


def drawing(width: float, height: float, parts: Iterable[str], label: str, **attributes) -> str:
    """A whole figure, as wide as its place allows; `label` is read aloud instead of it."""
    box = f"0 0 {_value(width)} {_value(height)}"
    return tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img", aria_label=label, **attributes
    )


def shorten(name: str, letters: int) -> str:
    """
    >>> shortened("adipose tissue", 8)
    'adipose…'
    """
    return name if len(name) <= letters else name[: letters - 1].rstrip() + "…"


def shorten_distinctly(names: Sequence[str], letters: int) -> list[str]:
    """Each shortened; those that would read alike keep their end, where names of one kind differ.

    >>> told_apart(["stroma", "adenocarcinoma lepidic", "adenocarcinoma acinar"], 14)
    ['stroma', 'aden…a lepidic', 'aden…ma acinar']
    """
    short = [shorten(name, letters) for name in names]
    alike, head = Counter(short), (letters - 1) // 3
    return [
        name[:head].rstrip() + "…" + name[head + 1 - letters :].lstrip() if name != cut and alike[cut] > 1 else cut
        for name, cut in zip(names, short, strict=True)
    ]


def text_width(names: Iterable[str], font: float) -> float:
    """Of the widest name, rather more than less: a drawing cannot measure the face that it is shown in.

    >>> breadth(["vote", "count"], 10), breadth(["WWW"], 10)
    (32.5, 30.0)
    """
    return font * max(sum(map(_ems, name)) for name in names)


def _ems(letter: str) -> float:
    if east_asian_width(letter) in "WF" or letter in "mwMW@%…":
        return 1.0
    return 0.8 if letter.isupper() else 0.65


def wrap_lines(name: str, letters: int) -> list[str]:
    """
    >>> broken("slide_0012", 8)
    ['slide_00', '12']
    """
    return [name[start : start + letters] for start in range(0, len(name), letters)]


def _value(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value))
