"""Drawings of pages, as inline SVG: learning curves, dots with intervals, confusion matrix, box plot, maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .axes import Axes, nice_ticks, slots
from .colours import BLUE, FAINT, GRID, INK, PLATE, VERMILION, colour
from .svg import shorten_distinctly, svg, tag, text, text_width, tooltip

SERIES = {"training": ("#e69f00", "5 3"), "validation": ("#0072b2", "none")}  # colour and dashes of a line
MAX_NUMBERED_CLASSES = 24  # with more classes, cells of the confusion matrix do not show their count
NAME_LENGTH = 14
ROW = 24  # pixels of a row of dots or boxes


class Curve(NamedTuple):
    """A figure of one run by epoch."""

    epochs: Sequence[int]  # from 1
    training: Sequence[float]
    validation: Sequence[float]
    kept: int  # epoch
    name: str = ""  # of the run


def learning_curves(title: str, curves: Sequence[Curve], percent: bool = False) -> str:
    """Two lines per run over the epochs, and a dot at the epoch that was kept; `percent` for values from 0 to 1."""
    width, height = 460, 250
    values = np.concatenate([np.asarray([curve.training, curve.validation], float).ravel() for curve in curves])
    epochs = max(curve.epochs[-1] for curve in curves)
    ticks = np.linspace(0, 1, 6).tolist() if percent else nice_ticks(min(values.min(), 0), values.max())
    epoch_range = (1, epochs) if epochs > 1 else (0.5, 1.5)
    axes = Axes(52, width - 14, 34, height - 38, epoch_range, (ticks[0], ticks[-1]))
    parts = [text(title, x=axes.left, y=18, font_size=14, font_weight=600, fill=INK)]
    parts += axes.horizontal_grid((tick, f"{tick:.0%}" if percent else f"{tick:g}") for tick in ticks)
    for epoch in sorted({1, *(round(tick) for tick in nice_ticks(0, epochs) if 1 <= tick <= epochs)}):
        place = {"x": axes.x(epoch), "y": axes.bottom + 17, "text_anchor": "middle"}
        parts.append(text(epoch, **place, font_size=12, fill=FAINT))
    parts.append(text("epoch", x=axes.right, y=height - 4, text_anchor="end", font_size=12, fill=FAINT))
    for key, (name, (stroke, dashes)) in zip((190, 94), SERIES.items(), strict=True):
        look = {"fill": "none", "stroke": stroke, "stroke_width": 2, "stroke_dasharray": dashes}
        left = axes.right - key
        parts.append(tag("line", x1=left, x2=left + 20, y1=14, y2=14, **look))
        parts.append(text(name, x=left + 25, y=18, font_size=12, fill=INK))
        for curve in curves:
            points = zip(curve.epochs, getattr(curve, name), strict=True)
            route = " ".join(f"{axes.x(epoch):.1f},{axes.y(value):.1f}" for epoch, value in points)
            parts.append(tag("polyline", points=route, **look))
    for curve in curves:
        nearest = min(range(len(curve.epochs)), key=lambda i: abs(curve.epochs[i] - curve.kept))
        exact = tooltip(f"{curve.name}kept epoch {curve.kept}: {curve.validation[nearest]:.4g}")
        place = {"cx": axes.x(curve.kept), "cy": axes.y(curve.validation[nearest])}
        parts.append(tag("circle", exact, **place, r=4, fill=INK))
    return svg(width, height, parts, f"{title} by epoch, of {epochs}")


class Dot(NamedTuple):
    name: str
    mean: float
    low: float | None  # ends of its interval
    high: float | None
    shown: str  # beside it


def dot_plot(dots: Sequence[Dot], lines: Mapping[str, float], label: str) -> str:
    """A row per dot, with a line over its interval; `lines` are vertical ones, of what the dots are compared with."""
    names = shorten_distinctly([dot.name for dot in dots], 2 * NAME_LENGTH)
    ends = [end for dot in dots for end in (dot.mean, dot.low, dot.high) if end is not None]
    ticks = nice_ticks(min([*ends, *lines.values()]), max([*ends, *lines.values()]))
    left, top, width = 12 + text_width(names, 12), 24 if lines else 8, 640
    right = width - 16 - text_width([dot.shown for dot in dots], 10)
    axes = Axes(left, right, top, top + ROW * len(dots), (ticks[0], ticks[-1]), slots(len(dots))[::-1])
    parts = axes.vertical_grid((tick, f"{tick:g}") for tick in ticks)
    for place, (name, value) in enumerate(sorted(lines.items(), key=lambda line: line[1])):
        parts.append(axes.vertical(value, tooltip(f"{name}: {value:.3f}"), stroke=FAINT, stroke_dasharray="4 3"))
        look = {"text_anchor": "start" if place else "end", "fill": FAINT, "font_size": 11}
        parts.append(text(name, x=axes.x(value) + (4 if place else -4), y=top - 8, **look))
    for row, dot in enumerate(dots):
        y = axes.y(row)
        parts.append(tag("g", tooltip(dot.name), text(names[row], x=left - 8, y=y + 4, text_anchor="end", fill=INK)))
        parts.append(text(dot.shown, x=right + 8, y=y + 4, fill=FAINT, font_size=11))
        if dot.low is not None and dot.high is not None:
            parts.append(tag("line", x1=axes.x(dot.low), x2=axes.x(dot.high), y1=y, y2=y, stroke=BLUE, stroke_width=2))
        parts.append(tag("circle", tooltip(f"{dot.name}: {dot.shown}"), cx=axes.x(dot.mean), cy=y, r=4, fill=BLUE))
    return svg(width, axes.bottom + 24, parts, label, font_size=12)


def confusion_matrix(matrix: np.ndarray, classes: Sequence[str], rows: str, columns: str) -> str:
    """Counts by true class (rows) and predicted class (columns), shaded by their share of the row."""
    n = len(classes)
    cell = 36 if n <= 12 else 26 if n <= MAX_NUMBERED_CLASSES else max(9, 720 // n)
    font = min(12, cell)
    names = shorten_distinctly(classes, NAME_LENGTH)
    margin = 34 + text_width(names, font)
    side = margin + n * cell
    heading = min((margin + side) / 2, side - text_width([columns], font) / 2)  # with few classes, left of the middle
    shares = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
    turned = f"rotate(-90) translate({-(margin + side) / 2:.0f} 13)"
    parts = [
        text(rows, transform=turned, text_anchor="middle", fill=FAINT),
        text(columns, x=heading, y=13, text_anchor="middle", fill=FAINT),
        tag("rect", x=margin, y=margin, width=n * cell, height=n * cell, fill=PLATE, stroke=GRID),
    ]
    for i, name in enumerate(classes):
        middle = margin + (i + 0.5) * cell
        turned = f"translate({middle + font / 3:.1f} {margin - 6:.1f}) rotate(-90)"
        row_name = text(names[i], x=margin - 6, y=middle + font / 3, text_anchor="end", fill=INK)
        parts.append(tag("g", tooltip(name), row_name))
        parts.append(tag("g", tooltip(name), text(names[i], transform=turned, fill=INK)))
    for true, predicted in np.argwhere(matrix):
        count, share = int(matrix[true, predicted]), float(shares[true, predicted])
        x, y = margin + predicted * cell, margin + true * cell
        exact = tooltip(f"{classes[true]} as {classes[predicted]}: {count} ({share:.0%} of the row)")
        shade = {"fill": BLUE if true == predicted else VERMILION, "fill_opacity": round(0.12 + 0.88 * share, 2)}
        parts.append(tag("rect", exact, x=x + 0.5, y=y + 0.5, width=cell - 1, height=cell - 1, **shade))
        if n <= MAX_NUMBERED_CLASSES:
            ink = "white" if share > 0.55 else INK
            place = {"x": x + cell / 2, "y": y + cell / 2 + 4, "text_anchor": "middle"}
            parts.append(text(_compact(count), **place, fill=ink, font_size=11, pointer_events="none"))
    label = f"confusion matrix of {n} classes, {int(matrix.sum())} in all"
    size = f"width:{side + 2:.0f}px;min-width:{margin + n * min(cell, 18):.0f}px;max-width:100%"
    return svg(side + 2, side + 2, parts, label, font_size=font, style=size)


def instance_map(coordinates: np.ndarray, predicted: np.ndarray, classes: Sequence[str], y_up: bool = False) -> str:
    """One dot per instance at its coordinates, coloured by predicted class; y grows downwards as in images, or up.

    The values at the ends of x and y are written at the edges.
    """
    width, padding, margin = 300.0, 8.0, 16.0
    low, span = coordinates.min(axis=0), np.ptp(coordinates, axis=0)
    scale = (width - 2 * padding) / (span.max() or 1.0)
    height = max(float(span[1] * scale), 60.0) + 2 * padding
    direction = [1, -1] if y_up else [1, 1]
    places = (coordinates - low - span / 2) * direction * scale + [width / 2, height / 2]
    dot = min(8.0, max(1.5, 0.8 * math.sqrt(width * height / len(coordinates))))
    parts = [tag("rect", width=width, height=height, fill=PLATE, stroke=GRID)]
    for number in np.unique(predicted):
        of_class = places[predicted == number]
        route = "".join(f"M{x:.1f} {y:.1f}h0" for x, y in of_class)
        exact = tooltip(f"{classes[number]}: {len(of_class)} of {len(predicted)}")
        look = {"stroke": colour(number), "stroke_width": dot, "stroke_linecap": "round"}
        parts.append(tag("path", exact, d=route, fill="none", **look))
    (left, right), (first, last) = zip(low, low + span, strict=True)
    ranges = f"x {left:g} to {right:g}, y {first:g} to {last:g} {'upwards' if y_up else 'downwards'}"
    parts.append(text(ranges, x=2, y=height + margin - 4, font_size=10, fill=FAINT))
    return svg(width, height + margin, parts, f"map of {len(predicted)} instances by predicted class")


def _compact(count: int) -> str:
    """
    >>> _compact(9999), _compact(12_345)
    ('9999', '12k')
    """
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"
