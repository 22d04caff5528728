"""A configuration as text: the TOML that --config takes, and the JSON schema of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pydantic import ConfigDict, create_model

from .config import MACHINE, OPTIONS, Machine, RunConfig
from .config_errors import allowed
from .options import IN_COMMAND, NULL, Option, options_of


def as_toml(config: RunConfig, machine: Machine, without: Collection[str] = ()) -> str:
    """Every option of the run; those without a value, and those to be left out, are comments."""
    return "\n".join(_lines(config, machine, without))


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _lines(config: RunConfig, machine: Machine, without: Collection[str]) -> Iterator[str]:
    yield f"source = {_text(config.bags.source)}"
    tables: dict[str, dict[str, Any]] = {}
    title = ""
    for name, option in (OPTIONS | MACHINE).items():
        places = (config.bags, config.labels, config.short, config, machine)
        place = next((place for place in places if name in options_of(type(place))), None)
        if place is None:
            continue
        value, key = getattr(place, name), option.in_command.replace("-", "_")
        if option.title != title:
            title = option.title
            yield f"\n# {title}"
        if isinstance(value, dict):
            tables[key] = value
        elif value in (None, ()) or name in without:
            yield f"# {key}: {option.about}"
        else:
            yield f"{key} = {_text(value)}"
    for key, values in tables.items():
        yield f"\n[{key}]"
        yield from (f"{_text(name)} = {_text(NULL if value is None else value)}" for name, value in values.items())


def json_schema(options: Mapping[str, Option]) -> dict[str, Any]:
    """The JSON schema of a file for --config."""
    fields: dict[str, Any] = {"source": (str, ...)}
    for name, option in options.items():
        field = option.field
        fields[IN_COMMAND.get(name, name)] = (field.rebuild_annotation() | None, None)
    model = create_model("config", __config__=ConfigDict(extra="forbid"), **fields)
    schema = model.model_json_schema()
    for name, option in options.items():
        schema["properties"][IN_COMMAND.get(name, name)]["description"] = option.about
    return schema


def settings_page() -> str:
    """The tables of all options, for the documentation."""
    lines: list[str] = []
    title = ""
    for option in sorted((OPTIONS | MACHINE).values(), key=lambda option: list(TITLES).index(option.title)):
        if option.title != title:
            title = option.title
            lines += ["", f"### {title}", "", "| Option | Takes | Default | Meaning |", "|---|---|---|---|"]
        lines.append(_row(option))
    return "\n".join(lines[1:])


def _row(option: Option) -> str:
    field = option.field
    default = "" if option.default in (None, "", (), {}) else f"`{json.dumps(option.default)}`".replace('"', "")
    return f"| `--{option.in_command}` | {allowed(field)} | {default} | {option.about} |"


TITLES = dict.fromkeys(option.title for option in (OPTIONS | MACHINE).values())
