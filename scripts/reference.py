"""Write the tables of docs/reference/commands.md and settings.md from the program; --check: compare only.

Commands and their options are those of `majority COMMAND --help`; options of a run are the fields of RunConfig.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from types import NoneType
from typing import get_args

from cyclopts import App
from cyclopts.argument import Argument

from majority.cli.app import COMMANDS, Command
from majority.run.config import MACHINE, OPTIONS
from majority.run.options import Option, allowed

FOLDER = Path(__file__).parents[1] / "docs/reference"
HEAD = "| Option | Takes | Default | Meaning |\n|---|---|---|---|"
BEGIN, END = "<!-- made by scripts/reference.py -->\n", "<!-- end -->\n"
EXAMPLES = {
    "demo": "demo demo",
    "check": "check demo/insects.csv",
    "train": "train demo/insects.csv --recipe quick --out run",
    "config": "config demo/insects.csv --recipe quick",
    "evaluate": "evaluate run",
    "predict": "predict run demo/card.csv --out classes.csv",
    "map": "map run demo/card.csv --out map",
    "report": "report run",
    "review": "review run --out review.csv",
    "audit": "audit run --labels 30 --out audit",
    "export": "export run --out model.onnx",
    "study": "study digits --methods count,vote --scenarios large --recipe quick --bags 20 --jobs 1 --out STUDY",
    "list": "list",
}


def commands_page() -> str:
    order = [*EXAMPLES, *sorted(set(COMMANDS) - set(EXAMPLES))]
    return "\n\n".join(_command(name, COMMANDS[name]) for name in order)


def _command(name: str, command: Command) -> str:
    app = App(default_command=command.function)
    found = app.assemble_argument_collection(parse_docstring=True)
    rows = [_row(each) for each in found if each.field_info.kind is not each.field_info.VAR_KEYWORD]
    for option in command.options().values():
        if not command.in_file or option.name not in OPTIONS | MACHINE:
            rows.append(_option(option))
    parts = [f"## `majority {name}`", command.about]
    if name in EXAMPLES:
        parts.append(f"```sh\nmajority {EXAMPLES[name]}\n```")
    if rows:
        parts.append("\n".join([HEAD, *rows]))
    if command.in_file:
        parts.append(
            "It also takes the [options of a run](settings.md#options-of-a-run). "
            f"`majority {name} --help all` prints all of them."
        )
    return "\n\n".join(parts)


def _row(argument: Argument) -> str:
    """Of an argument or option that the function of a command names."""
    kinds = [kind for kind in get_args(argument.hint) or (argument.hint,) if kind is not NoneType]
    names = {bool: "", str: "text", Path: "a path", int: "a whole number", float: "a number"}
    taken = " or ".join(names.get(kind, f"`{kind}`" if isinstance(kind, str) else "text") for kind in kinds)
    default = argument.field_info.default
    shown = "" if default in (None, False, argument.field_info.empty) else f"`{default}`"
    about = " ".join((argument.parameter.help or "").split()).replace("|", "\\|")
    return f"| `{argument.name}` | {taken} | {shown} | {about} |"


def settings_page() -> str:
    """The tables of all options of a run."""
    lines: list[str] = []
    titles = dict.fromkeys(option.title for option in (OPTIONS | MACHINE).values())
    for title in titles:
        of_title = [option for option in (OPTIONS | MACHINE).values() if option.title == title]
        lines += [f"### {title}", "", HEAD, *map(_option, of_title), ""]
    return "\n".join(lines[:-1])


def _option(option: Option) -> str:
    default = "" if option.default in (None, "", (), {}) else f"`{json.dumps(option.default)}`".replace('"', "")
    taken = re.sub(r"from (\S+) to \d+(,\d{3}){2,}", r"from \1", allowed(option.field))  # without bounds beyond use
    return f"| `--{option.in_command}` | {taken} | {default} | {option.about} |"


def main() -> None:
    wrong = []
    for name, made in {"commands": commands_page(), "settings": settings_page()}.items():
        page = FOLDER / f"{name}.md"
        text = page.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        _, after = rest.split(END)
        new = f"{before}{BEGIN}\n{made}\n\n{END}{after}"
        if "--check" not in sys.argv:
            page.write_text(new, encoding="utf-8")
        elif new != text:
            wrong.append(page.name)
    if wrong:
        sys.exit(f"{', '.join(wrong)}: not what the program says: run python scripts/reference.py")


if __name__ == "__main__":
    main()
