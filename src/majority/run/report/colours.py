"""Colours of the drawings. Those of classes differ to normal and to colour-blind eyes (a test measures it)."""

from __future__ import annotations

INK, FAINT, GRID = "#1c2430", "#5b6675", "#dfe4ea"  # of pictures; those of pages are in style.css

# The first seven are those of Okabe and Ito. Each later one lies, in OKLab, as far as possible from all before it as
# seen by normal, protanopic and deuteranopic eyes, among colours that are neither very dark nor very light.
PALETTE = (
    *("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#555555", "#aaffbb"),
    *("#0000ff", "#66ff00", "#bbddff", "#8877ff", "#88cc99", "#553399", "#aa1100", "#aa4488"),
    *("#cc22cc", "#ff4477", "#66ee88", "#5500cc", "#11cccc", "#aa5533", "#5555ff", "#7799ff"),
)


def colour(class_number: int) -> str:
    """The colour of a class. After the palette they repeat."""
    return PALETTE[class_number % len(PALETTE)]


def text_colour(background: str) -> str:
    """Black or white, whichever is easier to read on the background.

    >>> text_colour("#ccee66"), text_colour("#440066")
    ('#111', '#fff')
    """
    red, green, blue = (int(background[i : i + 2], 16) / 255 for i in (1, 3, 5))
    luminance = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    return "#111" if luminance > 0.18 else "#fff"
