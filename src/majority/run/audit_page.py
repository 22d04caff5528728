"""The page on which the instances of an audit are labelled: one file, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from ..data.bags import Bags
from ..files import write_text
from ..io import CustomBags
from ..io.custom.images import read_image
from ..predict.audit_figures import OTHER
from .audit_files import CANNOT_TELL, AuditRecord
from .audit_population import Population
from .maps import usual_spacing
from .report.blocks import fill, script
from .report.figures import png_data_uri

LARGEST = 320  # pixels of the longer side of a picture
FRAME = "#d1345b"  # colour around an instance in its surroundings
MOST_POINTS = 3_000  # of a map
MAP_SIDE = 260
MOST_FEATURES = 60  # columns of a table that are shown
RANGE_ROWS = 5_000  # instances of each class from which its typical ranges are
TYPICAL = (0.1, 0.9)  # quantiles


def write_audit_page(
    path: Path, record: AuditRecord, answers: list[str], population: Population, show_predictions: bool = False
) -> None:
    """Write the page; answers that are not empty are filled in."""
    bags, source = population.bags, population.source
    images = bags.store.ndim == 4
    listed, features = (np.empty(0, np.int64), []) if images else typical_ranges(population)
    side = _side_of_images(population) if images else None
    items = []
    for number, position in enumerate(population.drawn(len(record.bags)).tolist()):
        at = int(bags.index[position])
        item: dict[str, Any] = {"id": record.ids[number], "bag": record.bags[number], "answer": answers[number]}
        item["instance"] = record.instances[number]
        if images:
            picture = _picture(population, at)
            item |= {"image": png_data_uri(picture), "size": [picture.shape[1], picture.shape[0]]}
        else:
            item["values"] = [_short(value) for value in np.asarray(bags.store[at])[listed]]
        if source is not None and source.paths is not None:
            item["path"] = str(source.paths[at])
        if side is not None and (around := _surroundings(bags, position, side)) is not None:
            item["surroundings"] = png_data_uri(around)
        if bags.coordinates is not None:
            item["map"] = _map(bags, position)
        if show_predictions:
            item["prediction"] = population.classes[int(np.argmax(record.probabilities[number]))]
        items.append(item)
    data: dict[str, Any] = {
        "audit": record.audit,
        "classes": population.classes,
        "cannot_tell": CANNOT_TELL,
        "other": OTHER,
    }
    data |= {"items": items, "features": features}
    write_text(path, fill("audit.html.jinja", {"data": data} | script("audit.js")))


def _short(value: float) -> float:
    return float(f"{float(value):.4g}")


# ---------------------------------------------------------------------- rows of tables


def typical_ranges(population: Population) -> tuple[np.ndarray, list[dict[str, Any]]]:
    """The columns that are shown, all or those that differ most between classes, and the name of each with its typical
    range among the instances predicted as each class; None if there are none."""
    rng, predicted = np.random.default_rng(0), population.probabilities.argmax(axis=1)
    store, index = population.bags.store, population.bags.index
    ranges = np.full((len(population.classes), 2, len(population.columns)), np.nan)
    for c in np.unique(predicted):
        some = np.sort(rng.permutation(np.flatnonzero(predicted == c))[:RANGE_ROWS])
        ranges[c] = np.quantile(store[index[some]], TYPICAL, axis=0)
    middles, lengths = ranges.mean(axis=1), np.nanmean(ranges[:, 1] - ranges[:, 0], axis=0)
    differ = (np.nanmax(middles, axis=0) - np.nanmin(middles, axis=0)) / np.maximum(lengths, 1e-12)
    listed = np.sort(np.argsort(-differ, kind="stable")[:MOST_FEATURES])
    features = []
    for i in listed.tolist():
        of_classes = [None if np.isnan(low) else [_short(low), _short(high)] for low, high in ranges[:, :, i]]
        features.append({"name": population.columns[i], "ranges": of_classes})
    return listed, features


# ---------------------------------------------------------------------- images


def _picture(population: Population, at: int) -> np.ndarray:  # (h, w, channels)
    """The image file, which can be larger than what the classifier sees; the latter if there is no such file."""
    from PIL import Image, ImageOps

    seen = np.asarray(population.bags.store[at])
    if population.source is None or population.source.paths is None or population.place is None:
        return seen
    folder = population.place if population.place.is_dir() else population.place.parent
    file = folder / str(population.source.paths[at])
    if not file.is_file():
        return seen
    with Image.open(file) as image:
        width, height = ImageOps.exif_transpose(image).size
    shrunk = min(1, LARGEST / max(width, height))
    shape = (max(1, round(height * shrunk)), max(1, round(width * shrunk)), seen.shape[2])
    return read_image(file, shape) if max(shape[:2]) > max(seen.shape[:2]) else seen


def _side_of_images(population: Population) -> float | None:
    """The side of an image in the units of the coordinates: the distance of neighbours in rows; where images lie in no
    rows, and have whole coordinates, their width in pixels."""
    places, source = population.bags.coordinates, population.source
    if places is None:
        return None
    files = source.image_files if isinstance(source, CustomBags) else None
    width = float(population.bags.store.shape[2] if files is None else files.widths[1])
    return usual_spacing(population.bags) or (width if places.dtype.kind in "iu" else None)


def _surroundings(bags: Bags, position: int, side: float) -> np.ndarray | None:
    """What the other images of its bag show around an instance: three times as wide and high, with a frame. None if no
    other image is near."""
    from PIL import Image, ImageDraw

    height, width = bags.store.shape[1:3]
    of_bag, steps = _places_around(bags, position)
    steps = steps / side
    near = (np.abs(steps) < 2).all(axis=1)
    if (of_bag[near] == position).all():
        return None
    shown = Image.new("RGB", (3 * width, 3 * height), "white")
    for i, (x, y) in zip(of_bag[near], np.round((steps[near] + 1) * [width, height]).astype(int).tolist(), strict=True):
        image = np.broadcast_to(bags.store[int(bags.index[i])], (height, width, 3))
        shown.paste(Image.fromarray(np.ascontiguousarray(image)), (x, y))
    ImageDraw.Draw(shown).rectangle((width - 1, height - 1, 2 * width, 2 * height), outline=FRAME)
    return np.asarray(shown)


def _map(bags: Bags, position: int) -> dict[str, Any]:
    """Some instances of the bag as points of a small map, in pixels; the instance itself is the first."""
    of_bag, steps = _places_around(bags, position)
    shown = steps[[-1, *range(0, len(of_bag) - 1, (len(of_bag) - 2) // MOST_POINTS + 1)]]
    low, span = shown.min(axis=0), max(float(np.ptp(shown, axis=0).max()), 1e-9)
    assert bags.coordinates is not None
    x, y = map(_short, bags.coordinates[position])
    return {"points": np.round((shown - low) / span * MAP_SIDE, 1).tolist(), "x": x, "y": y}


def _places_around(bags: Bags, position: int) -> tuple[np.ndarray, np.ndarray]:
    """The instances of its bag and, once more, the instance itself; where they are from it, with y downwards."""
    assert bags.coordinates is not None
    bag = bags.bag_of(position)
    of_bag = np.append(np.arange(bags.offsets[bag], bags.offsets[bag + 1]), position)
    steps = bags.coordinates[of_bag].astype(float) - bags.coordinates[position]
    return of_bag, steps * [1, -1] if bags.coordinates.dtype.kind == "f" else steps  # on maps y is upwards
