"""Our figures beside those printed in the paper, from the files of benchmarks/paper_tables.py.

    python benchmarks/paper_values.py results/paper      writes tables.md and summary.csv there

Printed figures are means of five folds with one seed: ResNet-18, Adam 3e-4, 1,500 epochs.
"""

from __future__ import annotations

import argparse
import csv
import math
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from statistics import fmean

import pandas as pd
from helpers import read_raw, write_csv

from majority.run.report.blocks import signed
from majority.run.study.figures import Row, StudyFigures, records, split
from majority.run.study.results import Setting
from majority.run.study.tables import Table, as_markdown, measured, place

PRINTED = Path(__file__).parent / "paper"
SETS = ("cifar10", "svhn", "pathmnist", "octmnist")
STAND_INS = {"svhn28": "svhn"}  # other versions of a printed set: compared with its printed figures
NOTES = """\
# The published protocol, as far as measured

Mean ± standard deviation over folds; n is the number of folds. Below each value are the paper's value and our
difference from it. An average is over those of the paper's four data sets that were measured, and is compared with the
mean of the paper's values of these sets; consistency rates are printed only as means of all four.

- Printed figures are means of five folds with one seed: ResNet-18, Adam 3e-4, 1,500 epochs.
- The printed average of Output+Mean, Various, is 0.422, but the mean of its four printed figures is 0.528.
- 'Ours w/o Max class' (count-only) was not printed: it is commented out in the paper's LaTeX, for a scenario that is
  not stated, with 0.415 (cifar10), 0.663 (svhn), 0.646 (pathmnist), 0.660 (octmnist). log-mean has no printed row.
- svhn28 (SVHN at 28x28, 50,000 images) is not the printed SVHN: it is compared with its printed figures. An OCT set
  other than OCTMNIST has no printed figures and is in no average.
"""


def printed_set(source: str) -> str | None:
    """The printed set whose figures a source is compared with.

    >>> printed_set("svhn28"), printed_set("oct_kermany_7801")
    ('svhn', None)
    """
    return source if source in SETS else STAND_INS.get(source)


def printed_accuracy(method: str, scenario: str | None, source: str) -> float | None:
    """Instance accuracy (Tables 1 and 2). The source `average` gives the printed average.

    >>> printed_accuracy("count", "large", "cifar10"), printed_accuracy("log-mean", "large", "cifar10")
    (0.614, None)
    """
    name = source if source == "average" else printed_set(source)
    return _printed("instance_accuracy").get((method, scenario, name))


def printed_consistency(method: str, scenario: str | None) -> float | None:
    """Consistency rate, the mean over the four sets (Table 3).

    >>> printed_consistency("count", "small")
    0.963
    """
    return _printed("consistency_rate").get((method, scenario, None))


@cache
def _printed(name: str) -> dict[tuple[str, str, str | None], float]:
    with (PRINTED / f"{name}.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    figure = "accuracy" if name == "instance_accuracy" else "rate"
    return {(row["method"], row["scenario"], row.get("source")): float(row[figure]) for row in rows}


def write_tables(folder: Path) -> None:
    """FOLDER/tables.md and FOLDER/summary.csv, from its files paper*.jsonl."""
    figures = StudyFigures([line for file in sorted(folder.glob("paper*.jsonl")) for line in read_raw(file)])
    rows = figures.rows[figures.rows["n"] > 0]
    accuracies, rates = (rows[rows["figure"] == name] for name in ("instance_accuracy", "consistency_rate"))
    tables = [*_tables("Table 1: instance accuracy", accuracies), *_tables("Table 3: consistency rate", rates)]
    parts = [f"## {table.title}\n\n{as_markdown(table)}" for table in tables]
    (folder / "tables.md").write_text("\n".join([NOTES, *parts]))
    lines: list[list[object]] = [["source", "scenario", "method", "recipe", "folds", "mean", "std", "printed"]]
    for row in records(accuracies):
        name = Row(*(row[field] for field in Row._fields))
        printed = printed_accuracy(name.method, name.scenario, name.source)
        values = ["" if value is None else f"{value:.6f}" for value in (row["mean"], _known(row["sd"]), printed)]
        folds = " ".join(str(fold) for fold in sorted({run["fold"] for run in figures.groups[name]}))
        setting = Setting(name.recipe, name.changed)
        lines.append([name.source, name.scenario, name.method, setting, folds, *values])
    write_csv(folder / "summary.csv", lines)


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _tables(title: str, rows: pd.DataFrame) -> Iterator[Table]:
    """One per setting and scenario, with the printed values, and the average over the paper's sets."""
    is_rate = "rate" in title
    for (recipe, changed, scenario), block in split(rows, ["recipe", "changed", "scenario"]):
        sources, lines = block["source"].unique().tolist(), []
        for (method,), of_method in split(block, ["method"]):
            of = {row["source"]: row for row in records(of_method)}
            printed = {source: None if is_rate else printed_accuracy(method, scenario, source) for source in sources}
            found = {source: (measured(row), row["mean"]) for source, row in of.items()}
            cells = [_beside(*found.get(source, ("-", None)), printed[source]) for source in sources]
            sets = measured_sets(of)
            of_same = [printed[source] for source in sets]
            average = fmean(of_same) if of_same and None not in of_same else None
            if is_rate and len(sets) == len(SETS):
                average = printed_consistency(method, scenario)
            means = [of[source]["mean"] for source in sets]
            lines.append([method, *cells, _average(means, average)])
        yield Table(place(title, scenario, recipe, changed), ["method", *sources, "average"], lines)


def measured_sets(sources: Iterable[str]) -> list[str]:
    """The source of each of the paper's four sets that was measured; a stand-in only if the set itself was not.

    >>> measured_sets(["svhn28", "cifar10", "svhn", "oct_kermany_7801"])
    ['cifar10', 'svhn']
    """
    of_set: dict[str, str] = {}
    for source in sorted(sources, key=lambda source: source in STAND_INS):
        if name := printed_set(source):
            of_set.setdefault(name, source)
    return list(of_set.values())


def _average(means: list[float], printed: float | None) -> str:
    if not means:
        return "-"
    return _beside(f"{fmean(means):.3f} ({len(means)} of {len(SETS)} sets)", fmean(means), printed)


def _beside(measured: str, mean: float | None, printed: float | None) -> str:
    if printed is None:
        return measured
    difference = "" if mean is None else f", {signed(mean - printed, 3)}"
    return f"{measured}<br>printed {printed:.3f}{difference}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write_tables(parser.parse_args().folder)


if __name__ == "__main__":
    main()
