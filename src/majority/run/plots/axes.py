"""Axes of a plot: where values lie in pixels, grid lines and their labels."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .colours import FAINT, GRID
from .svg import tag, text

Tick = tuple[float, str]  # a value and its label; an empty label is not drawn


@dataclass(frozen=True)
class Axes:
    """The plot area in pixels, and the values at its edges.

    Pixels grow downwards, values upwards. For rows or columns, one per item, use `slots`.

    >>> axes = Axes(left=10, right=110, top=0, bottom=50, x_range=(0, 4), y_range=(-1, 1))
    >>> axes.x(1), axes.y(0)
    (35.0, 25.0)
    """

    left: float
    right: float
    top: float
    bottom: float
    x_range: tuple[float, float] = (0.0, 1.0)
    y_range: tuple[float, float] = (0.0, 1.0)

    def x(self, value: float) -> float:
        first, last = self.x_range
        return self.left + (self.right - self.left) * (value - first) / (last - first)

    def y(self, value: float) -> float:
        first, last = self.y_range
        return self.bottom - (self.bottom - self.top) * (value - first) / (last - first)

    def horizontal(self, value: float, *children: str, **look: object) -> str:
        """A line at `value`, as wide as the plot."""
        y = self.y(value)
        return tag("line", *children, x1=self.left, x2=self.right, y1=y, y2=y, **look)

    def vertical(self, value: float, *children: str, **look: object) -> str:
        """A line at `value`, as high as the plot."""
        x = self.x(value)
        return tag("line", *children, x1=x, x2=x, y1=self.top, y2=self.bottom, **look)

    def horizontal_grid(self, ticks: Iterable[Tick], font_size: int = 12, gap: int = 6, **look: object) -> list[str]:
        """One line per tick, labelled on the left."""
        parts = []
        for value, label in ticks:
            place = {"x": self.left - gap, "y": self.y(value) + 2 * font_size // 5}  # vertically centred
            parts.append(self.horizontal(value, stroke=GRID, **look))
            parts.append(text(label, **place, text_anchor="end", font_size=font_size, fill=FAINT))
        return parts

    def vertical_grid(self, ticks: Iterable[Tick], zero: str = GRID) -> list[str]:
        """One line per tick, labelled below; the line at 0 has the colour `zero`."""
        parts = []
        for value, label in ticks:
            parts.append(self.vertical(value, stroke=zero if value == 0 else GRID))
            if label:
                parts.append(text(label, x=self.x(value), y=self.bottom + 16, text_anchor="middle", fill=FAINT))
        return parts


def slots(n: int) -> tuple[float, float]:
    """The range of values that places items 0 to n - 1 at equal distances, each in the middle of its slot.

    >>> Axes(0, 90, 0, 1, x_range=slots(3)).x(1)
    45.0
    """
    return -0.5, n - 0.5


def nice_ticks(low: float, high: float) -> list[float]:
    """Round numbers at equal distances that enclose `low` and `high`.

    >>> nice_ticks(0, 2.6)
    [0.0, 1.0, 2.0, 3.0]
    """
    span = high - low or 1.0
    step = 10 ** math.floor(math.log10(span / 4))
    step *= next(factor for factor in (1, 2, 5, 10) if span / (step * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(i * step, 10) for i in range(first, max(last, first + 1) + 1)]
