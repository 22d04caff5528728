"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "bag"), counted(1200, "bag")
    ('1 bag', '1,200 bags')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
