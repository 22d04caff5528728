"""What pages are made of: sections of blocks, as data. `page.html.jinja` has the markup of each kind of block.

Text is escaped unless it is `Markup`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, ClassVar

from ...errors import count_noun

if TYPE_CHECKING:
    from jinja2 import Environment

Text = str  # or Markup, which is one
NOTHING = "–"


@dataclass(frozen=True)
class Block:
    kind: ClassVar[str]


@dataclass(frozen=True)
class Lead(Block):
    """The sentences that a reader should not miss."""

    kind: ClassVar[str] = "lead"
    text: Text


@dataclass(frozen=True)
class Note(Block):
    kind: ClassVar[str] = "note"
    text: Text
    warning: bool = False


@dataclass(frozen=True)
class Heading(Block):
    kind: ClassVar[str] = "heading"
    text: Text


@dataclass(frozen=True)
class Command(Block):
    kind: ClassVar[str] = "command"
    text: Text


@dataclass(frozen=True)
class Card:
    title: str
    value: str
    about: str
    interval: str = ""


@dataclass(frozen=True)
class Cards(Block):
    kind: ClassVar[str] = "cards"
    cards: Sequence[Card]


@dataclass(frozen=True)
class Facts(Block):
    kind: ClassVar[str] = "facts"
    facts: Mapping[str, Text]


@dataclass(frozen=True)
class Table(Block):
    kind: ClassVar[str] = "table"
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Text]]
    names: int = 1  # columns of words; those after them are numbers
    tall: bool = False  # it scrolls in itself


@dataclass(frozen=True)
class Drawings(Block):
    """Inline SVG, by their captions."""

    kind: ClassVar[str] = "drawings"
    title: str
    drawings: Mapping[str, str]
    look: str = "pair"  # or tiles, matrix


@dataclass(frozen=True)
class Tile:
    """What is shown of one bag, or of one class."""

    heading: Text
    body: Text
    caption: Text = ""
    descriptions: Mapping[str, Sequence[str]] = field(default_factory=dict)  # lists of images, by their titles
    data: Mapping[str, object] = field(default_factory=dict)  # that the filter reads


@dataclass(frozen=True)
class Tiles(Block):
    kind: ClassVar[str] = "tiles"
    title: str
    tiles: Sequence[Tile]
    look: str = "tiles"  # or list, wide
    tally: Text = ""  # what follows the number of bags that are shown


@dataclass(frozen=True)
class Columns(Block):
    """Blocks side by side, where there is room."""

    kind: ClassVar[str] = "columns"
    columns: Sequence[Sequence[Block]]


@dataclass(frozen=True)
class Details(Block):
    kind: ClassVar[str] = "details"
    summary: str
    blocks: Sequence[Block]
    open: bool = False


@dataclass(frozen=True)
class Filter(Block):
    """Controls that choose bags by class and, if they have labels, by whether they are right."""

    kind: ClassVar[str] = "filter"
    classes: Sequence[str]
    labelled: bool


@dataclass(frozen=True)
class Section:
    anchor: str
    name: str  # in the list of sections; empty: not in it
    title: str  # empty: no heading
    blocks: Iterable[Block]  # without any, the section is left out


def write_html(kind: str, title: str, sections: Iterable[Section], source_hash: str | None = None) -> str:
    """A whole page about a run, a study or a review. A script is in it only if it has a filter."""
    listed = [replace(section, blocks=[*section.blocks]) for section in sections]
    shown = [section for section in listed if section.blocks]
    filters = any(isinstance(block, Filter) for section in shown for block in section.blocks)
    content = {"kind": kind, "title": title, "sections": shown, "source_hash": source_hash}
    return fill("page.html.jinja", content | (script("script.js") if filters else {"script_hash": None}))


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

    loader = PackageLoader("majority.run.report", "")
    environment = Environment(
        loader=loader,
        autoescape=lambda name: name is None or ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["count_noun"] = count_noun
    return environment


def markup(text: str, *values: object) -> Text:
    """Markup with escaped values.

    >>> print(markup("<code>{}</code>", "a < b"))
    <code>a &lt; b</code>
    """
    from markupsafe import Markup

    return Markup(text).format(*values)


def joined(pieces: Iterable[Text], separator: str = "") -> Text:
    """
    >>> print(joined([markup("<b>{}</b>", 1), "<"]))
    <b>1</b>&lt;
    """
    from markupsafe import Markup

    return Markup(separator).join(pieces)


# ---------------------------------------------------------------------- numbers as text


def percent(value: float | None) -> str:
    """
    >>> percent(0.1234), percent(None)
    ('12.3 %', '–')
    """
    return NOTHING if value is None else f"{100 * value:.1f} %"


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
