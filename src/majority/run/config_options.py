"""Options: the fields of the parts of a configuration, by name, and what is said of them."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.fields import FieldInfo

from .config_errors import problems_of, refuse
from .config_text import IN_COMMAND

USUAL = "usual"  # marks, in Annotated, the options that --help shows first


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
    title: ClassVar[str] = ""  # of the group of options
    hidden: ClassVar[tuple[str, ...]] = ()  # fields that are no options

    def given(self) -> dict[str, Any]:
        """The fields that are not the default."""
        return self.model_dump(exclude_defaults=True)


@dataclass(frozen=True)
class Option:
    """A field, as all doors name it; two kinds of bags may have it."""

    name: str
    parts: tuple[type[Part], ...]
    field: FieldInfo

    @property
    def title(self) -> str:
        """Of its group."""
        titles = {part.title for part in self.parts}
        return "Your own bags" if len(titles) > 1 else titles.pop()

    @property
    def about(self) -> str:
        """What the parts say of it: the line below the field."""
        return " ".join(dict.fromkeys(_line(part, self.name) for part in self.parts))

    @property
    def is_usual(self) -> bool:
        return USUAL in self.field.metadata

    @property
    def default(self) -> Any:
        return None if self.field.is_required() else self.field.get_default(call_default_factory=True)

    @property
    def in_command(self) -> str:
        return IN_COMMAND.get(self.name, self.name).replace("_", "-")


def options_of(*parts: type[Part]) -> dict[str, Option]:
    """By name; the order is that of the help."""
    found: dict[str, Option] = {}
    for part in parts:
        for name, field in part.model_fields.items():
            if name in part.hidden:
                continue
            before = found.get(name)
            found[name] = Option(name, (*(before.parts if before else ()), part), _joined(before, field))
    return found


def _joined(before: Option | None, field: FieldInfo) -> FieldInfo:
    """A field that both kinds of bags have, with either type."""
    if before is None or before.field.annotation == field.annotation:
        return before.field if before else field
    merged = FieldInfo.from_annotation(before.field.rebuild_annotation() | field.rebuild_annotation())
    merged.default = None
    return merged


def _line(part: type[Part], name: str) -> str:
    lines = (_documented(each.__module__).get((each.__name__, name)) for each in part.__mro__)
    return next(filter(None, lines), "")


@cache
def _documented(module: str) -> dict[tuple[str, str], str]:
    """The line below each field of the classes of a module; read only when it is shown."""
    if not module.startswith(__package__):
        return {}
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    found = {}
    for each in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        for field, below in pairwise(each.body):
            match field, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    found[each.name, name] = " ".join(text.split())
    return found


P = TypeVar("P", bound=Part)


def checked(part: type[P], options: Mapping[str, Any]) -> P:
    """The options of one part, all wrong ones in one error."""
    try:
        return part.model_validate(options)
    except ValidationError as error:
        refuse(problems_of(error, part.model_fields))
        raise
