"""Pages from templates. Everything that is not markup is escaped, and a missing value is an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from ...errors import count_noun

if TYPE_CHECKING:
    from jinja2 import Environment


@cache
def _environment(package: str) -> Environment:
    """Cached, because compiling the templates takes longer than filling them."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("majority.run.report", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["count_noun"] = count_noun
    return environment


def fill(
    template: str,
    kind: str,
    content: dict[str, Any],
    sections: Mapping[str, str],
    package: str = "majority.run.report",
    filters: Mapping[str, Callable[..., str]] | None = None,
) -> str:
    """The page made from a template of `package` or of this package, with filters by name.

    `kind` is what the page is about, `sections` are the anchors and names of its sections.
    """
    environment = _environment(package)
    environment.filters |= filters or {}
    facts = {"kind": kind, "sections": sections, "script_hash": None, "source_hash": None}
    return environment.get_template(template).render(facts | content)
