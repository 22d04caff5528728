"""Lines over a few values of one knob, with error bars, as SVG that stands on its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .figures import FAINT, GRID, INK, nice_ticks
from .svg import drawing, hint, tag, words

WIDTH, HEIGHT = 480, 330
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 38, 66
SIDESTEP = 6  # between the error bars of neighbouring lines


class Point(NamedTuple):
    place: int  # which of the knob's values
    mean: float
    sd: float | None = None


class Line(NamedTuple):
    name: str
    colour: str
    points: Sequence[Point]
    dashed: bool = False  # to be compared with; without error bars and not in the legend


def line_plot(
    values: Sequence[str], lines: Sequence[Line], across: str, up: str, ceiling: tuple[str, float] | None = None
) -> str:
    """The values stand at equal distances; `across` and `up` name the axes, `ceiling` is a level to be compared with.

    Means are shares, between 0 and 1. A value may have two lines of text.
    """
    ends = [end for line in lines for _, mean, sd in line.points for end in (mean - (sd or 0), mean + (sd or 0))]
    ticks = nice_ticks(max(0, min(ends)), min(1, max([*ends, *([ceiling[1]] if ceiling else [])])))
    step = (WIDTH - LEFT - RIGHT) / len(values)
    x_of = lambda place: LEFT + (place + 0.5) * step
    y_of = lambda value: HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - ticks[0]) / (ticks[-1] - ticks[0])
    parts = [tag("rect", width=WIDTH, height=HEIGHT, fill="#fff")]
    for tick in ticks:
        parts.append(tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y_of(tick), y2=y_of(tick), stroke=GRID))
        parts.append(words(f"{tick:g}", x=LEFT - 7, y=y_of(tick) + 5, text_anchor="end", fill=FAINT))
    for place, value in enumerate(values):
        for row, text in enumerate(value.split("\n")):
            y = HEIGHT - BOTTOM + 19 + 17 * row
            parts.append(words(text, x=x_of(place), y=y, text_anchor="middle", fill=FAINT))
    parts.append(words(across, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 8, text_anchor="middle", fill=INK))
    turned = f"rotate(-90) translate({-(TOP + HEIGHT - BOTTOM) / 2:.0f} 15)"
    parts.append(words(up, transform=turned, text_anchor="middle", fill=INK))
    solid = [line for line in lines if not line.dashed]
    keys = [(line.name, line.colour, "none") for line in solid]
    if ceiling:
        keys.append((ceiling[0], INK, "2 4"))
        y = y_of(ceiling[1])
        look = {"stroke": INK, "stroke_width": 2, "stroke_dasharray": "2 4"}
        parts.append(
            tag("line", hint(f"{ceiling[0]}: {ceiling[1]:.3f}"), x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, **look)
        )
    for line in lines:
        aside = 0 if line.dashed else SIDESTEP * (solid.index(line) - (len(solid) - 1) / 2)
        parts += _drawn(line, lambda place, aside=aside: x_of(place) + aside, y_of)
    parts += _legend(keys)
    return drawing(WIDTH, HEIGHT, parts, f"{up} by {across}", font_family="sans-serif", font_size=14)


def _drawn(line: Line, x_of, y_of) -> list[str]:
    route = " ".join(f"{x_of(place):.1f},{y_of(mean):.1f}" for place, mean, _ in line.points)
    dash = "6 4" if line.dashed else "none"
    look = {"stroke": line.colour, "stroke_width": 2}
    parts = [tag("polyline", points=route, fill="none", stroke_dasharray=dash, **look)]
    for place, mean, sd in () if line.dashed else line.points:
        x, said = x_of(place), f"{line.name}: {mean:.3f}" + ("" if sd is None else f" ± {sd:.3f}")
        if sd:
            low, high = y_of(mean - sd), y_of(mean + sd)
            parts.append(tag("line", x1=x, x2=x, y1=low, y2=high, **look))
            parts += [tag("line", x1=x - 4, x2=x + 4, y1=y, y2=y, **look) for y in (low, high)]
        parts.append(tag("circle", hint(said), cx=x, cy=y_of(mean), r=4, fill=line.colour))
    return parts


def _legend(keys: Sequence[tuple[str, str, str]]) -> list[str]:
    parts, x = [], float(LEFT)
    for name, stroke, dash in keys:
        parts.append(tag("line", x1=x, x2=x + 22, y1=16, y2=16, stroke=stroke, stroke_width=3, stroke_dasharray=dash))
        parts.append(words(name, x=x + 28, y=21, fill=INK))
        x += 46 + 8 * len(name)
    return parts
