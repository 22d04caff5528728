"""Write the tables of docs/reference/commands.md and settings.md from the program; --check: compare only.

Commands and their options are those of `majority COMMAND --help`; options of a run are the fields of RunConfig.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

from cyclopts import Parameter

from majority.cli.app import COMMANDS, Command
from majority.run.config import MACHINE, OPTIONS
from majority.run.config_errors import allowed
from majority.run.config_file import settings_page
from majority.run.options import Option

FOLDER = Path(__file__).parents[1] / "docs/reference"
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
    about = re.sub(r"(?<!\n)\n(?!\n) *", " ", inspect.getdoc(command.function) or "")
    parameters = inspect.signature(command.function, eval_str=True).parameters.values()
    rows = [_row(parameter) for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    for option in command.takes().values() if command.takes else ():
        if not command.in_file or option.name not in OPTIONS | MACHINE:
            rows.append((f"`--{option.in_command}`", allowed(option.field), default_of(option), option.about))
    table = "| Option | Takes | Default | Meaning |\n|---|---|---|---|\n"
    table += "\n".join(f"| {' | '.join(row)} |" for row in rows)
    parts = [f"## `majority {name}`", about]
    if name in EXAMPLES:
        parts.append(f"```sh\nmajority {EXAMPLES[name]}\n```")
    if rows:
        parts.append(table)
    if command.in_file:
        parts.append(
            "It also takes the [options of a run](settings.md#options-of-a-run), and `--config FILE` with any of these "
            f"options. `majority {name} --help all` prints all of them."
        )
    return "\n\n".join(parts)


def default_of(option: Option) -> str:
    return "" if option.default in (None, "", (), {}, False) else f"`{option.default}`"


def _row(parameter: inspect.Parameter) -> tuple[str, str, str, str]:
    """Of an argument or option that the function of a command names."""
    annotation, about = parameter.annotation, Parameter()
    if get_origin(annotation) is Annotated:
        annotation, *found = get_args(annotation)
        about = Parameter.combine(*(each for each in found if isinstance(each, Parameter)))
    given = about.name[0] if about.name else parameter.name.replace("_", "-")
    name = f"--{given.lstrip('-')}" if parameter.kind is parameter.KEYWORD_ONLY else given.upper()
    default = parameter.default
    shown = "" if default in (None, False, parameter.empty, ()) else f"`{default}`"
    return f"`{name}`", _type(annotation), shown, (about.help or "").replace("|", "\\|")


def _type(annotation: Any) -> str:
    kinds = [kind for kind in get_args(annotation) or (annotation,) if kind not in (type(None), Ellipsis)]
    names = {bool: "", str: "text", Path: "a path", int: "a whole number", float: "a number"}
    return " or ".join(names.get(kind, f"`{kind}`" if isinstance(kind, str) else "text") for kind in kinds)


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
