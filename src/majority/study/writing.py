"""A study's tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

from ..errors import count_noun
from .choosing import RULE, Choice, mean_cost
from .comparison import Comparison, Table
from .printed import SETS
from .tables import csv_text, markdown_table

LEGEND = (
    "Each figure is of test bags, unless it says otherwise: mean ± standard deviation over folds, n the number of "
    "folds in which it is defined."
)
INTERVALS = (
    "Differences are paired by fold; in brackets the 95 % interval of Nadeau and Bengio, whose variance is "
    "(1/n + test/train) s², because folds share training data. One fold has no interval."
)
CHOICE = ("source", "scenario", "recipe", "methods", "chosen (folds)")
COST = ("its accuracy", "best", "cost")
LATEX = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "²": "$^2$"}
LATEX |= {"±": r"$\pm$", "−": "$-$", "[": "{[}", "]": "{]}", "<": "$<$", ">": "$>$"}
LATEX |= {letter: rf"\{letter}" for letter in "_%&#${}"}


def markdown(tables: list[Table], made: list[Choice], notes: list[str]) -> str:
    parts = [LEGEND, INTERVALS, *(["\n".join(f"- {note}" for note in notes)] if notes else [])]
    for table in tables:
        rows = [
            [*head, *("<br>".join(filter(None, [f.measured, f.beside])) for f in figures)]
            for head, figures in table.rows
        ]
        parts.append(f"## {table.title}\n\n" + markdown_table([*table.heads, *table.columns], rows))
    if made:
        lines = "".join("- {}`{}`{}\n".format(*taken(choice)) for choice in made)
        table = markdown_table(*choice_table(made))
        parts.append(f"## Choosing without instance labels\n\n{RULE}\n\n{lines}\n{table}\n{overall(made)}")
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def latex(tables: list[Table], made: list[Choice], notes: list[str]) -> str:
    """Tables to be read by \\input; they need no package."""
    parts = ["".join(f"% {_ascii(note)}\n" for note in (LEGEND, INTERVALS, *notes))]
    for table in tables:
        rows = []
        for head, figures in table.rows:
            rows.append([*head, *(figure.measured for figure in figures)])
            if any(figure.beside for figure in figures):
                rows.append([*[""] * len(head), *(figure.beside for figure in figures)])
        parts.append(_latex_table(table.title, [*table.heads, *table.columns], rows))
    if made:
        title = f"Choosing without instance labels. {overall(made)}"
        parts.append(_latex_table(title, *choice_table(made)))
    return "\n".join(parts)


def long_csv(tables: list[Table]) -> str:
    """A row a figure of every table."""
    head = ["table", "source", "scenario", "method", "recipe", "changed", "n", "mean", "sd", "printed", "difference"]
    rows = []
    for table in tables:
        for figure in table.figures:
            source = figure.source if figure.held is None else f"{figure.source} of {figure.held} of {len(SETS)} sets"
            names = [table.name, source, table.scenario, figure.method, *table.setting, figure.n]
            values = (figure.mean, figure.sd, figure.printed, figure.difference, figure.low, figure.high)
            rows.append([*names, *map(_rounded, values)])
    return csv_text([*head, "low", "high"], rows)


def summary_csv(comparison: Comparison) -> str:
    """Instance accuracy, a row a source, scenario, method and setting."""
    rows = []
    for table in comparison.accuracy():
        for figure in table.figures:
            if figure.held is None:
                runs = comparison.members(table.setting, table.scenario, figure.source)[figure.method]
                folds = fold_ranges(sorted({run.get("fold", 0) for run in runs}))
                values = map(_rounded, (figure.mean, figure.sd, figure.printed))
                rows.append([figure.source, table.scenario, figure.method, table.setting, folds, *values])
    return csv_text(["source", "scenario", "method", "recipe", "folds", "mean", "std", "printed"], rows)


def choice_table(made: list[Choice]) -> tuple[list[str], list[list[str]]]:
    """Its head and rows: fold by fold; without the cost where no row has one."""
    costs = COST if mean_cost(made) is not None else ()
    rows = []
    for choice in made:
        names = [choice.source, choice.scenario or "-", str(choice.setting), str(len(choice.methods)), choice.picks]
        figures = (choice.accuracy, choice.best, choice.cost) if costs else ()
        rows.append([*names, *("-" if value is None else f"{value:.3f}" for value in figures), str(choice.n)])
    return [*CHOICE, *costs, "n"], rows


def taken(choice: Choice) -> tuple[str, str, str]:
    """The method to take by the mean over the folds, between the words before and after it."""
    place = ", ".join(filter(None, [choice.source, choice.scenario, f"recipe {choice.setting}"]))
    every = f"all {len(choice.methods)} methods"
    if choice.taken is None:
        return f"{place}: no fold has {every}, so by the mean take ", "none", "."
    folds = f"n={choice.n}" if choice.shared == choice.n else f"n={choice.shared}, those that {every} have"
    equals = f"; equal: {', '.join(choice.equals)}" if choice.equals else ""
    mean = f"{choice.means[choice.taken]:.3f}"
    return f"{place}: by the mean over the folds ({folds}) take ", choice.taken, f" ({mean}{equals})."


def overall(made: list[Choice]) -> str:
    known, cost = sum(choice.cost is not None for choice in made), mean_cost(made)
    over = f"The mean cost over {count_noun(known, 'row')} is"
    return f"{over} {cost:.3f}." if known else "No instance label tells what these cost."


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


def _latex_table(title: str, head, rows) -> str:
    lines = [" & ".join(_escaped(cell) for cell in line) + r" \\" for line in (head, *rows)]
    body = "\n".join([lines[0], r"\hline", *lines[1:]])
    columns = "l" * len(head)
    begin = f"\\begin{{table}}\n\\caption{{{_escaped(title)}}}\n\\begin{{tabular}}{{{columns}}}\n\\hline\n"
    return f"{begin}{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}\n"


def _escaped(text: str) -> str:
    """
    >>> _escaped("oct_28, 0.5 ± 0.1")
    'oct\\\\_28, 0.5 $\\\\pm$ 0.1'
    """
    return "".join(LATEX.get(letter, letter) for letter in text)


def _ascii(text: str) -> str:
    return text.replace("±", "+-").replace("²", "^2")


def _rounded(value: float | None) -> str:
    return "" if value is None else f"{value:.6f}"
