"""The parts of a page about classes, bags and instances, as blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...data.instance_labels import UNKNOWN
from ...errors import count_noun
from ...predict.metrics import Margins, class_rates
from ..classified_bags import ClassifiedBags
from ..plots.colours import PALETTE, colour, text_colour
from ..plots.figures import instance_map
from ..plots.pictures import Tile as Picture
from ..plots.pictures import mosaic
from ..review import Review
from .blocks import Table, Text, Tile, Tiles, joined, markup, number, percent

# Limits that keep a page small and readable; the page says what it leaves out.
MAX_BARS, MAX_SEGMENTS = 200, 12  # bags, and classes in the bar of one bag
MAX_MOSAICS, MAX_MOSAIC_TILES, MOSAIC_COLUMNS, MOSAIC_SIDE = 24, 48, 8, 32
MAX_GALLERY_TILES, GALLERY_COLUMNS, GALLERY_SIDE = 360, 8, 44
MAX_SUSPICIOUS = 100
MAX_MAPS, MAX_MAP_INSTANCES = 24, 2_000
MAX_CONFUSIONS = 10
CROSS = " A black cross marks images whose true class is different."


def chip(classes: Sequence[str], of: int) -> Text:
    """The name of a class with its colour."""
    return markup('<span class="chip"><i style="background:{}"></i>{}</span>', colour(of), classes[of])


def legend(classes: Sequence[str]) -> Text:
    repeats = " Colours repeat: read the names, or point at a segment." * (len(classes) > len(PALETTE))
    return joined([*(chip(classes, of) for of in range(len(classes))), repeats], " ")


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


def predicted_classes(classified: ClassifiedBags) -> Table:
    instances = classified.counts.sum(axis=0)
    bags = np.bincount(classified.counted, minlength=len(instances))
    rows = [
        [chip(classified.classes, of), number(bags[of]), number(n), percent(n / instances.sum())]
        for of, n in enumerate(instances.tolist())
    ]
    return Table("predictions by class", ("class", "bags", "instances", "share"), rows, tall=True)


def class_table(matrix: np.ndarray, classes: tuple[str, ...]) -> Table:
    """Recall first: the share of a class that is found."""
    margins = Margins.of(matrix)
    rates = class_rates(margins)
    rows = []
    for of in range(len(classes)):
        shares = [percent(_or_none(rates[name][of])) for name in ("recall", "precision", "f1")]
        rows.append([chip(classes, of), *shares, number(margins.true[of]), number(margins.predicted[of])])
    head = ("class", "recall", "precision", "F1", "support", "predicted")
    return Table("recall and precision", head, rows, tall=True)


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def most_confused(matrix: np.ndarray, classes: tuple[str, ...], head: Sequence[str]) -> Table | None:
    wrong = matrix * (1 - np.eye(len(matrix), dtype=matrix.dtype))
    cells = np.argsort(wrong, axis=None, kind="stable")[::-1][:MAX_CONFUSIONS]
    pairs = [divmod(int(cell), len(matrix)) for cell in cells]
    counts = {(a, b): int(wrong[a, b]) for a, b in pairs if wrong[a, b]}
    rows = [[classes[a], classes[b], number(n), percent(n / matrix[a].sum())] for (a, b), n in counts.items()]
    return Table("most frequent confusions", head, rows, names=2) if rows else None


# ---------------------------------------------------------------------- bags


def bars(classified: ClassifiedBags) -> Tiles:
    order = classified.order[:MAX_BARS].tolist()
    tiles = [bag_tile(classified, bag, _bar(classified, bag), _counts(classified, bag)) for bag in order]
    return Tiles("bags", tiles, "list", _tally(classified, len(tiles)))


def mosaics(classified: ClassifiedBags) -> Tiles:
    wrong = classified.wrong_instances()
    tiles = [_mosaic(classified, bag, wrong) for bag in classified.order[:MAX_MOSAICS].tolist()]
    return Tiles("mosaics", tiles, tally=_tally(classified, len(tiles)))


def maps(classified: ClassifiedBags) -> Tiles:
    coordinates = classified.bags.coordinates
    assert coordinates is not None
    tiles = []
    for bag in classified.order[:MAX_MAPS].tolist():
        positions = _evenly_spaced(classified.instances_of(bag), MAX_MAP_INSTANCES)
        y_up = coordinates.dtype.kind == "f"  # whole numbers are pixels, others are places on a map
        places, guess = coordinates[positions].astype(float), classified.guess[positions]
        drawing = _safe(instance_map(places, guess, classified.classes, y_up))
        tiles.append(bag_tile(classified, bag, drawing, _drawn(classified, bag, len(positions))))
    return Tiles("maps", tiles, tally=_tally(classified, len(tiles)))


def suspicious(review: Review) -> Tiles:
    """The bags whose label is probably wrong, the most certain first; the first ones with their images."""
    tiles, probable = [], [one for one in review.suspicions if one.is_probable]
    for place, one in enumerate(probable[:MAX_SUSPICIOUS]):
        classified, bag = review.parts[one.part], one.bag
        classes, counts, framed = classified.classes, classified.counts[bag], int(classified.framed[bag])
        size = number(classified.bags.sizes[bag])
        caption = (
            f"{one.part}: wrong with a probability of {percent(one.probability)}; {number(counts[framed])} of {size} "
            f"instances predicted as the label, {number(counts[one.suggested])} as {classes[one.suggested]}"
        )
        name = classified.bag_name(bag)
        heading = markup("<b>bag {}</b> <span class=\"prediction\">label {}, probably {}</span>", name,
                         _labels(classified, bag), chip(classes, one.suggested))  # fmt: skip
        if classified.bags.store.ndim == 4 and place < MAX_MOSAICS:
            tile = _mosaic(classified, bag, np.zeros(len(classified.guess), bool))
            tiles.append(Tile(heading, tile.body, caption, tile.descriptions))
        else:
            tiles.append(Tile(heading, _bar(classified, bag), caption))
    return Tiles("suspicious labels", tiles)


def count_probable(review: Review) -> int:
    return sum(one.is_probable for one in review.suspicions)


def gallery(classified: ClassifiedBags) -> Tiles:
    """For each predicted class, the images with the highest and the lowest confidence; no image occurs twice."""
    wrong, classes = classified.wrong_instances(), classified.classes
    found = np.unique(classified.guess).tolist()
    each = min(GALLERY_COLUMNS, max(2, MAX_GALLERY_TILES // (2 * len(found))))
    tiles = []
    for of in found:
        members = np.flatnonzero(classified.guess == of)
        members = members[np.unique(classified.bags.index[members], return_index=True)[1]]
        members = members[np.argsort(-classified.confidence[members], kind="stable")]
        least = members[max(each, len(members) - each) :][::-1]
        strips, descriptions = [], {}
        for title, chosen in {"most confident": members[:each], "least confident": least}.items():
            if len(chosen):
                captions = [f"{p:.0%}" for p in classified.confidence[chosen]]
                pairs = zip(chosen.tolist(), captions, strict=True)
                pictures = [_picture(classified, i, caption, wrong[i]) for i, caption in pairs]
                images = classified.bags.store[classified.bags.index[chosen]]
                drawing = mosaic(images, pictures, each, GALLERY_SIDE, f"{title} images of class {classes[of]}")
                strips.append(markup('<div class="strip"><small>{}</small>{}</div>', title, _safe(drawing)))
                descriptions[title] = _descriptions(pictures)
        heading = markup("<b>{}</b> <small>{}</small>", chip(classes, of), count_noun(len(members), "image"))
        tiles.append(Tile(heading, joined(strips), descriptions=descriptions, data={"data-class": of}))
    return Tiles("gallery", tiles, "wide")


# ---------------------------------------------------------------------- one bag


def bag_tile(classified: ClassifiedBags, bag: int, body: Text, caption: Text, lists: Any = None) -> Tile:
    """With what the filter reads: label, predicted class, and whether it is right."""
    known = bool(classified.bags.bag_labels.known[bag])
    right, counted = bool(classified.right[bag]), int(classified.counted[bag])
    data: dict[str, object] = {"class": "bag", "data-predicted": counted}
    if known:
        data |= {"data-label": int(classified.framed[bag]), "data-correct": "yes" if right else "no"}
    return Tile(_heading(classified, bag, known, right, counted), body, caption, lists or {}, data)


def _heading(classified: ClassifiedBags, bag: int, known: bool, right: bool, counted: int) -> Text:
    by_method = chip(classified.classes, int(classified.predicted[bag]))
    other = markup("; the method itself predicts {}", by_method) if counted != classified.predicted[bag] else ""
    majority = chip(classified.classes, counted)
    if not known:
        said = markup("predicted majority {}{}", majority, other)
        return markup('<b>bag {}</b> <span class="prediction">{}</span>', classified.bag_name(bag), said)
    mark = markup('<span class="verdict {}">{}</span>', *(("correct", "✓ correct") if right else ("wrong", "✗ wrong")))
    instead = "" if right else markup(", predicted {}", majority)
    said = markup("label {}{}{}", _labels(classified, bag), instead, other)
    return markup('<b>bag {}</b> {} <span class="prediction">{}</span>', classified.bag_name(bag), mark, said)


def _labels(classified: ClassifiedBags, bag: int) -> Text:
    labels, classes = classified.bags.bag_labels, classified.classes
    text = joined((chip(classes, of) for of in np.flatnonzero(labels.allowed[bag]).tolist()), " or ")
    second = int(labels.seconds[bag])
    return text if second == UNKNOWN else markup("{}, second {}", text, chip(classes, second))


def _bar(classified: ClassifiedBags, bag: int) -> Text:
    """One segment per class for the largest counts and the framed class, in class order; one for all others."""
    counts, framed, classes = classified.counts[bag], int(classified.framed[bag]), classified.classes
    largest = np.argsort(-counts, kind="stable")[:MAX_SEGMENTS].tolist()
    size, pieces = int(counts.sum()), []
    shown = sorted({of for of in [*largest, framed] if counts[of]})
    for of in shown:
        look = f"flex-grow:{counts[of]};background:{colour(of)};color:{text_colour(colour(of))}"
        exact, name = f"{classes[of]}: {counts[of]} of {size}", classes[of] if counts[of] / size >= 0.1 else ""
        kind = "framed" if of == framed else ""
        pieces.append(markup('<span class="{}" style="{}" title="{}">{}</span>', kind, look, exact, name))
    if rest := size - int(counts[shown].sum()):
        look, exact = f"flex-grow:{rest}", f"other classes: {rest} of {size}"
        pieces.append(markup('<span class="rest" style="{}" title="{}">others</span>', look, exact))
    return markup('<div class="bar">{}</div>', joined(pieces))


def _counts(classified: ClassifiedBags, bag: int) -> Text:
    framed, labels, truth = int(classified.framed[bag]), classified.bags.bag_labels, classified.bags.instance_labels
    name = "the label" if labels.allowed[bag].sum() == 1 else classified.classes[framed]
    size = number(classified.bags.sizes[bag])
    text = f"{number(classified.counts[bag, framed])} of {size} predicted as {name}"
    of_bag = None if truth is None else truth[classified.instances_of(bag)]
    if of_bag is not None and (of_bag != UNKNOWN).all():
        text += f", true number {number((of_bag == framed).sum())}"
    if not labels.known[bag]:
        share, margin = (float(of[bag]) for of in classified.lead)
        text += f"; share {percent(share)}, margin {percent(margin)}"
    return text


def _mosaic(classified: ClassifiedBags, bag: int, wrong: np.ndarray) -> Tile:
    """Some images of a bag; `wrong` (n,) says which instances are marked."""
    bags, names = classified.bags, without_common_prefix(classified.classes)
    positions = _evenly_spaced(classified.instances_of(bag), MAX_MOSAIC_TILES)
    pictures = [_picture(classified, i, names[classified.guess[i]], wrong[i]) for i in positions.tolist()]
    label = f"{len(pictures)} instances of bag {classified.bag_name(bag)}"
    drawing = mosaic(bags.store[bags.index[positions]], pictures, MOSAIC_COLUMNS, MOSAIC_SIDE, label)
    caption = _drawn(classified, bag, len(positions))
    return bag_tile(classified, bag, _safe(drawing), caption, {"": _descriptions(pictures)})


def _picture(classified: ClassifiedBags, i: int, caption: str, wrong: bool) -> Picture:
    predicted, truth = int(classified.guess[i]), classified.truth(i)
    bag, name = classified.bag_name(classified.bags.bag_of(i)), classified.classes[predicted]
    exact = f"bag {bag}, {classified.instance_name(i)}\n{name}, {classified.confidence[i]:.1%}"
    return Picture(predicted, caption, exact if truth is None else f"{exact}; true class {truth}", bool(wrong))


def _descriptions(pictures: Sequence[Picture]) -> list[str]:
    """The tooltips as lines, for readers without a pointer."""
    return [picture.tooltip.replace("\n", ": ") for picture in pictures]


def _drawn(classified: ClassifiedBags, bag: int, drawn: int) -> str:
    size = int(classified.bags.sizes[bag])
    return f"{number(drawn)} of {number(size)} instances, evenly spaced" if drawn < size else ""


def _tally(classified: ClassifiedBags, shown: int) -> str:
    total, first = len(classified.bags), "wrong bags" if classified.bags.labelled else "smallest margins"
    rest = f"{number(total - shown)} of {number(total)} bags"
    left_out = f"; {rest} are left out to keep the page small" * (shown < total)
    return f", {first} first{left_out}."


def _evenly_spaced(positions: np.ndarray, limit: int) -> np.ndarray:
    """At most `limit` of the positions, evenly spaced."""
    if len(positions) <= limit:
        return positions
    return positions[np.linspace(0, len(positions) - 1, limit).astype(int)]


def _safe(drawing: str) -> Text:
    """SVG, whose words are escaped already."""
    from markupsafe import Markup

    return Markup(drawing)
