"""Make the screenshots of the documentation from the demo: report.png, map.png and audit-page.png with Chromium, and
train.svg, a terminal.

python scripts/screenshots.py        takes about two minutes
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image
from rich.console import Console
from rich.text import Text

FIGURES = Path(__file__).parents[1] / "docs/figures"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
WIDTH = 100  # characters of a terminal
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1.5"]


def majority(folder: Path, words: str) -> str:
    """Run the command; return what it prints, with its colours."""
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(WIDTH)}
    command = [sys.executable, "-m", "majority", *words.split()]
    return subprocess.run(command, cwd=folder, check=True, env=environment, stdout=subprocess.PIPE, text=True).stdout


def terminal(words: str, printed: str, out: str) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(f"$ majority {words}\n{printed}"))
    drawing = re.sub(r"@font-face \{.*?\}", "", console.export_svg(title=""), flags=re.DOTALL)  # they are on a server
    (FIGURES / out).write_text(drawing)


def screenshot(page: Path, out: str, width: int, height: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.png"
        size = f"--window-size={width},{height}"
        subprocess.run([CHROMIUM, *FLAGS, size, f"--screenshot={file}", page.as_uri()], check=True, capture_output=True)
        save(file, out)


def save(file: Path, out: str) -> None:
    with Image.open(file) as image:
        image.convert("RGB").quantize(128).save(FIGURES / out, optimize=True)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        table, images = Path(name, "table"), Path(name, "images")
        for folder in (table, images):
            folder.mkdir()
            majority(folder, "demo demo")
        majority(table, "train demo/insects.csv --out run")
        majority(table, "map run demo/card.csv --out map")
        words = "train demo/images.csv --recipe quick --out run"
        terminal(words, majority(images, words), "train.svg")
        majority(images, "audit run --out audit")
        screenshot(table / "run/report.html", "report.png", 1000, 760)
        screenshot(images / "audit/label.html", "audit-page.png", 900, 620)
        save(table / "map/card1100.png", "map.png")


if __name__ == "__main__":
    main()
