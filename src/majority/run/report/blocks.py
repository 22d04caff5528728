"""Pages: their templates, whose macros return pieces of a page, and what they say in numbers and words."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import count_noun
from ...predict.metrics import FIGURES
from .colours import PALETTE, colour, text_colour

if TYPE_CHECKING:
    from jinja2 import Environment

NOTHING = "–"
REPORT = "report.html"


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


# ---------------------------------------------------------------------- a run in words


def corrected_labels(data: dict[str, Any]) -> str | None:
    """
    >>> corrected_labels({"labels": "work/review.csv", "corrections": {"farm01": "oats", "farm03": "rye"}})
    '2, from review.csv'
    """
    corrections = data.get("corrections")
    return f"{len(corrections):,}, from {Path(str(data.get('labels'))).name}" if corrections else None


def able(figures: Mapping[str, Any], bags: str, baseline: Mapping[str, Any] | None = None) -> str:
    """How often a classifier is right about these bags, in a sentence.

    >>> figures = {"bag_accuracy": 0.95, "bags": 40, "most_frequent_label": 0.3}
    >>> able(figures, "held-out bags")
    'This classifier is right about the label of 95.0 % of the 40 held-out bags.'
    >>> able(figures, "held-out bags", {"name": "forest", "bag_accuracy": 0.88})
    'This classifier is right about the label of 95.0 % ...; a forest that has learned the same labels: 88.0 %.'
    """
    of_bags, of_instances = figures.get("bag_accuracy"), figures.get("instance_accuracy")
    bags = f"{figures.get('labelled_bags', figures.get('bags', 0)):,} {bags}"
    if of_bags is None and of_instances is None:
        return f"The {bags} have no labels: how often this classifier is right about them is not known."
    if of_bags is None:
        return f"This classifier is right about {percent(of_instances)} of the labelled instances of the {bags}."
    instances = f"{percent(of_instances)} of the instances and " * (of_instances is not None)
    said = f"This classifier is right about {instances}the label of {percent(of_bags)} of the {bags}"
    most_frequent = figures.get("most_frequent_label", 0.0)
    if of_bags <= most_frequent:
        said += f", no more often than if it always predicted the most frequent label ({percent(most_frequent)})"
    if baseline:
        said += f"; a {baseline['name']} that has learned the same labels: {percent(baseline['bag_accuracy'])}"
    return f"{said}."
