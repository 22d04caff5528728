"""A configuration as text: the TOML that --config takes, and the JSON schema of it."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from pydantic import ConfigDict, create_model

from .config import MACHINE, OPTIONS, Machine, RunConfig
from .options import IN_COMMAND, NULL, Option


def as_toml(config: RunConfig, machine: Machine, without: Collection[str] = ()) -> str:
    """Every option of the run; those without a value, and those to be left out, are comments."""
    values = dict(machine) | config.model_dump(exclude={"bags"}) | dict(config.bags)
    lines, tables = [f"source = {_text(config.bags.source)}"], list[str]()
    title = ""
    for name, option in (OPTIONS | MACHINE).items():
        if name not in values:
            continue
        value, key = values[name], option.in_command.replace("-", "_")
        if option.title != title:
            title = option.title
            lines.append(f"\n# {title}")
        if isinstance(value, dict):
            tables.append(f"\n[{key}]")
            tables += [f"{_text(name)} = {_text(NULL if item is None else item)}" for name, item in value.items()]
        elif value in (None, ()) or name in without:
            lines.append(f"# {key}: {option.about}")
        else:
            lines.append(f"{key} = {_text(value)}")
    return "\n".join(lines + tables)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def json_schema(options: Mapping[str, Option]) -> dict[str, Any]:
    """The JSON schema of a file for --config."""
    names = {IN_COMMAND.get(name, name): option for name, option in options.items()}
    fields: dict[str, Any] = {name: (option.field.rebuild_annotation() | None, None) for name, option in names.items()}
    model = create_model("config", __config__=ConfigDict(extra="forbid"), source=(str, ...), **fields)
    schema = model.model_json_schema()
    for name, option in names.items():
        schema["properties"][name]["description"] = option.about
    return schema
