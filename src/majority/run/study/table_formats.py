"""The tables of a study as Markdown, LaTeX and CSV."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import count_noun
from .choosing import RULE, Choice, mean_cost
from .comparison import Gap, Table
from .tables import csv_text, markdown_table

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
CHOICE_COLUMNS = ("source", "scenario", "recipe", "methods", "chosen (folds)")
COST_COLUMNS = ("its accuracy", "best", "cost")
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "²": "$^2$"}
LATEX |= {"±": r"$\pm$", "−": "$-$", "[": "{[}", "]": "{]}", "<": "$<$", ">": "$>$"}
LATEX |= {letter: rf"\{letter}" for letter in "_%&#${}"}


def markdown(tables: list[Table], made: list[Choice], notes: list[str]) -> str:
    parts = [LEGEND, INTERVALS, *(["\n".join(f"- {note}" for note in notes)] if notes else [])]
    for table in tables:
        rows = [[*head, *(figure.measured for figure in figures)] for head, figures in table.rows]
        parts.append(f"## {table.title}\n\n" + markdown_table([*table.heads, *table.columns], rows))
    if made:
        lines = "".join("- {}`{}`{}\n".format(*recommendation(choice)) for choice in made)
        by_fold = markdown_table(*choice_table(made))
        parts.append(f"## Choosing without instance labels\n\n{RULE}\n\n{lines}\n{by_fold}\n{cost_summary(made)}")
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def latex(tables: list[Table], made: list[Choice], notes: list[str]) -> str:
    """Tables to include with \\input; they need no package."""
    parts = ["".join(f"% {_ascii(note)}\n" for note in (LEGEND, INTERVALS, *notes))]
    for table in tables:
        rows = [[*head, *(figure.measured for figure in figures)] for head, figures in table.rows]
        parts.append(_latex_table(table.title, [*table.heads, *table.columns], rows))
    if made:
        title = f"Choosing without instance labels. {cost_summary(made)}"
        parts.append(_latex_table(title, *choice_table(made)))
    return "\n".join(parts)


def long_csv(tables: list[Table]) -> str:
    """One row per figure of every table."""
    head = ["table", "source", "scenario", "method", "recipe", "changed", "n", "mean", "sd"]
    rows = []
    for table in tables:
        for figure in table.figures:
            names = [table.name, figure.source, table.scenario, figure.method, *table.setting, figure.n]
            values = (figure.mean, figure.sd, *(figure.interval or (None, None)))
            p_values = (figure.p, figure.p_holm) if isinstance(figure, Gap) else (None, None)
            rows.append([*names, *map(_rounded, (*values, *p_values))])
    return csv_text([*head, "low", "high", "p", "p_holm"], rows)


def choice_table(made: list[Choice]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the choices by fold; without columns of costs if no cost is known."""
    costs = COST_COLUMNS if mean_cost(made) is not None else ()
    rows = []
    for choice in made:
        names = [choice.source, choice.scenario or "-", str(choice.setting), str(len(choice.methods))]
        names.append(choice.chosen_by_fold)
        figures = (choice.accuracy, choice.best, choice.cost) if costs else ()
        rows.append([*names, *("-" if value is None else f"{value:.3f}" for value in figures), str(choice.n)])
    return [*CHOICE_COLUMNS, *costs, "n"], rows


def recommendation(choice: Choice) -> tuple[str, str, str]:
    """The method to choose by the mean over the folds, between the words before and after it."""
    place = ", ".join(filter(None, [choice.source, choice.scenario, f"recipe {choice.setting}"]))
    every = f"all {len(choice.methods)} methods"
    if choice.recommended is None:
        return f"{place}: no fold has {every}; the choice is ", "unknown", "."
    folds = f"n={choice.n}" if choice.n_common == choice.n else f"n={choice.n_common}, the folds that {every} have"
    tied = f"; equal: {', '.join(choice.tied)}" if choice.tied else ""
    mean = f"{choice.means[choice.recommended]:.3f}"
    return f"{place}: choose ", choice.recommended, f", with the highest mean, {mean} ({folds}){tied}."


def cost_summary(made: list[Choice]) -> str:
    cost, n = mean_cost(made), sum(choice.cost is not None for choice in made)
    if cost is None:
        return "Without instance labels, the cost of these choices is not known."
    return f"The mean cost over {count_noun(n, 'row')} is {cost:.3f}."


def fold_ranges(folds: list[int]) -> str:
    """
    >>> fold_ranges([0, 1, 2, 4]), fold_ranges([0, 2])
    ('0-2;4', '0;2')
    """
    ranges: list[list[int]] = []
    for fold in folds:
        if ranges and fold == ranges[-1][-1] + 1:
            ranges[-1].append(fold)
        else:
            ranges.append([fold])
    return ";".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in ranges)


def _latex_table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [" & ".join(_escape_latex(cell) for cell in line) + r" \\" for line in (head, *rows)]
    body = "\n".join([lines[0], r"\hline", *lines[1:]])
    columns = "l" * len(head)
    begin = f"\\begin{{table}}\n\\caption{{{_escape_latex(title)}}}\n\\begin{{tabular}}{{{columns}}}\n\\hline\n"
    return f"{begin}{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}\n"


def _escape_latex(content: str) -> str:
    """
    >>> _escape_latex("oct_28, 0.5 ± 0.1")
    'oct\\\\_28, 0.5 $\\\\pm$ 0.1'
    """
    return "".join(LATEX.get(letter, letter) for letter in content)


def _ascii(content: str) -> str:
    return content.replace("±", "+-").replace("²", "^2")


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
