"""Drawings of a study's page, as inline SVG: differences with intervals, and small learning curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...errors import count_noun
from ..plots.axes import Axes, nice_ticks, slots
from ..plots.colours import FAINT, INK, colour
from ..plots.figures import SERIES
from ..plots.svg import shorten, svg, tag, text, text_width, tooltip
from .comparison import Gap
from .results import thin_out

MAX_POINTS = 50  # per curve
LOSS, BAGS = "loss", "bag accuracy"
PLOTS = {
    LOSS: ("train_loss", "val_loss"),
    BAGS: ("train_bag_accuracy", "val_bag_accuracy"),
}


def interval_plot(gaps: Sequence[Gap], label: str) -> str:
    """One row per method: a dot at the difference, a line over its interval where there is one."""
    names = [shorten(gap.method, 17) for gap in gaps]
    width, n, blue = 600, len(gaps), colour(0)
    ends = [end for gap in gaps for end in (gap.mean, gap.low, gap.high) if end is not None]
    ticks = nice_ticks(min(0, *ends), max(0, *ends))
    rows = slots(n)[::-1]  # the first one on top
    axes = Axes(12 + text_width(names, 12), width - 250, 8, 8 + 24 * n, (ticks[0], ticks[-1]), rows)
    labelled = (ticks[0], 0, ticks[-1])
    parts = axes.vertical_grid(((tick, f"{tick:g}" if tick in labelled else "") for tick in ticks), zero=INK)
    for row, gap in enumerate(gaps):
        y = axes.y(row)
        parts.append(text(names[row], x=axes.left - 8, y=y + 4, text_anchor="end", fill=INK))
        parts.append(text(gap.measured, x=axes.right + 8, y=y + 4, fill=FAINT, font_size=11))
        if gap.mean is None:
            continue
        dot = {"cx": axes.x(gap.mean), "cy": y, "r": 4}
        if gap.low is None or gap.high is None:
            parts.append(tag("circle", **dot, fill="#fff", stroke=blue, stroke_width=2))
            continue
        parts.append(tag("line", x1=axes.x(gap.low), x2=axes.x(gap.high), y1=y, y2=y, stroke=blue, stroke_width=2))
        parts.append(tag("circle", **dot, fill=blue))
    return svg(width, axes.bottom + 24, parts, label, font_size=12)


def small_curves(method: str, runs: Sequence[dict[str, Any]]) -> str:
    """Loss and bag accuracy by epoch, for training and validation bags; the curves of all runs overlap."""
    width, height, left, gap = 640, 250, 60, 60
    plot_width = (width - left - 20 - gap) / 2
    last = max(run["curve"]["epoch"][-1] for run in runs)
    parts = [text(method, x=8, y=24, font_size=26, font_weight=600, fill=INK)]
    for number, (title, names) in enumerate(PLOTS.items()):
        shown = [run for run in runs if all(name in run["curve"] for name in names)]
        values = [value for run in shown for name in names for value in run["curve"][name]]
        ends = (0.0, 1.0) if number else (min(0.0, *values), max(values) or 1.0)
        start = left + number * (plot_width + gap)
        axes = Axes(start, start + plot_width, 64, height - 40, (0, last or 1), ends)
        parts.append(text(title, x=axes.left, y=54, font_size=22, fill=FAINT))
        parts += axes.horizontal_grid(((end, f"{end:.3g}") for end in ends), font_size=20, stroke_width=2)
        below = {"x": axes.right, "y": height - 8, "text_anchor": "end", "font_size": 20, "fill": FAINT}
        parts.append(text(f"epoch {last + 1}", **below))
        for run in shown:
            for name, (stroke, dashes) in zip(names, SERIES.values(), strict=True):
                look = {"fill": "none", "stroke": stroke, "stroke_width": 3, "opacity": 0.7}
                look |= {} if dashes == "none" else {"stroke_dasharray": "8 5"}
                parts.append(tag("path", d=_route(run["curve"]["epoch"], run["curve"][name], axes), **look))
            parts.append(_kept_epoch(run, names[1], axes))
    return svg(width, height, parts, f"learning curves of {method}, {count_noun(len(runs), 'run')}")


def _route(epochs: Sequence[int], values: Sequence[float], axes: Axes) -> str:
    points = thin_out(list(zip(epochs, values, strict=True)), MAX_POINTS)
    return "M" + "L".join(f"{axes.x(epoch):.0f} {axes.y(value):.0f}" for epoch, value in points)


def _kept_epoch(run: dict[str, Any], name: str, axes: Axes) -> str:
    """A dot at the kept epoch, as high as the nearest point of the curve."""
    epochs, best = run["curve"]["epoch"], run["best_epoch"]
    nearest = min(range(len(epochs)), key=lambda i: abs(epochs[i] - best))
    exact = tooltip(f"fold {run.get('fold', 0)}: kept epoch {best + 1}")
    return tag("circle", exact, cx=axes.x(best), cy=axes.y(run["curve"][name][nearest]), r=6, fill=INK)
