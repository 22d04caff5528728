"""The page's parts about classes, bags and instances, as plain values for the template."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.instance_labels import UNKNOWN
from ..inference.metrics import overestimation
from ..inference.reading import Reading
from ..plots.colours import colour, text_colour
from ..plots.figures import Box, instance_map
from ..plots.pictures import Tile, mosaic

# What is drawn at most, so that a page stays small and readable; it says what it leaves out.
BARS, SEGMENTS = 200, 12  # bags, and classes apart in a bag's bar
MOSAICS, MOSAIC_TILES, MOSAIC_COLUMNS, MOSAIC_SIDE = 24, 48, 8, 32
GALLERY_TILES, GALLERY_ROW, GALLERY_SIDE = 360, 8, 44
MAPS, MAP_INSTANCES = 24, 2_000
BOXES = 30
CONFUSIONS = 10


@dataclass(frozen=True)
class Section:
    """What is shown of how many."""

    shown: list[dict]
    total: int

    @property
    def left_out(self) -> int:
        return self.total - len(self.shown)


def class_keys(classes: tuple[str, ...]) -> list[dict]:
    return [
        {"number": i, "name": name, "colour": colour(i), "ink": text_colour(colour(i))} for i, name in enumerate(classes)
    ]


def brief(classes: tuple[str, ...]) -> list[str]:
    """The names without the words that all of them begin with.

    >>> brief(("tissue 1", "tissue 2")), brief(("cat", "catfish"))
    (['1', '2'], ['cat', 'catfish'])
    """
    first, last = min(classes), max(classes)  # what these two share, all share
    same = next((i for i, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), len(first))
    shared = max(first.rfind(mark, 0, same) for mark in " _-") + 1
    return [name[shared:] or name for name in classes]


# ---------------------------------------------------------------------- classes


def predicted_classes(reading: Reading) -> list[dict]:
    """Of each class, how many bags have it as their predicted majority and how many instances are predicted as it."""
    keys, instances = class_keys(reading.classes), reading.counts.sum(axis=0)
    bags = np.bincount(reading.counted, minlength=len(keys))
    return [key | {"bags": int(bags[i]), "instances": int(instances[i])} for i, key in enumerate(keys)]


def class_table(matrix: np.ndarray, classes: tuple[str, ...]) -> list[dict]:
    """Precision, recall and F1 of each class; None where they are not defined."""
    hits, support, predicted = np.diag(matrix), matrix.sum(axis=1), matrix.sum(axis=0)
    ratio = lambda part, whole: float(part / whole) if whole else None
    return [
        key
        | {
            "precision": ratio(hits[i], predicted[i]),
            "recall": ratio(hits[i], support[i]),
            "f1": ratio(2 * hits[i], support[i] + predicted[i]),
            "support": int(support[i]),
            "predicted": int(predicted[i]),
        }
        for i, key in enumerate(class_keys(classes))
    ]


def most_confused(matrix: np.ndarray, classes: tuple[str, ...]) -> list[dict]:
    wrong = matrix * (1 - np.eye(len(matrix), dtype=matrix.dtype))
    cells = np.argsort(wrong, axis=None, kind="stable")[::-1][:CONFUSIONS]
    pairs = [divmod(int(cell), len(matrix)) for cell in cells]
    return [
        {"true": classes[a], "guess": classes[b], "count": int(wrong[a, b]), "share": wrong[a, b] / matrix[a].sum()}
        for a, b in pairs
        if wrong[a, b]
    ]


def overestimation_boxes(reading: Reading) -> list[Box]:
    """Of all bags known in full, then by the bags' label, the classes with most bags first."""
    bags, full = reading.bags, reading.bags.fully_known
    labels = bags.labels[full]
    over = overestimation(labels, reading.counts[full], bags.class_counts()[full])
    frequent = np.argsort(-np.bincount(labels), kind="stable")[:BOXES]
    names = brief(reading.classes)
    by_class = [(names[number], over[labels == number]) for number in sorted(frequent.tolist())]
    return [Box.from_values("all bags", over), *(Box.from_values(name, values) for name, values in by_class if len(values))]


# ---------------------------------------------------------------------- bags


def bars(reading: Reading) -> Section:
    order = reading.order
    return Section([_bar(reading, bag) for bag in order[:BARS].tolist()], len(order))


def mosaics(reading: Reading) -> Section:
    bags, names, wrong = reading.bags, brief(reading.classes), reading.wrong_instances()
    shown = []
    for bag in reading.order[:MOSAICS].tolist():
        where = _spread(reading.instances_of(bag), MOSAIC_TILES)
        tiles = [_tile(reading, i, names[reading.guess[i]], wrong[i]) for i in where.tolist()]
        about = _bag(reading, bag)
        label = f"{len(tiles)} instances of bag {about['name']}"
        drawn = mosaic(bags.store, tiles, MOSAIC_COLUMNS, MOSAIC_SIDE, label)
        shown.append(about | {"drawing": drawn, "drawn": len(tiles), "said": _said(tiles)})
    return Section(shown, len(bags))


def maps(reading: Reading) -> Section:
    shown = []
    for bag in reading.order[:MAPS].tolist():
        where = _spread(reading.instances_of(bag), MAP_INSTANCES)
        drawn = instance_map(reading.bags.coordinates[where].astype(float), reading.guess[where], reading.classes)
        shown.append(_bag(reading, bag) | {"drawing": drawn, "drawn": len(where)})
    return Section(shown, len(reading.bags))


def gallery(reading: Reading) -> list[dict]:
    """Of each predicted class the most and the least certain images; none twice."""
    wrong = reading.wrong_instances()
    numbers = np.unique(reading.guess).tolist()
    each = min(GALLERY_ROW, max(2, GALLERY_TILES // (2 * len(numbers))))
    keys = class_keys(reading.classes)
    rows = []
    for number in numbers:
        members = np.flatnonzero(reading.guess == number)
        members = members[np.unique(reading.bags.index[members], return_index=True)[1]]
        members = members[np.argsort(-reading.confidence[members], kind="stable")]
        least = members[max(each, len(members) - each) :][::-1]
        drawn = {}
        for title, chosen in {"most certain": members[:each], "least certain": least}.items():
            if len(chosen):
                tiles = [
                    _tile(reading, i, f"{reading.confidence[i]:.0%}", wrong[i], bag_below=True) for i in chosen.tolist()
                ]
                label = f"{title} images of class {reading.classes[number]}"
                drawing = mosaic(reading.bags.store, tiles, each, GALLERY_SIDE, label)
                drawn[title] = {"drawing": drawing, "said": _said(tiles)}
        rows.append(keys[number] | {"drawn": drawn, "count": len(members)})
    return rows


def _bag(reading: Reading, bag: int) -> dict:
    """What its heading and its bar say; `framed` is the class it goes by: its label, else its predicted majority."""
    label, predicted, counted = (int(of[bag]) for of in (reading.bags.labels, reading.predicted, reading.counted))
    framed = label if reading.bags.labelled else counted
    share, margin = (float(of[bag]) for of in reading.lead)
    return {
        "name": reading.bag_name(bag),
        "label": label,
        "predicted": predicted,
        "counted": counted,
        "right": label == predicted,
        "size": int(reading.bags.sizes[bag]),
        "framed": framed,
        "framed_count": int(reading.counts[bag, framed]),
        "share": share,
        "margin": margin,
    }


def _bar(reading: Reading, bag: int) -> dict:
    """The largest counts apart, the framed one always, in class order; the rest in one."""
    counts, about = reading.counts[bag], _bag(reading, bag)
    largest = np.argsort(-counts, kind="stable")[:SEGMENTS].tolist()
    apart = sorted({number for number in [*largest, about["framed"]] if counts[number]})
    segments = [{"number": number, "count": int(counts[number])} for number in apart]
    rest = about["size"] - sum(segment["count"] for segment in segments)
    truth = reading.bags.instance_labels
    of_bag = None if truth is None else truth[reading.instances_of(bag)]
    if of_bag is not None and (of_bag != UNKNOWN).all():
        about["true_count"] = int((of_bag == about["framed"]).sum())
    return about | {"segments": segments, "rest": rest}


def _tile(reading: Reading, i: int, caption: str, wrong: bool, bag_below: bool = False) -> Tile:
    bags, guess = reading.bags, int(reading.guess[i])
    bag = reading.bag_name(bags.bag_of(i))
    said = f"bag {bag}, {reading.instance_name(i)}\n{reading.classes[guess]}, {reading.confidence[i]:.1%}"
    truth = reading.truth(i)
    if truth is not None:
        said += f"; truly {truth}"
    return Tile(int(bags.index[i]), guess, caption, said, bool(wrong), bag if bag_below else "")


def _said(tiles: list[Tile]) -> list[str]:
    """What the hints say, for who has no pointer to rest on them."""
    return [tile.tooltip.replace("\n", ": ") for tile in tiles]


def _spread(positions: np.ndarray, limit: int) -> np.ndarray:
    """At most `limit` of them, evenly spaced."""
    if len(positions) <= limit:
        return positions
    return positions[np.linspace(0, len(positions) - 1, limit).astype(int)]
