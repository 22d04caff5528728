"""Fields become bags: one bag per cell of a grid and year, labelled with its most common class.

    python examples/fields_to_bags.py fields.csv crops.csv

FIELDS has one row per field: x and y (longitude and latitude of its centre), year, label (its class), and numeric
columns, such as the vegetation index of 23 dates. Cells with fewer than four fields, or with two most common classes,
are left out. Neighbouring cells are one group, so that training and test bags do not lie side by side.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

CELL = 0.05  # degrees
CELLS_PER_GROUP = 4  # per side
FEWEST_FIELDS = 4


def most_common(labels: pd.Series) -> str | None:
    """None if two classes are equally common."""
    counts = labels.value_counts()
    return counts.index[0] if len(counts) == 1 or counts.iloc[0] > counts.iloc[1] else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fields")
    parser.add_argument("bags")
    arguments = parser.parse_args()
    fields = pd.read_csv(arguments.fields, dtype={"label": str, "year": str})
    column, row = (np.floor(fields[name] / CELL).astype(int) for name in ("x", "y"))
    fields["bag"] = fields["year"] + "_" + column.astype(str) + "_" + row.astype(str)
    groups = [(cell // CELLS_PER_GROUP).astype(str) for cell in (column, row)]
    fields["group"] = "g" + groups[0] + "_" + groups[1]
    fields["bag_label"] = fields.groupby("bag")["label"].transform(most_common)
    large = fields.groupby("bag")["label"].transform("size") >= FEWEST_FIELDS
    fields = fields[large & fields["bag_label"].notna()].drop(columns="year").sort_values("bag", kind="stable")
    first = ["bag", "bag_label", "group", "label", "x", "y"]
    fields[first + [name for name in fields if name not in first]].to_csv(arguments.bags, index=False)
    print(f"{len(fields):,} fields in {fields['bag'].nunique():,} bags: {arguments.bags}")


if __name__ == "__main__":
    main()
