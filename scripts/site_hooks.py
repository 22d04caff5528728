"""MkDocs hooks: files outside docs/ as part of the site (raw results, examples, benchmarks, CONTRIBUTING, CHANGELOG).

Pages link to them by their path in the repository, so that links also work where Markdown is read without the site.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

ROOT = Path(__file__).parents[1]
OUTSIDE = (
    "results/**/*.*",
    "examples/*.*",
    "src/majority/io/demo/insects.csv",
    "benchmarks/*.py",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")


def on_files(files: Any, config: Any) -> Any:
    """Add the files outside docs/ under their path in the repository."""
    for pattern in OUTSIDE:
        for path in sorted(ROOT.glob(pattern)):
            place = path.relative_to(ROOT).as_posix()
            files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def modules() -> str:
    """The modules of each package, and the first sentences of their docstrings."""
    lines: list[str] = []
    package = ROOT / "src/majority"
    for folder in sorted({path.parent for path in package.rglob("*.py")}):
        name = folder.relative_to(package.parent).as_posix()
        lines += ["", f"<details markdown><summary>{name}</summary>", "", "| Module | Content |", "|---|---|"]
        for path in sorted(folder.glob("*.py")):
            about = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            first = " ".join(about.split("\n\n")[0].split()).replace("|", "\\|")
            if first:
                lines.append(f"| `{path.name}` | {first} |")
        lines += ["", "</details>"]
    return "\n".join(lines)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Rewrite links between docs/ and the files outside it, from paths in the repository to paths in the site."""
    markdown = markdown.replace("<!-- modules -->", modules())
    source = page.file.src_uri
    is_outside = (ROOT / source).is_file()
    folder = posixpath.dirname(source if is_outside else f"docs/{source}")

    def rewrite(match: re.Match[str]) -> str:
        before, target, after = match.groups()
        if "://" in target or target.startswith("mailto:"):
            return match.group()
        place = posixpath.normpath(posixpath.join(folder, target)).removeprefix("docs/")
        return f"{before}{posixpath.relpath(place, posixpath.dirname(source) or '.')}{after}"

    return LINK.sub(rewrite, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Keep a mean and its deviation on one line."""
    return html.replace(" ± ", "\u00a0±\u00a0")
