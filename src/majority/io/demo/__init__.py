"""Real bags that come with the package: insects on yellow sticky cards, as a table and as images.

A card is a bag, its label is the most common kind of insect on it. The photographs are CC0; see LICENSE in this folder.
"""

from __future__ import annotations

import csv
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from ...errors import InputError

HERE = Path(__file__).parent
NEW_CARD = "card1100"  # the card of card.csv, which is not in the tables for training
TILE, TILES_PER_ROW = 32, 40  # of insects.jpg, in pixels

Row = dict[str, str]


def write_demo(folder: str | Path) -> Path:
    """Write `insects.csv` (a row of numbers per insect), `images.csv` and `images/` (a picture per insect), and
    `card.csv`: the insects of one more card, without labels.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     sorted(path.name for path in write_demo(Path(folder) / "demo").iterdir())
    ['LICENSE', 'card.csv', 'images', 'images.csv', 'insects.csv']
    """
    folder = Path(folder)
    if folder.exists():
        raise InputError(f"{folder} exists: name a new folder for the demo")
    with (HERE / "insects.csv").open(newline="") as file:
        insects = list(csv.DictReader(file))
    folder.mkdir(parents=True)
    shutil.copy(HERE / "LICENSE", folder)
    known = [row for row in insects if row["bag"] != NEW_CARD]
    _write_table(folder / "insects.csv", list(insects[0]), known)
    without_labels = [name for name in insects[0] if name not in ("bag_label", "label")]
    _write_table(folder / "card.csv", without_labels, [row for row in insects if row["bag"] == NEW_CARD])
    _write_table(folder / "images.csv", ["bag", "bag_label", "path", "x", "y", "label"], _write_images(known, folder))
    return folder


def _write_images(insects: Sequence[Row], folder: Path) -> list[Row]:
    """One file per insect, in the order of the tiles of insects.jpg; return the rows with the paths."""
    from PIL import Image

    with Image.open(HERE / "insects.jpg") as sheet:
        tiles = sheet.convert("RGB")
    rows = []
    for number, row in enumerate(insects):
        path = f"images/{row['bag']}/{number:04}.png"
        top, left = TILE * (number // TILES_PER_ROW), TILE * (number % TILES_PER_ROW)
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        tiles.crop((left, top, left + TILE, top + TILE)).save(folder / path)
        rows.append(row | {"path": path})
    return rows


def _write_table(path: Path, columns: Sequence[str], rows: Iterable[Row]) -> None:
    with path.open("w", newline="") as file:
        table = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        table.writeheader()
        table.writerows(rows)
