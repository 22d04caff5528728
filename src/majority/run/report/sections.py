"""The parts of a page about classes, bags and instances, as plain values for the template."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...data.instance_labels import UNKNOWN
from ...predict.metrics import overestimation
from ..classified_bags import ClassifiedBags
from ..plots.colours import colour, text_colour
from ..plots.figures import Box, instance_map
from ..plots.pictures import Tile, mosaic
from ..review import Review

# Limits that keep a page small and readable; the page says what it leaves out.
MAX_BARS, MAX_SEGMENTS = 200, 12  # bags, and classes in the bar of one bag
MAX_MOSAICS, MAX_MOSAIC_TILES, MOSAIC_COLUMNS, MOSAIC_SIDE = 24, 48, 8, 32
MAX_GALLERY_TILES, GALLERY_COLUMNS, GALLERY_SIDE = 360, 8, 44
MAX_SUSPICIOUS = 100
MAX_MAPS, MAX_MAP_INSTANCES = 24, 2_000
MAX_BOXES = 30
MAX_CONFUSIONS = 10


@dataclass(frozen=True)
class Section:
    """The items that are shown, and how many there are in total."""

    shown: list[dict[str, Any]]
    total: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.shown)


def class_keys(classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """Number, name and colours of each class."""
    return [
        {"number": i, "name": name, "colour": colour(i), "text_colour": text_colour(colour(i))}
        for i, name in enumerate(classes)
    ]


def without_common_prefix(classes: tuple[str, ...]) -> list[str]:
    """The names without the words at which all of them start.

    >>> without_common_prefix(("tissue 1", "tissue 2")), without_common_prefix(("cat", "catfish"))
    (['1', '2'], ['cat', 'catfish'])
    """
    first, last = min(classes), max(classes)  # a prefix of these two is a prefix of all
    same = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    shared = max(first.rfind(mark, 0, same) for mark in " _-") + 1
    return [name[shared:] or name for name in classes]


# ---------------------------------------------------------------------- classes


def predicted_classes(classified: ClassifiedBags) -> list[dict[str, Any]]:
    """For each class, the number of bags with this predicted majority and of instances predicted as it."""
    keys, instances = class_keys(classified.classes), classified.counts.sum(axis=0)
    bags = np.bincount(classified.counted, minlength=len(keys))
    return [key | {"bags": int(bags[i]), "instances": int(instances[i])} for i, key in enumerate(keys)]


def class_table(matrix: np.ndarray, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    """Precision, recall and F1 of each class; None where they are not defined."""
    hits, support, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    return [
        key
        | {
            "precision": _ratio(hits[i], predicted[i]),
            "recall": _ratio(hits[i], support[i]),
            "f1": _ratio(2 * hits[i], support[i] + predicted[i]),
            "support": int(support[i]),
            "predicted": int(predicted[i]),
        }
        for i, key in enumerate(class_keys(classes))
    ]


def _ratio(part: int, whole: int) -> float | None:
    return float(part / whole) if whole else None


def most_confused(matrix: np.ndarray, classes: tuple[str, ...]) -> list[dict[str, Any]]:
    wrong = matrix * (1 - np.eye(len(matrix), dtype=matrix.dtype))
    cells = np.argsort(wrong, axis=None, kind="stable")[::-1][:MAX_CONFUSIONS]
    pairs = [divmod(int(cell), len(matrix)) for cell in cells]
    return [
        {"true": classes[a], "predicted": classes[b], "count": int(wrong[a, b]), "share": wrong[a, b] / matrix[a].sum()}
        for a, b in pairs
        if wrong[a, b]
    ]


def overestimation_boxes(classified: ClassifiedBags) -> list[Box]:
    """The box of all bags whose instances all have a known class, then one per label, for the most frequent labels."""
    bags, full = classified.bags, classified.bags.fully_known & classified.bags.bag_labels.named
    labels = bags.labels[full]
    over = overestimation(labels, classified.counts[full], bags.class_counts()[full])
    frequent = np.argsort(-np.bincount(labels), kind="stable")[:MAX_BOXES]
    names = without_common_prefix(classified.classes)
    by_class = [(names[number], over[labels == number]) for number in sorted(frequent.tolist())]
    boxes = [Box.from_values(name, values) for name, values in by_class if len(values)]
    return [Box.from_values("all bags", over), *boxes]


# ---------------------------------------------------------------------- bags


def bars(classified: ClassifiedBags) -> Section:
    order = classified.order
    return Section([_bar(classified, bag) for bag in order[:MAX_BARS].tolist()], len(order))


def mosaics(classified: ClassifiedBags) -> Section:
    wrong = classified.wrong_instances()
    bags = classified.order[:MAX_MOSAICS].tolist()
    shown = [_bag_summary(classified, bag) | _mosaic(classified, bag, wrong) for bag in bags]
    return Section(shown, len(classified.bags))


def _mosaic(classified: ClassifiedBags, bag: int, wrong: np.ndarray) -> dict[str, Any]:
    """Some images of a bag; `wrong` (n,) says which instances are marked."""
    bags, names = classified.bags, without_common_prefix(classified.classes)
    positions = _evenly_spaced(classified.instances_of(bag), MAX_MOSAIC_TILES)
    tiles = [_tile(classified, i, names[classified.guess[i]], wrong[i]) for i in positions.tolist()]
    label = f"{len(tiles)} instances of bag {classified.bag_name(bag)}"
    images = bags.store[bags.index[positions]]
    drawing = mosaic(images, tiles, MOSAIC_COLUMNS, MOSAIC_SIDE, label)
    return {"drawing": drawing, "drawn": len(tiles), "descriptions": _descriptions(tiles)}


def suspicious(review: Review) -> Section:
    """The bags whose label is probably wrong, the most certain first; the first ones with their images."""
    shown, probable = [], [one for one in review.suspicions if one.is_probable]
    for place, one in enumerate(probable[:MAX_SUSPICIOUS]):
        classified = review.parts[one.part]
        about = _bag_summary(classified, one.bag) | {"part": one.part, "suggested": one.suggested}
        about |= {"wrong": one.probability, "suggested_count": int(classified.counts[one.bag, one.suggested])}
        if classified.bags.store.ndim == 4 and place < MAX_MOSAICS:
            about |= _mosaic(classified, one.bag, np.zeros(len(classified.guess), bool))
        shown.append(about)
    return Section(shown, len(probable))


def maps(classified: ClassifiedBags) -> Section:
    coordinates = classified.bags.coordinates
    assert coordinates is not None
    shown = []
    for bag in classified.order[:MAX_MAPS].tolist():
        positions = _evenly_spaced(classified.instances_of(bag), MAX_MAP_INSTANCES)
        y_up = coordinates.dtype.kind == "f"  # whole numbers are pixels, others are places on a map
        places, guess = coordinates[positions].astype(float), classified.guess[positions]
        drawing = instance_map(places, guess, classified.classes, y_up)
        shown.append(_bag_summary(classified, bag) | {"drawing": drawing, "drawn": len(positions)})
    return Section(shown, len(classified.bags))


def gallery(classified: ClassifiedBags) -> list[dict[str, Any]]:
    """For each predicted class, the images with the highest and the lowest confidence; no image occurs twice."""
    wrong = classified.wrong_instances()
    numbers = np.unique(classified.guess).tolist()
    each = min(GALLERY_COLUMNS, max(2, MAX_GALLERY_TILES // (2 * len(numbers))))
    keys = class_keys(classified.classes)
    rows = []
    for number in numbers:
        members = np.flatnonzero(classified.guess == number)
        members = members[np.unique(classified.bags.index[members], return_index=True)[1]]
        members = members[np.argsort(-classified.confidence[members], kind="stable")]
        least = members[max(each, len(members) - each) :][::-1]
        strips = {}
        for title, chosen in {"most confident": members[:each], "least confident": least}.items():
            if len(chosen):
                tiles = [
                    _tile(classified, i, f"{classified.confidence[i]:.0%}", wrong[i], bag_below=True)
                    for i in chosen.tolist()
                ]
                label = f"{title} images of class {classified.classes[number]}"
                images = classified.bags.store[classified.bags.index[chosen]]
                drawing = mosaic(images, tiles, each, GALLERY_SIDE, label)
                strips[title] = {"drawing": drawing, "descriptions": _descriptions(tiles)}
        rows.append(keys[number] | {"strips": strips, "count": len(members)})
    return rows


def _bag_summary(classified: ClassifiedBags, bag: int) -> dict[str, Any]:
    """What is written about a bag; `framed` is its label or, without one, its predicted majority."""
    labels = classified.bags.bag_labels
    predicted, counted, framed = (int(of[bag]) for of in (classified.predicted, classified.counted, classified.framed))
    share, margin = (float(of[bag]) for of in classified.lead)
    return {
        "name": classified.bag_name(bag),
        "labels": np.flatnonzero(labels.allowed[bag]).tolist(),  # empty: no label; several: one of them
        "second": None if labels.seconds[bag] == UNKNOWN else int(labels.seconds[bag]),
        "predicted": predicted,
        "counted": counted,
        "correct": bool(classified.right[bag]),
        "size": int(classified.bags.sizes[bag]),
        "framed": framed,
        "framed_count": int(classified.counts[bag, framed]),
        "share": share,
        "margin": margin,
    }


def _bar(classified: ClassifiedBags, bag: int) -> dict[str, Any]:
    """One segment per class for the largest counts and the framed class, in class order; one for all others."""
    counts, summary = classified.counts[bag], _bag_summary(classified, bag)
    largest = np.argsort(-counts, kind="stable")[:MAX_SEGMENTS].tolist()
    shown = sorted({number for number in [*largest, summary["framed"]] if counts[number]})
    segments = [{"number": number, "count": int(counts[number])} for number in shown]
    rest = summary["size"] - sum(segment["count"] for segment in segments)
    truth = classified.bags.instance_labels
    of_bag = None if truth is None else truth[classified.instances_of(bag)]
    if of_bag is not None and (of_bag != UNKNOWN).all():
        summary["true_count"] = int((of_bag == summary["framed"]).sum())
    return summary | {"segments": segments, "rest": rest}


def _tile(classified: ClassifiedBags, i: int, caption: str, wrong: bool, bag_below: bool = False) -> Tile:
    bags, predicted = classified.bags, int(classified.guess[i])
    bag = classified.bag_name(bags.bag_of(i))
    tooltip = (
        f"bag {bag}, {classified.instance_name(i)}\n{classified.classes[predicted]}, {classified.confidence[i]:.1%}"
    )
    truth = classified.truth(i)
    if truth is not None:
        tooltip += f"; true class {truth}"
    return Tile(predicted, caption, tooltip, bool(wrong), bag if bag_below else "")


def _descriptions(tiles: list[Tile]) -> list[str]:
    """The tooltips as lines, for readers without a pointer."""
    return [tile.tooltip.replace("\n", ": ") for tile in tiles]


def _evenly_spaced(positions: np.ndarray, limit: int) -> np.ndarray:
    """At most `limit` of the positions, evenly spaced."""
    if len(positions) <= limit:
        return positions
    return positions[np.linspace(0, len(positions) - 1, limit).astype(int)]
