"""SVG elements as escaped text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from html import escape
from unicodedata import east_asian_width


def tag(name: str, *children: str, **attributes: object) -> str:
    """An element. Children must be markup; attributes are escaped, and `_` in their names becomes `-`.

    >>> tag("rect", x=1.5, stroke_width=2)
    '<rect x="1.5" stroke-width="2"/>'
    """
    written = "".join(f' {key.replace("_", "-")}="{_format(value)}"' for key, value in attributes.items())
    content = "".join(children)
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def text(content: object, **attributes: object) -> str:
    """A line of text.

    >>> text("a < b", x=3)
    '<text x="3">a &lt; b</text>'
    """
    return tag("text", escape(str(content)), **attributes)


def tooltip(content: object) -> str:
    """What browsers show when the pointer rests on the parent element."""
    return tag("title", escape(str(content)))


def svg(width: float, height: float, parts: Iterable[str], label: str, **attributes: object) -> str:
    """A whole drawing, as wide as its container. Screen readers read `label` aloud."""
    box = f"0 0 {_format(width)} {_format(height)}"
    return tag(
        "svg", *parts, xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img", aria_label=label, **attributes
    )


def shorten(name: str, length: int) -> str:
    """The name, cut to `length` characters.

    >>> shorten("adipose tissue", 8)
    'adipose…'
    """
    return name if len(name) <= length else name[: length - 1].rstrip() + "…"


def shorten_distinctly(names: Sequence[str], length: int) -> list[str]:
    """Each name, cut to `length` characters. Names that would become equal are cut in the middle and keep their end.

    >>> shorten_distinctly(["stroma", "adenocarcinoma lepidic", "adenocarcinoma acinar"], 14)
    ['stroma', 'aden…a lepidic', 'aden…ma acinar']
    """
    short = [shorten(name, length) for name in names]
    occurrences, head = Counter(short), (length - 1) // 3
    return [
        name[:head].rstrip() + "…" + name[head + 1 - length :].lstrip() if name != cut and occurrences[cut] > 1 else cut
        for name, cut in zip(names, short, strict=True)
    ]


def text_width(names: Iterable[str], font_size: float) -> float:
    """Upper estimate of the width of the widest name: the font of the reader's browser is not known.

    >>> text_width(["vote", "count"], 10), text_width(["WWW"], 10)
    (32.5, 30.0)
    """
    return font_size * max(sum(map(_width_in_ems, name)) for name in names)


def _width_in_ems(letter: str) -> float:
    if east_asian_width(letter) in "WF" or letter in "mwMW@%…":
        return 1.0
    return 0.8 if letter.isupper() else 0.65


def _format(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return escape(str(value))
