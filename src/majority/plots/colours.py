"""Colours of the drawings. Those of classes differ to normal and to colour-blind eyes (a test measures it)."""

from __future__ import annotations

INK, FAINT, GRID = "#1c2430", "#5b6675", "#dfe4ea"  # text and lines, labels of axes, grid lines

# The first seven are those of Okabe and Ito. Each later one lies, in OKLab, as far as possible from all before it as
# seen by normal, protanopic and deuteranopic eyes. After the last one they repeat.
PALETTE = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#555555", "#33ffdd"),
    *("#440066", "#333300", "#ccee66", "#88cc99", "#224499", "#5588ee", "#55ddff", "#775500"),
    *("#333344", "#557777", "#33cccc", "#554422", "#444466", "#555588", "#22bb77", "#cccc55"),
)


def colour(class_number: int) -> str:
    """The colour of a class."""
    return PALETTE[class_number % len(PALETTE)]


def text_colour(background: str) -> str:
    """Black or white, whichever is easier to read on the background.

    >>> text_colour("#ccee66"), text_colour("#440066")
    ('#111', '#fff')
    """
    red, green, blue = (int(background[i : i + 2], 16) / 255 for i in (1, 3, 5))
    luminance = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    return "#111" if luminance > 0.18 else "#fff"
