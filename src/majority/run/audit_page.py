"""The page on which the instances of an audit are labelled: one file, without a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..data.bags import Bags
from ..files import write_text
from ..io.custom.images import read_header, read_image
from ..predict.audit_figures import OTHER
from .audit_sample import CANNOT_TELL, AuditRecord, Population
from .maps import usual_spacing
from .report.blocks import fill, script
from .report.figures import evenly_spaced, instance_map, png_data_uri

LARGEST = 320  # pixels of the longer side of a picture
FRAME = "#d1345b"  # colour around an instance in its surroundings
MOST_POINTS = 3_000  # of a map
MOST_FEATURES = 60  # columns of a table that are shown
RANGE_ROWS = 20_000  # instances from which typical ranges are
TYPICAL = (0.1, 0.9)  # quantiles


def write_audit_page(
    path: Path, record: AuditRecord, answers: list[str], population: Population, show_predictions: bool = False
) -> None:
    """Write the page; answers that are not empty are filled in."""
    bags, source = population.bags, population.source
    images = bags.store.ndim == 4
    spacing = usual_spacing(bags) if images and bags.coordinates is not None else None
    listed, features = ([], []) if images else typical_ranges(population)
    items = []
    for number, position in enumerate(population.drawn(len(record.bags)).tolist()):
        at, bag = int(bags.index[position]), bags.bag_of(position)
        item: dict[str, Any] = {"id": record.ids[number], "bag": record.bags[number], "answer": answers[number]}
        item["instance"] = record.instances[number]
        if images:
            picture, around = _picture(population, at), _surroundings(population, position, spacing)
            item |= {"image": png_data_uri(picture), "size": [picture.shape[1], picture.shape[0]]}
            item["surroundings"] = None if around is None else png_data_uri(around)
        else:
            item["values"] = [_short(value) for value in np.asarray(bags.store[at])[listed]]
        if source is not None and source.paths is not None:
            item["path"] = str(source.paths[at])
        if bags.coordinates is not None:
            shown = np.union1d(evenly_spaced(_instances_of(bags, bag), MOST_POINTS), position)
            item["map"] = instance_map(bags.coordinates[shown], shown == position)
        if show_predictions:
            item["prediction"] = population.classes[int(np.argmax(record.probabilities[number]))]
        items.append(item)
    data = {"audit": record.audit, "classes": population.classes, "cannot_tell": CANNOT_TELL, "other": OTHER}
    content = data | {"items": items, "features": features}
    write_text(path, fill("audit.html.jinja", {"data": content} | script("audit.js")))


def _short(value: float) -> float:
    return float(f"{float(value):.4g}")


def _instances_of(bags: Bags, bag: int) -> np.ndarray:
    return np.arange(bags.offsets[bag], bags.offsets[bag + 1])


def typical_ranges(population: Population) -> tuple[list[int], list[dict[str, Any]]]:
    """The columns that are shown, all or those that differ most between classes, and the name of each with its typical
    range among the instances predicted as each class; None if there are none."""
    predicted, bags = population.probabilities.argmax(axis=1), population.bags
    some = np.sort(np.random.default_rng(0).permutation(len(predicted))[:RANGE_ROWS])
    values = pd.DataFrame(np.asarray(bags.store[bags.index[some]], np.float64)).groupby(predicted[some])
    low, high = (values.quantile(share) for share in TYPICAL)  # classes x columns
    middles = (low + high) / 2
    differ = (middles.max() - middles.min()) / (high - low).mean().clip(lower=1e-12)
    listed = sorted(differ.nlargest(MOST_FEATURES).index.tolist())
    ranges = {c: [*zip(low.loc[c].map(_short), high.loc[c].map(_short), strict=True)] for c in low.index}
    classes = range(len(population.classes))
    named = {i: [ranges[c][i] if c in ranges else None for c in classes] for i in listed}
    return listed, [{"name": population.columns[i], "ranges": of_classes} for i, of_classes in named.items()]


def _picture(population: Population, at: int) -> np.ndarray:  # (h, w, channels)
    """The image file, which can be larger than what the classifier sees; the latter if there is no such file."""
    seen = np.asarray(population.bags.store[at])
    if population.source is None or population.source.paths is None or population.place is None:
        return seen
    folder = population.place if population.place.is_dir() else population.place.parent
    file = folder / str(population.source.paths[at])
    if not file.is_file():
        return seen
    header = read_header(file)
    shrunk = min(1, LARGEST / max(header.width, header.height))
    shape = (max(1, round(header.height * shrunk)), max(1, round(header.width * shrunk)), seen.shape[2])
    return read_image(file, shape) if max(shape[:2]) > max(seen.shape[:2]) else seen


def _surroundings(population: Population, position: int, spacing: float | None) -> np.ndarray | None:
    """What the other images of its bag show around an instance: three times as wide and high, with a frame. None if no
    other image is near.

    The side of an image in the units of the coordinates is the spacing of neighbours in rows; where images lie in no
    rows, and have whole coordinates, their width in pixels.
    """
    from PIL import Image, ImageDraw

    bags = population.bags
    if bags.coordinates is None:
        return None
    y_up, files = bags.coordinates.dtype.kind == "f", population.source and population.source.image_files
    height, width = bags.store.shape[1:3]
    side = spacing or (None if y_up else files.widths[1] if files else width)
    if side is None:
        return None
    of_bag = _instances_of(bags, bags.bag_of(position))
    steps = (bags.coordinates[of_bag].astype(float) - bags.coordinates[position]) / side * [1, -1 if y_up else 1]
    distances = np.abs(steps).max(axis=1)
    near = [i for i in np.argsort(-distances, kind="stable").tolist() if distances[i] < 2]  # the instance is the last
    if len(near) < 2:
        return None
    shown = Image.new("RGB", (3 * width, 3 * height), "white")
    for i in near:
        x, y = np.round((steps[i] + 1) * [width, height]).astype(int).tolist()
        image = np.broadcast_to(bags.store[int(bags.index[of_bag[i]])], (height, width, 3))
        shown.paste(Image.fromarray(np.ascontiguousarray(image)), (x, y))
    ImageDraw.Draw(shown).rectangle((width - 1, height - 1, 2 * width, 2 * height), outline=FRAME)
    return np.asarray(shown)
