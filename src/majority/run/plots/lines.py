"""Lines over a few values of one variable, with error bars, as a stand-alone SVG."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .axes import Axes, nice_ticks, slots
from .colours import FAINT, INK
from .svg import svg, tag, text, tooltip

WIDTH, HEIGHT = 480, 330
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 38, 66  # margins
SIDESTEP = 6  # between the error bars of neighbouring lines


class Point(NamedTuple):
    place: int  # index of the value
    mean: float
    sd: float | None = None


class Line(NamedTuple):
    name: str
    colour: str
    points: Sequence[Point]
    dashed: bool = False  # a reference: no error bars, not in the legend


def line_plot(
    values: Sequence[str],
    lines: Sequence[Line],
    x_label: str,
    y_label: str,
    ceiling: tuple[str, float] | None = None,
) -> str:
    """Lines over values at equal distances; `ceiling` is the name and the height of a horizontal reference line.

    Means lie between 0 and 1. The text of a value may have two lines.
    """
    ends = [end for line in lines for _, mean, sd in line.points for end in (mean - (sd or 0), mean + (sd or 0))]
    ticks = nice_ticks(max(0, min(ends)), min(1, max([*ends, *([ceiling[1]] if ceiling else [])])))
    axes = Axes(LEFT, WIDTH - RIGHT, TOP, HEIGHT - BOTTOM, slots(len(values)), (ticks[0], ticks[-1]))
    parts = [tag("rect", width=WIDTH, height=HEIGHT, fill="#fff")]
    parts += axes.horizontal_grid(((tick, f"{tick:g}") for tick in ticks), font_size=14, gap=7)
    for place, value in enumerate(values):
        for row, content in enumerate(value.split("\n")):
            y = axes.bottom + 19 + 17 * row
            parts.append(text(content, x=axes.x(place), y=y, text_anchor="middle", fill=FAINT))
    parts.append(text(x_label, x=(axes.left + axes.right) / 2, y=HEIGHT - 8, text_anchor="middle", fill=INK))
    turned = f"rotate(-90) translate({-(axes.top + axes.bottom) / 2:.0f} 15)"
    parts.append(text(y_label, transform=turned, text_anchor="middle", fill=INK))
    solid = [line for line in lines if not line.dashed]
    keys = [(line.name, line.colour, "none") for line in solid]
    if ceiling:
        name, height = ceiling
        keys.append((name, INK, "2 4"))
        exact = tooltip(f"{name}: {height:.3f}")
        parts.append(axes.horizontal(height, exact, stroke=INK, stroke_width=2, stroke_dasharray="2 4"))
    for line in lines:
        offset = 0 if line.dashed else SIDESTEP * (solid.index(line) - (len(solid) - 1) / 2)
        parts += _line_with_error_bars(line, axes, offset)
    parts += _legend(keys)
    return svg(WIDTH, HEIGHT, parts, f"{y_label} by {x_label}", font_family="sans-serif", font_size=14)


def _line_with_error_bars(line: Line, axes: Axes, offset: float) -> list[str]:
    route = " ".join(f"{axes.x(place) + offset:.1f},{axes.y(mean):.1f}" for place, mean, _ in line.points)
    dashes = "6 4" if line.dashed else "none"
    look = {"stroke": line.colour, "stroke_width": 2}
    parts = [tag("polyline", points=route, fill="none", stroke_dasharray=dashes, **look)]
    for place, mean, sd in () if line.dashed else line.points:
        x, exact = axes.x(place) + offset, f"{line.name}: {mean:.3f}" + ("" if sd is None else f" ± {sd:.3f}")
        if sd:
            low, high = axes.y(mean - sd), axes.y(mean + sd)
            parts.append(tag("line", x1=x, x2=x, y1=low, y2=high, **look))
            parts += [tag("line", x1=x - 4, x2=x + 4, y1=y, y2=y, **look) for y in (low, high)]
        parts.append(tag("circle", tooltip(exact), cx=x, cy=axes.y(mean), r=4, fill=line.colour))
    return parts


def _legend(keys: Sequence[tuple[str, str, str]]) -> list[str]:
    """One entry per name, colour and dashes."""
    parts, x = [], float(LEFT)
    for name, stroke, dashes in keys:
        parts.append(tag("line", x1=x, x2=x + 22, y1=16, y2=16, stroke=stroke, stroke_width=3, stroke_dasharray=dashes))
        parts.append(text(name, x=x + 28, y=21, fill=INK))
        x += 46 + 8 * len(name)
    return parts
