"""The page on which the instances of an audit are labelled: one file, without a network."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..files import write_text
from .audit_files import CANNOT_TELL, OTHER, AuditRecord
from .audit_population import Population, feature_names
from .plots.pictures import png_data_uri
from .report.templates import fill

if TYPE_CHECKING:
    import pandas as pd

MOST_POINTS = 3_000  # of a map
MAP_SIDE = 260


def write_audit_page(
    path: Path,
    record: AuditRecord,
    to_label: pd.DataFrame,
    population: Population,
    drawn: np.ndarray,
    show_predictions: bool = False,
) -> None:
    """Write the page; answers that the table has already are filled in."""
    from markupsafe import Markup

    script = (files(__package__) / "report" / "audit.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    items = [
        {"id": id, "bag": bag, "instance": instance, "answer": answer} | _shown(population, int(position))
        for id, bag, instance, answer, position in zip(
            record.ids, record.bags, record.instances, to_label["answer"], drawn, strict=True
        )
    ]
    if show_predictions:
        for item, probabilities in zip(items, record.probabilities, strict=True):
            item["prediction"] = record.classes[int(np.argmax(probabilities))]
    content = {
        "audit": record.audit,
        "classes": record.classes,
        "cannot_tell": CANNOT_TELL,
        "other": OTHER,
        "items": items,
        "features": _features(population),
    }
    page = {"data": content, "script": Markup(script), "script_hash": Markup(f"sha256-{digest}")}
    write_text(path, fill("audit.html.jinja", "audit", page, {}))


def _shown(population: Population, position: int) -> dict[str, Any]:
    """What the page shows of an instance: its image or its values, its path, and its place."""
    bags, source = population.bags, population.source
    at = int(bags.index[position])
    shown: dict[str, Any] = {}
    instance = np.asarray(bags.store[at])
    if instance.ndim == 3:
        shown["image"] = png_data_uri(instance)
        shown["size"] = [instance.shape[1], instance.shape[0]]
    else:
        shown["values"] = [_short(value) for value in instance[population.listed]]
    if source is not None and source.paths is not None:
        shown["path"] = str(source.paths[at])
    if bags.coordinates is not None:
        shown["map"] = _map(population, position)
    return shown


def _short(value: float) -> float:
    return float(f"{float(value):.4g}")


def _features(population: Population) -> list[dict[str, Any]]:
    """The name of each column that is shown, and its typical range in each predicted class; empty for images."""
    if population.bags.store.ndim != 2:
        return []
    names = feature_names(population.classifier, population.bags.store.shape[1])
    ranges = population.ranges
    return [
        {"name": names[i], "ranges": [None if np.isnan(ends[0]) else [*map(_short, ends)] for ends in ranges[:, :, i]]}
        for i in population.listed.tolist()
    ]


def _map(population: Population, position: int) -> dict[str, Any]:
    """The instances of the bag as points of a small map, in pixels; the instance itself is the first."""
    bags = population.bags
    bag = bags.bag_of(position)
    of_bag = np.arange(bags.offsets[bag], bags.offsets[bag + 1])
    of_bag = of_bag[:: -(-len(of_bag) // MOST_POINTS)]
    assert bags.coordinates is not None
    places = bags.coordinates[np.append(position, of_bag)].astype(float)
    span = max(np.ptp(places, axis=0).max(), 1e-9)
    pixels = np.round((places - places.min(axis=0)) / span * MAP_SIDE, 1)
    if bags.coordinates.dtype.kind == "f":  # y upwards, as on maps
        pixels[:, 1] = MAP_SIDE - pixels[:, 1]
    return {"points": pixels.tolist(), "x": _short(places[0, 0]), "y": _short(places[0, 1])}
