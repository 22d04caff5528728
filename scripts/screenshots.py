"""Make the screenshots of the documentation: report.png, map.png and audit-page.png, from the demo, with Chromium.

python scripts/screenshots.py        takes about two minutes
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

FIGURES = Path(__file__).parents[1] / "docs/figures"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or "chromium"
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--force-device-scale-factor=1.5"]


def majority(folder: Path, words: str) -> None:
    subprocess.run([sys.executable, "-m", "majority", *words.split()], cwd=folder, check=True)


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
        folder = Path(name)
        majority(folder, "demo demo")
        majority(folder, "train demo/insects.csv --out run")
        majority(folder, "map run demo/card.csv --out map")
        majority(folder, "train demo/images.csv --recipe quick --out images")
        majority(folder, "audit images --out audit")
        screenshot(folder / "run/report.html", "report.png", 1000, 760)
        screenshot(folder / "audit/label.html", "audit-page.png", 900, 620)
        save(folder / "map/card1100.png", "map.png")


if __name__ == "__main__":
    main()
