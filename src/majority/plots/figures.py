"""The page's drawings, as inline SVG: learning curves, confusion matrix, box plot, maps of instances."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .colours import colour
from .svg import drawing, hint, shorten_distinctly, tag, text_width, words

INK, FAINT, GRID = "#1c2430", "#5b6675", "#dfe4ea"
SERIES = {"training": ("#e69f00", "5 3"), "validation": ("#0072b2", "none")}
MARKED_EPOCHS = 30  # up to which each epoch gets a dot
NUMBERED_CLASSES = 24  # up to which a cell of the confusion matrix shows its count
NAME_LETTERS = 14


def curves(title: str, series: dict[str, Sequence[float]], best_epoch: int, share: bool = False) -> str:
    """Lines over epochs, by name of the series; the best epoch marked. A `share` runs from 0 to 1."""
    width, height, left, right, top, bottom = 460, 250, 52, 14, 34, 38
    values = np.concatenate([np.asarray(line, float) for line in series.values()])
    epochs = max(len(line) for line in series.values())
    ticks = np.linspace(0, 1, 6) if share else nice_ticks(min(values.min(), 0), values.max())
    low, high = ticks[0], ticks[-1]
    across = lambda epoch: left + (width - left - right) * (epoch / (epochs - 1) if epochs > 1 else 0.5)
    up = lambda value: height - bottom - (height - top - bottom) * (value - low) / (high - low)
    parts = [words(title, x=left, y=18, font_size=14, font_weight=600, fill=INK)]
    for tick in ticks:
        y = up(tick)
        shown = f"{tick:.0%}" if share else f"{tick:g}"
        parts.append(tag("line", x1=left, x2=width - right, y1=y, y2=y, stroke=GRID))
        parts.append(words(shown, x=left - 6, y=y + 4, text_anchor="end", font_size=12, fill=FAINT))
    for epoch in sorted({round(float(tick)) for tick in nice_ticks(0, max(epochs - 1, 1)) if tick <= epochs - 1}):
        parts.append(
            words(epoch, x=across(epoch), y=height - bottom + 17, text_anchor="middle", font_size=12, fill=FAINT)
        )
    parts.append(words("epoch", x=width - right, y=height - 4, text_anchor="end", font_size=12, fill=FAINT))
    best = across(best_epoch)
    parts.append(tag("line", x1=best, x2=best, y1=top, y2=height - bottom, stroke=INK, stroke_dasharray="2 3"))
    flip = best > width * 0.7
    anchor, beside = ("end", -5) if flip else ("start", 5)
    for place, (name, line) in enumerate(series.items()):
        stroke, dash = SERIES[name]
        points = [(across(epoch), up(value)) for epoch, value in enumerate(line)]
        route = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        look = {"fill": "none", "stroke": stroke, "stroke_width": 2, "stroke_dasharray": dash}
        parts.append(tag("polyline", points=route, **look))
        if len(points) <= MARKED_EPOCHS:
            for epoch, (x, y) in enumerate(points):
                exact = hint(f"{name}, epoch {epoch}: {line[epoch]:.4g}")
                parts.append(tag("circle", exact, cx=x, cy=y, r=3, fill=stroke))
        key = width - right - 190 + place * 96
        parts.append(tag("line", x1=key, x2=key + 20, y1=14, y2=14, **look))
        parts.append(words(name, x=key + 25, y=18, font_size=12, fill=INK))
    halo = {"stroke": "#fff", "stroke_width": 4, "paint_order": "stroke", "font_size": 12, "fill": INK}
    parts.append(words(f"kept: {best_epoch}", x=best + beside, y=height - bottom - 8, text_anchor=anchor, **halo))
    return drawing(width, height, parts, f"{title} by epoch, epoch {best_epoch} kept")


def confusion_matrix(matrix: np.ndarray, classes: Sequence[str], rows: str, columns: str) -> str:
    """Counts by true (rows) and predicted class (columns), shaded by their share of the row."""
    n = len(classes)
    cell = 36 if n <= 12 else 26 if n <= NUMBERED_CLASSES else max(9, 720 // n)
    font = min(12, cell)
    short = shorten_distinctly(classes, NAME_LETTERS)
    margin = 34 + text_width(short, font)
    side = margin + n * cell
    heading = min((margin + side) / 2, side - text_width([columns], font) / 2)  # of few classes: left of their middle
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    parts = [
        words(
            rows, transform=f"rotate(-90) translate({-(margin + side) / 2:.0f} 13)", text_anchor="middle", fill=FAINT
        ),
        words(columns, x=heading, y=13, text_anchor="middle", fill=FAINT),
        tag("rect", x=margin, y=margin, width=n * cell, height=n * cell, fill="#f6f8fa", stroke=GRID),
    ]
    for i, name in enumerate(classes):
        middle = margin + (i + 0.5) * cell
        turned = f"translate({middle + font / 3:.1f} {margin - 6:.1f}) rotate(-90)"
        parts.append(tag("g", hint(name), words(short[i], x=margin - 6, y=middle + font / 3, text_anchor="end")))
        parts.append(tag("g", hint(name), words(short[i], transform=turned)))
    for true, guess in np.argwhere(matrix):
        count, share = int(matrix[true, guess]), float(shares[true, guess])
        x, y = margin + guess * cell, margin + true * cell
        inside = hint(f"{classes[true]} as {classes[guess]}: {count} ({share:.0%} of the row)")
        fill = _shade(share, right=true == guess)
        parts.append(tag("rect", inside, x=x + 0.5, y=y + 0.5, width=cell - 1, height=cell - 1, fill=fill))
        if n <= NUMBERED_CLASSES:
            ink = "#fff" if share > 0.55 else INK
            middle = {"x": x + cell / 2, "y": y + cell / 2 + 4, "text_anchor": "middle"}
            parts.append(words(_compact(count), **middle, fill=ink, font_size=11, pointer_events="none"))
    label = f"confusion matrix of {n} classes, {int(matrix.sum())} in all"
    room = f"width:{side + 2:.0f}px;min-width:{margin + n * min(cell, 18):.0f}px;max-width:100%"
    return drawing(side + 2, side + 2, parts, label, font_size=font, fill=INK, style=room)


class Box(NamedTuple):
    name: str
    n: int
    quantiles: tuple[float, ...]  # lowest, first quartile, median, third quartile, highest


def box(name: str, values: np.ndarray) -> Box:
    """
    >>> box("all", np.array([-4, 0, 1, 2, 6]))
    Box(name='all', n=5, quantiles=(-4.0, 0.0, 1.0, 2.0, 6.0))
    """
    return Box(name, len(values), tuple(np.quantile(values, [0, 0.25, 0.5, 0.75, 1]).tolist()))


def box_plot(boxes: Sequence[Box], axis: str) -> str:
    """A lying box a row; whiskers reach to the lowest and the highest value."""
    short = shorten_distinctly([box.name for box in boxes], NAME_LETTERS)
    width, row, left, right, top = 480, 24, 12 + text_width(short, 12), 52, 8
    ticks = nice_ticks(min(0, *(b.quantiles[0] for b in boxes)), max(0, *(b.quantiles[-1] for b in boxes)))
    across = lambda value: left + (width - left - right) * (value - ticks[0]) / (ticks[-1] - ticks[0])
    end = top + row * len(boxes)
    parts = []
    for tick in ticks:
        x = across(tick)
        parts.append(tag("line", x1=x, x2=x, y1=top, y2=end, stroke=FAINT if tick == 0 else GRID))
        parts.append(words(f"{tick:g}", x=x, y=end + 16, text_anchor="middle", fill=FAINT))
    for i, (name, n, quantiles) in enumerate(boxes):
        y = top + (i + 0.5) * row
        low, first, median, third, high = map(across, quantiles)
        said = "lowest {:g}, quartiles {:g}, {:g}, {:g}, highest {:g}".format(*quantiles)
        parts += [
            tag("g", hint(name), words(short[i], x=left - 8, y=y + 4, text_anchor="end", fill=INK)),
            words(f"n={n}", x=width - right + 6, y=y + 4, fill=FAINT, font_size=11),
            tag(
                "g",
                hint(f"{name}: {said}"),
                tag("line", x1=low, x2=high, y1=y, y2=y, stroke=INK),
                *(tag("line", x1=x, x2=x, y1=y - 4, y2=y + 4, stroke=INK) for x in (low, high)),
                tag("rect", x=first, y=y - 7, width=max(third - first, 1), height=14, fill="#cfe3f3", stroke=INK),
                tag("line", x1=median, x2=median, y1=y - 7, y2=y + 7, stroke="#d55e00", stroke_width=3),
            ),
        ]
    parts.append(words(axis, x=width / 2, y=end + 34, text_anchor="middle", fill=FAINT))
    return drawing(width, end + 40, parts, f"box plot: {axis}", font_size=12)


def instance_map(coordinates: np.ndarray, guess: np.ndarray, classes: Sequence[str]) -> str:
    """Instances where they lie, coloured by predicted class; y grows downwards, as in images."""
    width, pad = 260.0, 8.0
    low, span = coordinates.min(axis=0), np.ptp(coordinates, axis=0)
    scale = (width - 2 * pad) / (span.max() or 1.0)
    height = max(float(span[1] * scale), 60.0) + 2 * pad
    places = (coordinates - low - span / 2) * scale + [width / 2, height / 2]
    dot = min(8.0, max(1.5, 0.8 * math.sqrt(width * height / len(coordinates))))
    parts = [tag("rect", width=width, height=height, fill="#f6f8fa", stroke=GRID)]
    for number in np.unique(guess):
        here = places[guess == number]
        route = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in here)
        said = hint(f"{classes[number]}: {len(here)} of {len(guess)}")
        look = {"stroke": colour(number), "stroke_width": dot, "stroke_linecap": "round"}
        parts.append(tag("path", said, d=route, fill="none", **look))
    return drawing(width, height, parts, f"map of {len(guess)} instances by predicted class")


def nice_ticks(low: float, high: float) -> list[float]:
    """Round numbers that enclose the two.

    >>> nice_ticks(0, 2.6)
    [0.0, 1.0, 2.0, 3.0]
    """
    span = high - low or 1.0
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, max(last, first + 1) + 1)]


def _shade(share: float, right: bool) -> str:
    """White to blue on the diagonal, white to vermilion beside it."""
    end = np.array([0, 90, 142] if right else [190, 74, 0])
    red, green, blue = np.round(255 + (end - 255) * (0.12 + 0.88 * share)).astype(int)
    return f"#{red:02x}{green:02x}{blue:02x}"


def _compact(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"
