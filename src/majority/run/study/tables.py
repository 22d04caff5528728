"""The tables of a study as text: Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from ..report.blocks import signed
from .figures import FIGURES, TABLE, VALIDATION, StudyFigures, records, split
from .results import Setting

LEGEND = (
    "Unless stated otherwise, figures are for test bags: mean ± standard deviation over folds. n is the number of "
    "folds in which the figure is defined."
)
INTERVALS = (
    "Differences are paired by fold. Brackets hold the 95 % confidence interval of Nadeau and Bengio, with variance "
    "(1/n + test/train) s², because the training sets of the folds overlap. p is the two-sided p-value of the same t "
    "statistic, corrected by Holm's method for all differences in the table; the intervals are not corrected. A single "
    "fold has neither."
)
RULE = (
    "The methods that use no instance labels are compared by their validation bag accuracy: the share of validation "
    "bags whose most frequent predicted class is the label. The one to choose has the highest mean over the n folds "
    "that all of them have; if methods are equal, log-mean is chosen, or else the first by name."
)
TITLES = FIGURES | {VALIDATION: "validation bag accuracy"}
SHOWN = ("macro_f1", "instance_accuracy", "bag_accuracy", "consistency_rate", VALIDATION)


def title(figure: str) -> str:
    """
    >>> title("bag_accuracy"), title("macro_f1")
    ('Bag accuracy', 'Macro F1')
    """
    return TITLES[figure][0].upper() + TITLES[figure][1:]


def place(name: str, scenario: str, recipe: str, changed: str) -> str:
    """
    >>> place("digits", "", "quick", "bags 20")
    'digits, recipe quick (bags 20)'
    """
    return ", ".join(filter(None, [name, scenario, f"recipe {Setting(recipe, changed)}"]))


class Table(NamedTuple):
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def figure_tables(study: StudyFigures, figure: str) -> list[Table]:
    """One table per setting and scenario, with a row per method and a column per source; none of what is unknown."""
    rows = study.rows[study.rows["figure"] == figure]
    return _by_source(rows, title(figure), measured)


def difference_tables(study: StudyFigures) -> list[Table]:
    """One table per reference, setting and scenario."""
    tables = []
    for reference in study.references:
        rows = study.differences[study.differences["reference"] == reference]
        tables += _by_source(rows, f"{title(study.main)} minus that of {reference}", difference)
    return tables


def choice_tables(study: StudyFigures) -> list[Table]:
    """What to choose in each panel, or nothing."""
    rows = []
    for one in study.choices:
        names = [one["source"], one["scenario"] or "-", str(Setting(one["recipe"], one["changed"]))]
        chosen = [one["choose"] or "unknown: no fold has all methods", with_deviation(one["mean"])]
        rows.append([*names, *chosen, ", ".join(one["equal"]) or "-", str(one["n"])])
    head = ["source", "scenario", "recipe", "choose", "validation bag accuracy", "equal", "n"]
    return [Table("Choosing without instance labels", head, rows)] if rows else []


def all_tables(study: StudyFigures) -> list[Table]:
    of_figures = [table for figure in SHOWN for table in figure_tables(study, figure)]
    return [*of_figures, *difference_tables(study), *choice_tables(study)]


def _by_source(rows: pd.DataFrame, name: str, shown: Callable[[dict[str, Any]], str]) -> list[Table]:
    tables = []
    for (recipe, changed, scenario), block in split(rows, TABLE):
        if block["n"].any():
            block = block.assign(text=[shown(row) for row in records(block)])
            texts = block.set_index(["method", "source"])["text"].unstack(fill_value="-", sort=False)
            lines = [[str(method), *row] for method, row in zip(texts.index, texts.to_numpy().tolist(), strict=True)]
            tables.append(Table(place(name, scenario, recipe, changed), ["method", *texts], lines))
    return tables


# ---------------------------------------------------------------------- values as text


def measured(row: dict[str, Any]) -> str:
    """
    >>> measured({"mean": 0.5, "sd": 0.014, "n": 2, "runs": 4})
    '0.500 ± 0.014 (n=2, 4 runs)'
    """
    runs = "" if row["runs"] == row["n"] else f", {row['runs']} runs"
    return f"{with_deviation(row['mean'], row['sd'])} (n={row['n']}{runs})"


def difference(row: dict[str, Any]) -> str:
    """
    >>> difference({"mean": 0.1, "low": 0.05, "high": 0.15, "n": 5, "p_holm": 0.004})
    '+0.100 [+0.050, +0.150] (n=5, p=0.004)'
    """
    ends = "" if pd.isna(row["low"]) else f" [{signed(row['low'], 3)}, {signed(row['high'], 3)}]"
    p = "" if pd.isna(row["p_holm"]) else ", p<0.001" if row["p_holm"] < 0.001 else f", p={row['p_holm']:.3f}"
    return f"{signed(row['mean'], 3)}{ends} (n={row['n']}{p})"


def with_deviation(mean: float | None, sd: float | None = None) -> str:
    """
    >>> with_deviation(0.912, 0.0134), with_deviation(0.912), with_deviation(None)
    ('0.912 ± 0.013', '0.912', '-')
    """
    return "-" if pd.isna(mean) else f"{mean:.3f}" if pd.isna(sd) else f"{mean:.3f} ± {sd:.3f}"


# ---------------------------------------------------------------------- files


def markdown(tables: Iterable[Table], notes: Iterable[str]) -> str:
    """All tables, with what is needed to read them."""
    made = [f"## {table.title}\n\n{as_markdown(table)}" for table in tables]
    return "\n".join([f"{note}\n" for note in (LEGEND, INTERVALS, RULE, *notes)] + made)


def as_markdown(table: Table) -> str:
    """
    >>> print(as_markdown(Table("", ["name", "n"], [["a|b", "2"]])), end="")
    | name | n |
    | --- | --- |
    | a\\|b | 2 |
    """
    lines = [table.head, ["---"] * len(table.head), *table.rows]
    return "".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |\n" for line in lines)


def latex(tables: Iterable[Table], notes: Iterable[str]) -> str:
    """Tables to include with \\input; they need the package booktabs."""
    head = "".join(f"% {note}\n" for note in ("\\usepackage{booktabs}", LEGEND, INTERVALS, *notes))
    made = []
    for table in tables:
        frame = pd.DataFrame([*table.rows], columns=[*table.head])
        made.append(
            frame.to_latex(index=False, escape=True, caption=table.title.replace("%", "\\%").replace("_", "\\_"))
        )
    return "\n".join([head, *made])


def long_csv(study: StudyFigures) -> str:
    """One line per value of every table."""
    rows = pd.concat([study.rows.drop(columns="p"), study.differences])
    rows = rows[rows["n"] > 0].astype({"runs": "Int64"})
    names = ["figure", "reference", "source", "scenario", "method", "recipe", "changed"]
    columns = [*names, "n", "runs", "mean", "sd", "low", "high", "p", "p_holm"]
    return rows.reindex(columns=columns).to_csv(index=False, lineterminator="\n", float_format="%.6f")
