"""Predictions on a map: GeoJSON that QuPath and geographic programs open, and an overview PNG.

QuPath (0.4 and later) reads properties.objectType, .classification with name and color, and .measurements by name.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..data.bags import Bags
from ..errors import InputError
from ..files import file_names, write_atomically
from ..io import Source
from ..io.predictions import instance_ids
from ..predict.classifier import Classifier
from .report.colours import GRID, INK, colour

if TYPE_CHECKING:
    from PIL import Image

NAMESPACE = uuid.UUID("6f1c2c0e-54a5-4d0c-9a58-3a1d5b7c8e11")  # ids are the same each time the same bags are written
ALL = "all"
SIDE = 1024  # pixels: the longer side of an overview
MARGIN, LINE, BOX, FONT_SIZE = 12, 22, 13, 15  # pixels: around it, per line of text, of a colour


def write_maps(
    folder: str | Path,
    classifier: Classifier,
    bags: Bags,
    source: Source | None = None,
    *,
    tile_size: float | None = None,
    together: bool = False,
) -> list[Path]:
    """Write BAG.geojson and BAG.png for each bag with coordinates; `together`: all.geojson and all.png for all bags.

    The coordinates of an instance are the corner of its tile with the lowest x and y; `tile_size` is the side of a
    tile. Without it, the side is the usual distance between neighbours in a row; instances that lie in no rows are
    points. Whole coordinates are pixels, of which y grows downwards; others are drawn with y upwards, as on maps.
    """
    if bags.coordinates is None:
        raise InputError("these bags have no coordinates: give them in the columns x and y, or as coords of features")
    if tile_size is not None and not 0 < tile_size < 1e9:
        cure = "give the side of a tile, in the units of x and y (--tile-size, tile_size)"
        raise InputError(f"tile size {tile_size:g}: {cure}")
    folder, everything = Path(folder), np.arange(len(bags.index))
    parts = {ALL: everything}
    if not together:
        names = file_names(bags.bag_names(), "rename it, or use --together")
        parts = dict(zip(names, np.split(everything, bags.offsets[1:-1]), strict=True))
    for name in parts:
        if (folder / f"{name}.png").exists() and not (folder / f"{name}.geojson").exists():
            raise InputError(f"{folder / name}.png exists and was not written by `majority map`: choose another folder")
    side = usual_spacing(bags) if tile_size is None else float(tile_size)
    probabilities = classifier.probabilities(bags)
    folder.mkdir(parents=True, exist_ok=True)
    for name, positions in parts.items():
        features = _features(bags, positions, probabilities, classifier.classes.tolist(), source, side)
        write_atomically(folder / f"{name}.geojson", partial(_write_features, features))
        predicted = probabilities[positions].argmax(axis=1)
        picture = overview(bags.coordinates[positions], predicted, classifier.classes.tolist(), side)
        write_atomically(folder / f"{name}.png", partial(picture.save, format="PNG"))
    return [folder / f"{name}.geojson" for name in parts]


def usual_spacing(bags: Bags) -> float | None:
    """The median distance between neighbours that have the same y in the same bag; None if most instances have none.

    >>> tiles = [[0, 0], [256, 0], [512, 0], [0, 256]]
    >>> usual_spacing(Bags.from_lists([np.zeros((4, 1))], ["a"], ["a", "b"], coordinates=[tiles]))
    256.0
    """
    assert bags.coordinates is not None
    places = np.column_stack([bags.ids, bags.coordinates[:, 1], bags.coordinates[:, 0]]).astype(np.float64)
    places = np.unique(places, axis=0)  # sorted by bag, y, x
    same_row = (np.diff(places[:, :2], axis=0) == 0).all(axis=1)
    gaps = np.diff(places[:, 2])[same_row]
    return float(np.median(gaps)) if len(gaps) and 2 * len(gaps) >= len(places) else None


def _write_features(features: Iterable[dict[str, Any]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        file.write('{"type": "FeatureCollection", "features": [')
        for number, feature in enumerate(features):
            file.write(("," if number else "") + "\n" + json.dumps(feature, ensure_ascii=False))
        file.write("\n]}\n")


def _features(
    bags: Bags,
    positions: np.ndarray,
    probabilities: np.ndarray,  # of all instances
    classes: list[str],
    source: Source | None,
    side: float | None,  # None: points
) -> Iterator[dict[str, Any]]:
    assert bags.coordinates is not None
    kind, ids = instance_ids(bags, positions, source)
    names = bags.bag_names()
    step = int(side) if side is not None and side.is_integer() else side
    for position, (x, y), identity in zip(
        positions.tolist(), bags.coordinates[positions].tolist(), ids.tolist(), strict=True
    ):
        number, bag = int(probabilities[position].argmax()), bags.bag_of(position)
        geometry: dict[str, Any] = {"type": "Point", "coordinates": [x, y]}
        if step is not None:
            corners = [[x, y], [x + step, y], [x + step, y + step], [x, y + step], [x, y]]
            geometry = {"type": "Polygon", "coordinates": [corners]}
        shade = [int(colour(number)[at : at + 2], 16) for at in (1, 3, 5)]
        found = zip(classes, probabilities[position].tolist(), strict=True)
        yield {
            "type": "Feature",
            "id": str(uuid.uuid5(NAMESPACE, f"{names[bag]}/{position - bags.offsets[bag]}")),
            "geometry": geometry,
            "properties": {
                "objectType": "annotation" if step is None else "tile",  # QuPath has no tiles that are points
                "classification": {"name": classes[number], "color": shade},
                "measurements": {f"p({name})": round(p, 6) for name, p in found},
                "metadata": {"bag": names[bag], kind: str(identity)},
            },
        }


def overview(
    coordinates: np.ndarray,  # (n, 2)
    predicted: np.ndarray,  # (n,)
    classes: list[str],
    side: float | None,  # of the tile of an instance, whose lowest corner is its place; None: a point
) -> Image.Image:
    """A picture of the instances at their places, coloured by predicted class, with the extent and a legend below."""
    from PIL import Image, ImageDraw, ImageFont

    y_up = coordinates.dtype.kind == "f"
    low, high = coordinates.min(axis=0).astype(float), coordinates.max(axis=0) + (side or 0.0)
    scale = SIDE / (float((high - low).max()) or 1.0)
    width, height = (max(1, round(float(length) * scale)) for length in high - low)
    extent = f"x {low[0]:g} to {high[0]:g}, y {low[1]:g} to {high[1]:g} {'upwards' if y_up else 'downwards'}"
    counts = np.bincount(predicted, minlength=len(classes)).tolist()
    legend = [(f"{name}: {n:,}", colour(i)) for i, (name, n) in enumerate(zip(classes, counts, strict=True)) if n]
    lines = [(extent, "white"), *legend]  # text, colour of the box before it
    font = ImageFont.load_default(FONT_SIZE)
    words = 2 * MARGIN + BOX + max(round(font.getlength(text)) for text, _ in lines)
    size = (MARGIN + max(MARGIN + width, words), height + 3 * MARGIN + LINE * len(lines))
    picture = Image.new("RGB", size, "white")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((MARGIN - 1, MARGIN - 1, MARGIN + width, MARGIN + height), outline=GRID)
    length = (side or 0.0) * scale
    radius = min(8.0, max(2.0, (width * height / len(coordinates)) ** 0.5 / 4))
    corners = (coordinates - low) * scale
    if y_up:
        corners[:, 1] = height - length - corners[:, 1]
    for (x, y), of in zip((corners + MARGIN).tolist(), predicted.tolist(), strict=True):
        if side is None:
            draw.ellipse((x - radius, y - radius, x + radius, y + radius), fill=colour(of))
        else:
            draw.rectangle((x, y, max(x + length - 1, x), max(y + length - 1, y)), fill=colour(of))
    for number, (text, fill) in enumerate(lines):
        top = height + 2 * MARGIN + LINE * number
        draw.rectangle((MARGIN, top + 3, MARGIN + BOX, top + 3 + BOX), fill=fill)
        draw.text((2 * MARGIN + BOX, top), text, fill=INK, font=font)
    return picture
