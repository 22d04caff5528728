"""Bags of one's own: manifests of images or features, and folders of feature files. `checking` reads them."""

import os
from pathlib import Path

from .custom_bags import CustomBags
from .request import ReadOptions, as_pixel_size

__all__ = ["CustomBags", "ReadOptions", "as_pixel_size", "is_custom"]

TABLES = (".csv", ".parquet")


def is_custom(path: Path) -> bool:
    """Whether this path is a manifest or a folder, rather than a file of labelled instances."""
    return path.suffix.lower() in TABLES or os.path.isdir(path)  # a name too long for a path is none
