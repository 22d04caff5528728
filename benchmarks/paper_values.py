"""Our figures beside those printed in the paper, from the files of benchmarks/paper_tables.py.

    python benchmarks/paper_values.py results/paper      writes tables.md and summary.csv there

Printed figures are means of five folds with one seed: ResNet-18, Adam 3e-4, 1,500 epochs.
"""

from __future__ import annotations

import argparse
import csv
from functools import cache
from pathlib import Path
from statistics import fmean

from helpers import read_raw, write_csv

from majority.run.study.comparison import Comparison, Figure, Table, signed
from majority.run.study.table_formats import fold_ranges
from majority.run.study.tables import markdown_table

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
    comparison = Comparison([line for file in sorted(folder.glob("paper*.jsonl")) for line in read_raw(file)])
    parts = [NOTES]
    parts += [_table_of_accuracies(table) for table in comparison.accuracy()]
    parts += [_table_of_rates(table) for table in comparison.consistency()]
    (folder / "tables.md").write_text("\n".join(parts))
    rows: list[list[object]] = [["source", "scenario", "method", "recipe", "folds", "mean", "std", "printed"]]
    for table in comparison.accuracy():
        for figure in table.figures:
            runs = comparison.runs_by_method(table.setting, table.scenario, figure.source)[figure.method]
            printed = printed_accuracy(figure.method, table.scenario, figure.source)
            values = ["" if value is None else f"{value:.6f}" for value in (figure.mean, figure.sd, printed)]
            folds = fold_ranges(sorted({run["fold"] for run in runs}))
            rows.append([figure.source, table.scenario, figure.method, table.setting, folds, *values])
    write_csv(folder / "summary.csv", rows)


def _table_of_accuracies(table: Table) -> str:
    rows = []
    for (method,), figures in table.rows:
        printed = {one.source: printed_accuracy(method, table.scenario, one.source) for one in figures}
        cells = [_beside(one.measured, one.mean, printed[one.source]) for one in figures]
        found = measured_sets(figures)
        of_same = [printed[one.source] for one in found]
        mean_printed = fmean(of_same) if of_same and None not in of_same else None
        rows.append([method, *cells, _average(found, mean_printed)])
    return f"## {table.title}\n\n" + markdown_table(["method", *table.columns, "average"], rows)


def _table_of_rates(table: Table) -> str:
    rows = []
    for (method,), figures in table.rows:
        found = measured_sets(figures)
        printed = printed_consistency(method, table.scenario) if len(found) == len(SETS) else None
        rows.append([method, *(one.measured for one in figures), _average(found, printed)])
    return f"## {table.title}\n\n" + markdown_table(["method", *table.columns, "average"], rows)


def measured_sets(figures: tuple[Figure, ...]) -> list[Figure]:
    """One figure for each of the paper's four sets that was measured; a stand-in only if the set itself was not."""
    of_set: dict[str, Figure] = {}
    for figure in sorted(figures, key=lambda figure: figure.source in STAND_INS):
        name = printed_set(figure.source)
        if name and figure.mean is not None:
            of_set.setdefault(name, figure)
    return list(of_set.values())


def _average(found: list[Figure], printed: float | None) -> str:
    if not found:
        return "-"
    mean = fmean(figure.mean for figure in found)
    return _beside(f"{mean:.3f} ({len(found)} of {len(SETS)} sets)", mean, printed)


def _beside(measured: str, mean: float | None, printed: float | None) -> str:
    if printed is None:
        return measured
    difference = "" if mean is None else f", {signed(mean - printed)}"
    return f"{measured}<br>printed {printed:.3f}{difference}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    write_tables(parser.parse_args().folder)


if __name__ == "__main__":
    main()
