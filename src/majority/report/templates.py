"""Pages from templates: what is not markup is escaped, what is not given is an error."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import count_noun


def fill(template: str, content: dict, package: str = "majority.report", **filters: Callable) -> str:
    """A template of this package, or of one that builds on it, with its content; filters by the names it uses."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package, ""), PackageLoader("majority.report", "")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"count_noun": count_noun, **filters}
    return environment.get_template(template).render(content)
