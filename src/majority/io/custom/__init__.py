"""Bags of your own: manifests of images or features, and folders of feature files. `load` reads and checks them."""

import os
from pathlib import Path

from .custom_bags import CustomBags
from .options import Block, ColumnNames, ReadOptions, as_pixel_size

__all__ = ["Block", "ColumnNames", "CustomBags", "ReadOptions", "as_pixel_size", "is_custom"]

TABLE_SUFFIXES = (".csv", ".tsv", ".parquet")


def is_custom(path: Path) -> bool:
    """Whether this path is a manifest or a folder, rather than a file of labelled instances."""
    return path.suffix.lower() in TABLE_SUFFIXES or os.path.isdir(path)  # False if the name is too long for a path
