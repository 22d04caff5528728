"""STUDY/report.html and its tables: the results of a study."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path

import pandas as pd

from ...errors import count_noun
from ...files import write_text
from ...log import Log, no_log
from ...predict.metrics import coverage_note
from ..plots.figures import Curve, Dot, dot_plot, learning_curves
from ..report.about import REPORT, format_seconds
from ..report.blocks import Block, Command, Details, Drawings, Facts, Heading, Note, Section, Table, write_html
from . import tables
from .figures import PANEL, Row, StudyFigures, records, split
from .grid import missing_cells, read_request
from .results import Result, Setting, read_results

MAX_CURVES = 160  # drawings of learning curves on a page
REFERENCES = {"naive": "naive", "supervised": "all instance labels"}  # lines of a plot
ABOUT_PLOTS = (
    "Means over folds with 95 % intervals: over several folds that of Nadeau and Bengio, over one fold that over its "
    "bags. Dashed lines are methods to compare with: naive gives every instance the label of its bag, supervised has "
    "all instance labels."
)


def write_study(study: Path, log: Log = no_log, reference: str | None = None) -> list[Path]:
    """Write report.html, tables.md, tables.csv and tables.tex into the study's folder.

    `study` may also be a .jsonl file of results: the files are then written into its folder. `reference` is the row
    that others are compared with; without it, the one that the study has named, if any.
    """
    results, request = read_results(study), read_request(study)
    missing = missing_cells(request, results)
    command = request.study.as_command(str(study)) if request else ""
    if missing:
        log(f"note: {count_noun(len(missing), 'cell')} of this study missing; to train them: {command}")
    figures = StudyFigures(results, reference or (request.study.reference if request else None))
    made, notes = tables.all_tables(figures), _coverage_notes(figures)
    folder = study.parent if study.is_file() else study
    title = study.resolve().stem if study.is_file() else study.resolve().name
    texts = {
        REPORT: write_html("study", title, _sections(figures, missing, command, notes)),
        "tables.md": f"# {title}\n\n" + tables.markdown(made, notes),
        "tables.csv": tables.long_csv(figures),
        "tables.tex": tables.latex(made, notes),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def _sections(figures: StudyFigures, missing: Sequence[str], command: str, notes: Sequence[str]) -> Iterator[Section]:
    main = tables.title(figures.main)
    yield Section("main", main, f"{main} by method", [*_accuracy_plots(figures), Note(ABOUT_PLOTS)])
    about: list[Block] = [Facts(_about(figures)), Note("A cell is one source, scenario, method and fold.")]
    yield Section("study", "Study", "The study", [*about, *_missing(missing, command)])
    no_labels = " No test instance has a label: all figures are about bags." * (figures.main == "bag_accuracy")
    shown: list[Block] = [Note(tables.LEGEND + no_labels), *map(Note, notes)]
    for figure in sorted(tables.SHOWN, key=lambda figure: figure != figures.main):
        if made := _tables(tables.figure_tables(figures, figure)):
            shown.append(Details(tables.title(figure), made, open=figure == figures.main))
    yield Section("tables", "Tables", "Tables", shown)
    if differences := _tables(tables.difference_tables(figures)):
        yield Section("differences", "Differences", "Differences", [Note(tables.INTERVALS), *differences])
    if choices := tables.choice_tables(figures):
        rows = [Table(table.title, table.head, table.rows, names=len(table.head)) for table in choices]
        yield Section("choosing", "Choosing", choices[0].title, [Note(tables.RULE), *rows])
    yield Section("curves", "Curves", "Learning curves", _curves(figures))


def _accuracy_plots(figures: StudyFigures) -> list[Block]:
    """One plot per panel: a row per method, the best first."""
    found = figures.rows[(figures.rows["figure"] == figures.main) & (figures.rows["n"] > 0)]
    drawings = {}
    for (recipe, changed, scenario, source), panel in split(found, PANEL):
        dots, lines = [], {}
        for row in records(panel.sort_values("mean", ascending=False, kind="stable")):
            low, high = row["low"], row["high"]
            if pd.isna(low):
                runs = figures.groups[Row(recipe, changed, scenario, source, row["method"])]
                intervals = runs[0]["test"].get("intervals", {}) if len(runs) == 1 else {}
                low, high = intervals.get(figures.main, (None, None))
            if low is not None:
                low, high = max(low, 0.0), min(high, 1.0)
            dots.append(Dot(row["method"], row["mean"], low, high, tables.measured(row)))
            if row["method"] in REFERENCES:
                lines[REFERENCES[row["method"]]] = row["mean"]
        caption = tables.place(source, scenario, recipe, changed)
        drawings[caption] = dot_plot(dots, lines, f"{tables.title(figures.main)} by method, {caption}")
    return [Drawings(f"{figures.main} by method", drawings)]


def _about(figures: StudyFigures) -> dict[str, str]:
    def listed(name: str) -> str:
        return ", ".join(sorted({str(result[name]) for result in figures.results if result.get(name) is not None}))

    def of_rows(name: str) -> str:
        return ", ".join(dict.fromkeys(filter(None, (getattr(row, name) for row in figures.groups))))

    settings = dict.fromkeys(str(Setting(row.recipe, row.changed)) for row in figures.groups)
    version = listed("version")
    about = {
        "finished cells": f"{len(figures.results):,}",
        "sources": of_rows("source"),
        "scenarios": of_rows("scenario"),
        "methods": ", ".join(figures.methods),
        "folds": listed("fold"),
        "seeds": listed("seed"),
        "recipe": "; ".join(settings),
        "training time": format_seconds(sum(result.get("seconds", 0) for result in figures.results)),
        "hardware": listed("hardware"),
        "made with": f"majority {version}" if version else "",
    }
    return {name: value for name, value in about.items() if value}


def _missing(missing: Sequence[str], command: str) -> list[Block]:
    if not missing:
        return []
    rows = groupby(missing, lambda cell: str(Path(cell).parent))
    folds = {row: ", ".join(Path(cell).name for cell in cells) for row, cells in rows}
    return [
        Heading(f"Missing: {count_noun(len(missing), 'cell')} of this study"),
        Note("This command trains the missing cells. Finished cells stay as they are."),
        Command(command),
        Details("List of missing cells", [Facts(folds)]),
    ]


def _tables(made: Iterable[tables.Table]) -> list[Block]:
    return [block for table in made for block in (Heading(table.title), Table(*table))]


def _curves(figures: StudyFigures) -> list[Block]:
    """Two drawings per method, for each panel; none if no run has curves."""
    panels: dict[str, dict[str, str]] = {}
    left_out = count = 0
    for row, runs in figures.groups.items():
        known = [run for run in runs if (run.get("curve") or {}).get("train_bag_accuracy")]
        if known and count == MAX_CURVES:
            left_out += 1
        elif known:
            count += 1
            panel = tables.place(row.source, row.scenario, row.recipe, row.changed)
            panels.setdefault(panel, {}).update(_curves_of(row.method, known))
    if not panels:
        return []
    about = "A line per run. Dots: kept epochs. Long curves are thinned out."
    about += f" Left out to keep the page small: {count_noun(left_out, 'method')}." * bool(left_out)
    drawn = [Details(panel, [Drawings(f"learning curves, {panel}", drawings)]) for panel, drawings in panels.items()]
    return [Note(about), *drawn]


def _curves_of(method: str, runs: Sequence[Result]) -> dict[str, str]:
    def of(name: str) -> list[Curve]:
        return [
            Curve(
                [epoch + 1 for epoch in run["curve"]["epoch"]],
                run["curve"][f"train_{name}"],
                run["curve"][f"val_{name}"],
                run["best_epoch"] + 1,
                f"fold {run.get('fold', 0)}, ",
            )
            for run in runs
        ]

    return {
        f"{method}, loss": learning_curves("Loss per bag", of("loss")),
        f"{method}, bags": learning_curves("Bag accuracy", of("bag_accuracy"), percent=True),
    }


def _coverage_notes(figures: StudyFigures) -> list[str]:
    """One note per source and scenario in which only some test instances have a known class."""
    panels: dict[tuple[str, str], dict[int, Result]] = {}
    for row, runs in figures.groups.items():  # the bags are the same for all methods
        tests = panels.setdefault((row.source, row.scenario), {})
        tests |= {run.get("fold", 0): run["test"] or {} for run in runs}
    notes = {names: coverage_note(*tests.values()) for names, tests in panels.items()}
    return [f"{' '.join(filter(None, names))}: {note}." for names, note in notes.items() if note]
