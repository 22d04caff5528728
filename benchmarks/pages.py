"""What is made from raw files: tables and plots in results/, and the figures in tables of pages.

python benchmarks/pages.py            writes them again
python benchmarks/pages.py --check    fails if one of them is not that of its raw files
"""

from __future__ import annotations

import argparse
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import paper_tables
import paper_values
from helpers import read_raw
from page_figures import PAGES

from majority.run.study import tables
from majority.run.study.figures import StudyFigures

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "results"


def made_from_raw_files(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Write every such file into the folder; yield it, and where it belongs."""
    out = folder / "paper"
    shutil.copytree(RESULTS / "paper", out, ignore=shutil.ignore_patterns("*.md", "*.csv", "*.svg"))
    paper_tables.write_overestimation(out / "paper-1500-epochs.jsonl")
    paper_values.write_tables(out)
    yield from ((file, RESULTS / "paper" / file.name) for file in out.iterdir() if file.suffix != ".jsonl")
    figures = StudyFigures(read_raw(RESULTS / "digits/results.jsonl"))
    text = tables.markdown(tables.all_tables(figures), [])
    (folder / "digits.md").write_text("# Every method but additive-transmil on digits\n\n" + text)
    yield folder / "digits.md", RESULTS / "digits/tables.md"


def with_figures(text: str, head: str, rows: list[list[str | None]]) -> str:
    """The page with these figures in the last columns of a table.

    The head is the start of the table's first line, and after # the number of the table, if several start like this.
    Links and bold letters around a figure stay.
    """
    head, _, number = head.partition("#")
    starts = [found.start() for found in re.finditer(rf"^{re.escape(head)}", text, re.MULTILINE)]
    start = starts[int(number or 0)]
    end = text.find("\n\n", start)
    end = len(text) if end == -1 else end
    title, rule, *lines = text[start:end].rstrip("\n").split("\n")
    for i, (line, row) in enumerate(zip(lines, rows, strict=True)):
        cells = line.split(" | ")
        for place, figure in enumerate(row, start=len(cells) - len(row)):
            if figure is not None:
                around = re.fullmatch(r"(\[?(?:\*\*)?)(.*?)((?:\*\*)?(?:\]\(.*\))?(?: \|)?)", cells[place])
                cells[place] = around[1] + figure + around[3]
        lines[i] = " | ".join(cells)
    return text[:start] + "\n".join([title, rule, *lines]) + text[end:]


def pages() -> Iterator[tuple[Path, str]]:
    """Every page with tables from raw files, and its text with their figures."""
    for name, of_page in PAGES.items():
        text = (ROOT / name).read_text()
        for head, rows in of_page():
            text = with_figures(text, head, rows)
        yield ROOT / name, text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for made, place in made_from_raw_files(Path(folder)):
            if options.check and (not place.exists() or made.read_text() != place.read_text()):
                raise SystemExit(f"{place.relative_to(ROOT)} is not that of its raw files: run benchmarks/pages.py")
            if not options.check:
                shutil.copy(made, place)
    for place, text in pages():
        if options.check and text != place.read_text():
            changed = (a for a, b in zip(text.splitlines(), place.read_text().splitlines(), strict=True) if a != b)
            raise SystemExit(f"{place.relative_to(ROOT)}: a table is not that of its raw files: {next(changed)}")
        if not options.check:
            place.write_text(text)


if __name__ == "__main__":
    main()
