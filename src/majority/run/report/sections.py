"""What a page shows of classes, bags and instances, as data for its template."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ...data.instance_labels import UNKNOWN
from ...io import Source
from ...io.predictions import instance_ids
from ...predict.predictions import Predictions
from ..review import Review
from .blocks import number, percent
from .figures import evenly_spaced, instance_map, picture_strip

# Limits that keep a page small and readable; the page says what it leaves out.
MAX_BARS, MAX_SEGMENTS = 200, 12  # bags, and classes in the bar of one bag
MAX_PICTURES = 24  # bags with a mosaic or a map
MAX_MOSAIC_TILES, MOSAIC_SIDE = 48, 32
MAX_GALLERY_TILES, GALLERY_COLUMNS, GALLERY_SIDE = 360, 8, 44
MAX_SUSPICIOUS = 100
MAX_MAP_INSTANCES = 2_000
MAX_CONFUSIONS = 10

View = dict[str, Any]


def without_common_prefix(classes: tuple[str, ...]) -> list[str]:
    """The names without the words at which all of them start.

    >>> without_common_prefix(("tissue 1", "tissue 2")), without_common_prefix(("cat", "catfish"))
    (['1', '2'], ['cat', 'catfish'])
    """
    prefix = os.path.commonprefix(classes)  # noqa: RUF071 (of names, not of paths)
    shared = max(prefix.rfind(mark) for mark in " _-") + 1
    return [name[shared:] or name for name in classes]


# ---------------------------------------------------------------------- classes


def most_confused(matrix: np.ndarray, classes: tuple[str, ...]) -> list[list[str]]:
    """True class, predicted class, number, share of the true class; the largest numbers first."""
    wrong = matrix * (1 - np.eye(len(matrix), dtype=matrix.dtype))
    cells = np.argsort(wrong, axis=None, kind="stable")[::-1][:MAX_CONFUSIONS]
    pairs = [divmod(int(cell), len(matrix)) for cell in cells if wrong.flat[cell]]
    return [[classes[a], classes[b], number(matrix[a, b]), percent(matrix[a, b] / matrix[a].sum())] for a, b in pairs]


# ---------------------------------------------------------------------- bags


def bag_view(predictions: Predictions, bag: int) -> View:
    """What is drawn of one bag."""
    counts, framed, truth = predictions.counts[bag], int(predictions.framed[bag]), predictions.bags.instance_labels
    largest = np.argsort(-counts, kind="stable")[:MAX_SEGMENTS].tolist()
    segments = [(of, int(counts[of])) for of in sorted({*largest, framed}) if counts[of]]
    true = None if truth is None else truth[predictions.instances_of(bag)]
    return {
        "of": predictions,
        "number": bag,
        "size": int(counts.sum()),
        "counts": counts.tolist(),
        "labels": np.flatnonzero(predictions.bags.bag_labels.allowed[bag]).tolist(),
        "framed": framed,
        "true_count": None if true is None or (true == UNKNOWN).any() else int((true == framed).sum()),
        "segments": segments,
        "rest": int(counts.sum()) - sum(n for _, n in segments),
    }


def bag_views(predictions: Predictions, source: Source | None) -> list[View]:
    """The bags that are shown, the first ones with their images and their map."""
    views, coordinates = [], predictions.bags.coordinates
    for place, bag in enumerate(predictions.order[:MAX_BARS].tolist()):
        view = bag_view(predictions, bag)
        if place < MAX_PICTURES and predictions.bags.store.ndim == 4:
            view["images"] = _mosaic(predictions, source, bag)
        if place < MAX_PICTURES and coordinates is not None:
            positions = evenly_spaced(predictions.instances_of(bag), MAX_MAP_INSTANCES)
            view["map"] = instance_map(coordinates[positions], predictions.guess[positions])
        views.append(view)
    return views


def suspicious(review: Review) -> list[View]:
    """The bags whose label the counts contradict, the most certain first; the first ones with their images."""
    views: list[View] = []
    for one in review.suspicions[:MAX_SUSPICIOUS]:
        predictions = review.parts[one.part]
        view = bag_view(predictions, one.bag) | one._asdict()
        if predictions.bags.store.ndim == 4 and len(views) < MAX_PICTURES:
            view["images"] = _mosaic(predictions, review.source, one.bag)
        views.append(view)
    return views


def gallery(predictions: Predictions, source: Source | None) -> list[tuple[int, int, dict[str, View]]]:
    """Of each predicted class its number of images, and those with the highest and the lowest confidence; no image
    occurs twice."""
    found, index = np.unique(predictions.guess).tolist(), predictions.bags.index
    each = min(GALLERY_COLUMNS, max(2, MAX_GALLERY_TILES // (2 * len(found))))
    rows = []
    for of in found:
        members = np.flatnonzero(predictions.guess == of)
        members = members[np.unique(index[members], return_index=True)[1]]
        members = members[np.argsort(-predictions.confidence[members], kind="stable")]
        least = members[max(each, len(members) - each) :][::-1]
        strips = {}
        for title, which in {"most confident": members[:each], "least confident": least}.items():
            captions = [f"{p:.0%}" for p in predictions.confidence[which]]
            if captions:
                strips[title] = _pictures(predictions, source, which, captions, GALLERY_SIDE)
        rows.append((of, len(members), strips))
    return rows


def _mosaic(predictions: Predictions, source: Source | None, bag: int) -> View:
    names = without_common_prefix(predictions.classes)
    positions = evenly_spaced(predictions.instances_of(bag), MAX_MOSAIC_TILES)
    captions = [names[of] for of in predictions.guess[positions].tolist()]
    return _pictures(predictions, source, positions, captions, MOSAIC_SIDE)


def _pictures(
    predictions: Predictions, source: Source | None, positions: np.ndarray, captions: list[str], side: int
) -> View:
    bags, classes, shown = predictions.bags, predictions.classes, []
    kind, ids = instance_ids(bags, positions, source)
    for i, id, caption in zip(positions.tolist(), ids, captions, strict=True):
        of, truth = int(predictions.guess[i]), predictions.truth(i)
        instance = str(id) if kind == "path" else f"{kind} {id}"
        bag, confidence = predictions.bag_name(bags.bag_of(i)), predictions.confidence[i]
        title = f"bag {bag}, {instance}\n{classes[of]}, {confidence:.1%}"
        title += "" if truth is None else f"; true class {truth}"
        shown.append({"of": of, "caption": caption, "title": title, "wrong": truth not in (None, classes[of])})
    return {"shown": shown} | picture_strip(bags.store[bags.index[positions]], side)
