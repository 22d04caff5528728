"""ColumnEncoder: how the columns of a table become features: numbers as they are, categories, missing numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class FeatureColumn:
    """One column of a table, and the features that it becomes."""

    name: str
    categories: tuple[str, ...] = ()  # of a column of text: one feature for each
    fill: float | None = None  # in place of a missing number; a second feature says where it is missing

    @property
    def features(self) -> tuple[str, ...]:
        """
        >>> FeatureColumn("site", ("north", "south")).features, FeatureColumn("age", fill=41.0).features
        (('site=north', 'site=south'), ('age', 'age is missing'))
        """
        if self.categories:
            return tuple(f"{self.name}={category}" for category in self.categories)
        return (self.name,) if self.fill is None else (self.name, f"{self.name} is missing")

    def encode(self, cells: np.ndarray) -> list[np.ndarray]:
        """(n,) numbers, NaN where missing, or text -> one array (n,) per feature."""
        if self.categories:
            return [cells == category for category in self.categories]
        if self.fill is None:
            return [cells]
        missing = np.isnan(cells)
        return [np.where(missing, self.fill, cells), missing]


@dataclass(frozen=True)
class ColumnEncoder:
    """The columns that are features, in the order of their features."""

    columns: tuple[FeatureColumn, ...]

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> ColumnEncoder:
        return cls(tuple(map(FeatureColumn, names)))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def features(self) -> tuple[str, ...]:
        return tuple(name for column in self.columns for name in column.features)

    @property
    def plain(self) -> bool:
        """Whether each column is one feature, as it is."""
        return all(column.features == (column.name,) for column in self.columns)

    def encode(self, cells: Iterable[np.ndarray], rows: int, dtype: np.dtype) -> np.ndarray:  # (n, d)
        """The features of columns, of which only one at a time is needed."""
        features, number = np.empty((rows, len(self.features)), dtype), 0
        for column, values in zip(self.columns, cells, strict=True):
            for feature in column.encode(values):
                features[:, number] = feature
                number += 1
        return features

    def encode_frame(self, frame: pd.DataFrame) -> np.ndarray:  # (n, d) float64
        """The features of a table that has these columns.

        >>> import pandas as pd
        >>> encoder = ColumnEncoder((FeatureColumn("age", fill=40.0), FeatureColumn("site", ("a", "b"))))
        >>> encoder.encode_frame(pd.DataFrame({"site": ["b", "c"], "age": [None, 7]})).tolist()
        [[40.0, 1.0, 0.0, 1.0], [7.0, 0.0, 0.0, 0.0]]
        """
        cells = (
            frame[column.name].astype(object).astype(str).to_numpy()
            if column.categories
            else frame[column.name].to_numpy(np.float64, na_value=np.nan)
            for column in self.columns
        )
        return self.encode(cells, len(frame), np.dtype(np.float64))
