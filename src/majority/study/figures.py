"""Drawings of a study's page, as inline SVG: differences with intervals, and small learning curves."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import count_noun
from ..plots.figures import FAINT, GRID, INK, SERIES, nice_ticks
from ..plots.svg import drawing, hint, shorten, tag, text_width, words
from .comparison import Gap
from .results import thin_out

POINTS = 50  # of a curve
PLOTS = {"loss": ("train_loss", "val_loss"), "bags right": ("train_bag_accuracy", "val_bag_accuracy")}


def interval_plot(gaps: Sequence[Gap], label: str) -> str:
    """A row a method: a dot at its difference, a line over the interval where there is one."""
    short = [shorten(gap.method, 17) for gap in gaps]
    width, row, left, right, top = 540, 24, 12 + text_width(short, 12), 190, 8
    ends = [end for gap in gaps for end in (gap.mean, gap.low, gap.high) if end is not None]
    ticks = nice_ticks(min(0, *ends), max(0, *ends))
    across = lambda value: left + (width - left - right) * (value - ticks[0]) / (ticks[-1] - ticks[0])
    end = top + row * len(gaps)
    parts = []
    for i, tick in enumerate(ticks):
        x = across(tick)
        parts.append(tag("line", x1=x, x2=x, y1=top, y2=end, stroke=INK if tick == 0 else GRID))
        if i in (0, len(ticks) - 1) or tick == 0:
            parts.append(words(f"{tick:g}", x=x, y=end + 16, text_anchor="middle", fill=FAINT))
    for i, gap in enumerate(gaps):
        y = top + (i + 0.5) * row
        name = words(short[i], x=left - 8, y=y + 4, text_anchor="end", fill=INK)
        said = words(gap.measured, x=width - right + 8, y=y + 4, fill=FAINT, font_size=10)
        parts += [name, said]
        if gap.low is None:
            parts.append(tag("circle", cx=across(gap.mean), cy=y, r=4, fill="#fff", stroke="#0072b2", stroke_width=2))
            continue
        low, high = across(gap.low), across(gap.high)
        parts.append(tag("line", x1=low, x2=high, y1=y, y2=y, stroke="#0072b2", stroke_width=2))
        parts.append(tag("circle", cx=across(gap.mean), cy=y, r=4, fill="#0072b2"))
    return drawing(width, end + 24, parts, label, font_size=12)


def small_curves(method: str, runs: Sequence[dict]) -> str:
    """Loss and bags right by epoch, training and validation, all runs of a method over each other."""
    width, height, top, bottom, left, gap = 640, 250, 64, 40, 60, 40
    room = (width - left - 2 * gap) / 2
    last = max(run["curve"]["epoch"][-1] for run in runs) or 1
    parts = [words(method, x=8, y=24, font_size=26, font_weight=600, fill=INK)]
    for place, (title, names) in enumerate(PLOTS.items()):
        start = left + place * (room + gap + 20)
        values = [value for run in runs for name in names for value in run["curve"][name]]
        low, high = (0.0, 1.0) if place else (min(0.0, *values), max(values) or 1.0)
        across = lambda epoch, start=start: start + room * epoch / last
        up = lambda value, low=low, high=high: height - bottom - (height - top - bottom) * (value - low) / (high - low)
        parts.append(words(title, x=start, y=54, font_size=22, fill=FAINT))
        for value in (low, high):
            y = up(value)
            parts.append(tag("line", x1=start, x2=start + room, y1=y, y2=y, stroke=GRID, stroke_width=2))
            parts.append(words(f"{value:.3g}", x=start - 6, y=y + 8, text_anchor="end", font_size=20, fill=FAINT))
        ending = {"x": start + room, "y": height - 8, "text_anchor": "end", "font_size": 20, "fill": FAINT}
        parts.append(words(f"epoch {last}", **ending))
        for run in runs:
            for name, (stroke, dash) in zip(names, SERIES.values(), strict=True):
                route = _route(run["curve"]["epoch"], run["curve"][name], across, up)
                look = {"fill": "none", "stroke": stroke, "stroke_width": 3, "opacity": 0.7}
                parts.append(tag("path", d=route, **look | ({} if dash == "none" else {"stroke_dasharray": "8 5"})))
            parts.append(_best(run, names[1], across, up))
    return drawing(width, height, parts, f"learning curves of {method}, {count_noun(len(runs), 'run')}")


def _route(epochs: list, values: list, across, up) -> str:
    points = thin_out(list(zip(epochs, values, strict=True)), POINTS)
    return "M" + "L".join(f"{across(epoch):.0f} {up(value):.0f}" for epoch, value in points)


def _best(run: dict, name: str, across, up) -> str:
    """A dot at the epoch that was kept, on the nearest point of its curve."""
    epochs, best = run["curve"]["epoch"], run["best_epoch"]
    nearest = min(range(len(epochs)), key=lambda i: abs(epochs[i] - best))
    said = hint(f"fold {run.get('fold', 0)}: best epoch {best}")
    return tag("circle", said, cx=across(best), cy=up(run["curve"][name][nearest]), r=6, fill=INK)
