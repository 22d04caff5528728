"""Predictions on a map: GeoJSON that QuPath and geographic programs open, and an overview PNG.

QuPath (0.4 and later) reads properties.objectType, .classification with name and color, and .measurements by name.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.bags import Bags
from ..errors import InputError
from ..files import file_names, write_atomically
from ..io import Source
from ..io.predictions import instance_ids
from ..predict.classifier import Classifier
from .plots.colours import colour
from .plots.overview import overview

NAMESPACE = uuid.UUID("6f1c2c0e-54a5-4d0c-9a58-3a1d5b7c8e11")  # ids are the same each time the same bags are written
ALL = "all"


class MapFiles(NamedTuple):
    geojson: Path
    png: Path
    instances: int


def write_maps(
    folder: str | Path,
    classifier: Classifier,
    bags: Bags,
    source: Source | None = None,
    *,
    tile_size: float | None = None,
    together: bool = False,
) -> list[MapFiles]:
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
    folder = Path(folder)
    parts = {ALL: np.arange(len(bags.index))} if together else _positions_by_name(bags)
    for name in parts:
        if (folder / f"{name}.png").exists() and not (folder / f"{name}.geojson").exists():
            raise InputError(f"{folder / name}.png exists and was not written by `majority map`: choose another folder")
    side = usual_spacing(bags) if tile_size is None else float(tile_size)
    probabilities = np.empty((len(bags.index), len(classifier.classes)), np.float32)
    for numbers, found in classifier.stream(bags):
        probabilities[bags.positions(numbers)] = found
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, positions in parts.items():
        content = _Content(bags, positions, probabilities[positions], classifier.classes, source, side)
        written.append(_write(folder, name, content))
    return written


class _Content(NamedTuple):
    bags: Bags
    positions: np.ndarray  # (n,)
    probabilities: np.ndarray  # (n, C)
    classes: np.ndarray
    source: Source | None
    side: float | None  # None: points


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


def _positions_by_name(bags: Bags) -> dict[str, np.ndarray]:
    """File name -> positions of the instances of the bag."""
    given = range(len(bags)) if bags.names is None else bags.names
    names = file_names(map(str, given), "rename it, or use --together")
    return {name: np.arange(bags.offsets[i], bags.offsets[i + 1]) for i, name in enumerate(names)}


def _write(folder: Path, name: str, content: _Content) -> MapFiles:
    geojson, png = folder / f"{name}.geojson", folder / f"{name}.png"

    def write_features(draft: Path) -> None:
        with draft.open("w", encoding="utf-8", newline="\n") as file:
            file.write('{"type": "FeatureCollection", "features": [')
            for number, feature in enumerate(_features(content)):
                file.write(("," if number else "") + "\n" + json.dumps(feature, ensure_ascii=False))
            file.write("\n]}\n")

    write_atomically(geojson, write_features)
    coordinates = content.bags.coordinates
    assert coordinates is not None
    predicted = content.probabilities.argmax(axis=1)
    counts = np.bincount(predicted, minlength=len(content.classes))
    legend = {f"{label}: {counts[i]:,}": colour(i) for i, label in enumerate(content.classes) if counts[i]}
    picture = overview(
        coordinates[content.positions].astype(np.float64),
        [colour(i) for i in predicted.tolist()],
        content.side,
        y_up=coordinates.dtype.kind == "f",
        legend=legend,
    )
    write_atomically(png, lambda draft: picture.save(draft, "PNG"))
    return MapFiles(geojson, png, len(content.positions))


def _features(content: _Content) -> Iterator[dict[str, Any]]:
    bags, positions, side = content.bags, content.positions, content.side
    assert bags.coordinates is not None
    kind, ids = instance_ids(bags, positions, content.source)
    measurements = [f"p({name})" for name in content.classes]
    colours = [[int(colour(i)[at : at + 2], 16) for at in (1, 3, 5)] for i in range(len(content.classes))]
    rows = zip(
        positions.tolist(), bags.coordinates[positions].tolist(), content.probabilities, ids.tolist(), strict=True
    )
    for position, (x, y), probabilities, identity in rows:
        number = int(probabilities.argmax())
        bag = bags.bag_of(position)
        name = str(bag if bags.names is None else bags.names[bag])
        yield {
            "type": "Feature",
            "id": str(uuid.uuid5(NAMESPACE, f"{name}/{position - bags.offsets[bag]}")),
            "geometry": _point(x, y) if side is None else _square(x, y, side),
            "properties": {
                "objectType": "annotation" if side is None else "tile",  # QuPath has no tiles that are points
                "classification": {"name": str(content.classes[number]), "color": colours[number]},
                "measurements": {key: round(float(p), 6) for key, p in zip(measurements, probabilities, strict=True)},
                "metadata": {"bag": name, kind: str(identity)},
            },
        }


def _point(x: float, y: float) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [x, y]}


def _square(x: float, y: float, side: float) -> dict[str, Any]:
    step = int(side) if float(side).is_integer() else side
    corners = [[x, y], [x + step, y], [x + step, y + step], [x, y + step], [x, y]]
    return {"type": "Polygon", "coordinates": [corners]}
