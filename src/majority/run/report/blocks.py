"""Pages: their templates, whose macros return pieces of a page, and numbers as text."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from math import isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import count_noun
from ...predict.metrics import FIGURES
from .colours import PALETTE, colour, text_colour

if TYPE_CHECKING:
    from jinja2 import Environment

NOTHING = "–"


class Section(NamedTuple):
    anchor: str
    name: str  # in the list of sections; empty: not in it
    title: str  # empty: no heading
    content: str


def macros(name: str) -> Any:
    """The macros of a template. Each returns markup, in which all text is escaped that is not markup itself."""
    return _environment().get_template(f"{name}.html.jinja").module


def page(kind: str, title: str, sections: Iterable[Section]) -> str:
    """A whole page about a run, a study or a review. Sections without content are left out."""
    shown = [section for section in sections if section.content]
    return fill("page.html.jinja", {"kind": kind, "title": title, "sections": shown} | script("script.js"))


def script(name: str) -> dict[str, Any]:
    """A script of this package, and its hash: a page allows no other script and no inline event handler."""
    from markupsafe import Markup

    text = (files(__package__) / name).read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return {"script": Markup(text), "script_hash": Markup(f"sha256-{digest}")}


def fill(template: str, content: Mapping[str, Any]) -> str:
    """The page made from a template. Everything that is not markup is escaped, and a missing value is an error."""
    return _environment().get_template(template).render(content)


@cache
def _environment() -> Environment:
    """Cached, because compiling the templates takes longer than filling them."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader(__package__, ""),
        autoescape=lambda name: name is None or ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    own = (count_noun, colour, text_colour, percent, signed, number, format_seconds)
    environment.filters |= {function.__name__: function for function in own}
    environment.globals |= {"n_colours": len(PALETTE), "FIGURES": FIGURES}
    return environment


# ---------------------------------------------------------------------- numbers as text


def percent(value: float | None) -> str:
    """
    >>> percent(0.1234), percent(None), percent(float("nan"))
    ('12.3 %', '–', '–')
    """
    return NOTHING if value is None or isnan(value) else f"{100 * value:.1f} %"


def signed(value: float | None, digits: int = 2) -> str:
    """
    >>> signed(1.25), signed(-0.5, 3)
    ('+1.25', '−0.500')
    """
    return NOTHING if value is None else f"{value:+.{digits}f}".replace("-", "−")


def number(value: int) -> str:
    """
    >>> number(12345)
    '12,345'
    """
    return f"{value:,}"


def format_seconds(seconds: float) -> str:
    """
    >>> format_seconds(0.07), format_seconds(75), format_seconds(7322)
    ('0.07 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 60:
        return f"{seconds:.2g} s" if seconds < 10 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
