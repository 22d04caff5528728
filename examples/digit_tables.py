"""Handwritten digits as tables whose bag labels say less, or more, than the most common class.

    python examples/digit_tables.py tables

300 bags of 32 digits (from scikit-learn, no download), of which the most common one has at most about 40 %: 200 bags
for training, 50 for validation and 50 for testing. A table has one row per digit, with its 64 pixels. The column
`label`, the true digit, is filled in for the test bags, to measure the result. Beside each table but the last there is
NAME-without.csv, which leaves out what the table shows.

few-labels.csv  100 training bags have a label, 100 have none; without: these 100 alone
doubtful.csv    where the two most common digits are nearly equally frequent, the label names both; without: no label
ranked.csv      a second label names the second most common digit; digit 0 wins 5 times as often as digit 9
weighted.csv    digits have weights, and the label is the digit with the largest sum of weights
known.csv       the true digit of five images of each class is known in the training bags
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

import majority

LABELLED = 100  # training bags that have a label in few-labels.csv
CLOSE = 2  # a label is doubtful if the most common digit leads by fewer instances
SPREAD = 1.5  # standard deviation of the logarithm of the weights
KNOWN = 5  # known digits per class


def digits(**choices: object) -> pd.DataFrame:
    """One row per digit, without a bag label; `truth` is the digit."""
    parts = majority.load_source("digits").make_parts(scenario="small", fold=1, bags=200, **choices)
    tables = []
    for split, bags in parts._asdict().items():
        names = [f"{split}{number}" for number in range(len(bags))]
        truth = np.array(bags.classes)[bags.instance_labels]
        columns = {"bag": np.repeat(names, bags.sizes), "bag_label": "", "split": split, "truth": truth}
        pixels = bags.instances().reshape(len(truth), -1)
        tables.append(pd.concat([pd.DataFrame(columns), pd.DataFrame(pixels).add_prefix("p")], axis=1))
    table = pd.concat(tables, ignore_index=True)
    table.insert(3, "label", table["truth"].where(table["split"] == "test", ""))
    return table


def ranking(table: pd.DataFrame, weight: str | None = None) -> pd.DataFrame:
    """The digits of each bag, the most common one first (of equally common ones the lower): one row per bag, with the
    columns first, second and lead."""
    ones = pd.Series(1.0, table.index) if weight is None else table[weight]
    sums = ones.groupby([table["bag"], table["truth"]]).sum().unstack(fill_value=0.0)
    order = np.argsort(-sums.to_numpy(), axis=1, kind="stable")[:, :2]
    largest = np.take_along_axis(sums.to_numpy(), order, axis=1)
    first, second = (sums.columns.to_numpy()[order[:, place]] for place in (0, 1))
    return pd.DataFrame({"first": first, "second": second, "lead": largest[:, 0] - largest[:, 1]}, index=sums.index)


def write(folder: Path, name: str, table: pd.DataFrame) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    table.drop(columns="truth").to_csv(folder / f"{name}.csv", index=False)
    print(f"{table['bag'].nunique()} bags: {folder / name}.csv")


def write_tables(folder: Path) -> None:
    rng = np.random.default_rng(0)
    table = digits()
    in_training, order = table["split"] == "train", ranking(table)
    table["bag_label"] = table["bag"].map(order["first"])

    labelled = ~in_training | table["bag"].isin([f"train{number}" for number in range(LABELLED)])
    write(folder, "few-labels", table.assign(bag_label=table["bag_label"].where(labelled, "")))
    write(folder, "few-labels-without", table[labelled])

    doubtful = (order["lead"] < CLOSE) & order.index.str.startswith("train")
    both = order["first"].where(~doubtful, order["first"] + "|" + order["second"])
    write(folder, "doubtful", table.assign(bag_label=table["bag"].map(both)))
    write(folder, "doubtful-without", table.assign(bag_label=table["bag"].map(order["first"].where(~doubtful, ""))))

    known = table["label"].copy()
    for _, rows in table[in_training].groupby("truth"):
        known[rows.sample(KNOWN, random_state=0).index] = rows["truth"].iloc[0]
    write(folder, "known", table.assign(label=known))

    table.insert(2, "weight", np.exp(SPREAD * rng.normal(size=len(table))).round(4))
    table["bag_label"] = table["bag"].map(ranking(table, "weight")["first"])
    write(folder, "weighted", table)
    write(folder, "weighted-without", table.drop(columns="weight"))

    table = digits(winner_ratio=5)
    order = ranking(table)
    table["bag_label"] = table["bag"].map(order["first"])
    write(folder, "ranked-without", table)
    table.insert(2, "second_label", table["bag"].map(order["second"]))
    write(folder, "ranked", table)


if __name__ == "__main__":
    write_tables(Path(sys.argv[1] if len(sys.argv) > 1 else "tables"))
