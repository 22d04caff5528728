"""STUDY/report.html and its tables: the results of a study."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from ...errors import count_noun
from ...files import write_text
from ...log import Log, no_log
from ...predict.metrics import coverage_note
from ..report.blocks import REPORT, Section, format_seconds, macros, page
from ..report.figures import dot_plot
from . import tables
from .figures import PANEL, ROW, StudyFigures, records, split
from .results import Setting, missing_cells, read_request, read_results, row_name

REFERENCES = {"naive": "naive", "supervised": "all instance labels"}  # lines of a plot


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
    named = request.study.reference if request else None
    if named not in {*map(row_name, results)}:  # all its cells have failed
        named = None
    figures = StudyFigures(results, reference or named)
    made, notes = tables.all_tables(figures), _coverage_notes(figures)
    folder = study.parent if study.is_file() else study
    title = study.resolve().stem if study.is_file() else study.resolve().name
    texts = {
        REPORT: page("study", title, _sections(figures, missing, command, notes)),
        "tables.md": f"# {title}\n\n" + tables.markdown(made, notes),
        "tables.csv": tables.long_csv(figures),
        "tables.tex": tables.latex(made, notes),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def _sections(figures: StudyFigures, missing: Sequence[str], command: str, notes: Sequence[str]) -> list[Section]:
    html, main = macros("study"), tables.title(figures.main)
    no_labels = " No test instance has a label: all figures are about bags." * (figures.main == "bag_accuracy")
    shown = sorted(tables.SHOWN, key=lambda figure: figure != figures.main)
    by_figure = {tables.title(figure): tables.figure_tables(figures, figure) for figure in shown}
    differences, choices = tables.difference_tables(figures), tables.choice_tables(figures)
    compared = html.explained(tables.INTERVALS, differences) if differences else ""
    chosen = html.explained(tables.RULE, choices, len(choices[0].head)) if choices else ""
    return [
        Section("main", main, f"{main} by method", html.plots(_plots(figures))),
        Section("study", "Study", "The study", html.study(_about(figures), missing, command)),
        Section("tables", "Tables", "Tables", html.figures(by_figure, [tables.LEGEND + no_labels, *notes], main)),
        Section("differences", "Differences", "Differences", compared),
        Section("choosing", "Choosing", "Choosing", chosen),
    ]


def _plots(figures: StudyFigures) -> dict[str, tuple[str, str]]:
    """One plot per panel, a row per method, and a sentence on which is the best."""
    found = figures.rows[(figures.rows["figure"] == figures.main) & (figures.rows["n"] > 0)]
    runs = {names: part["result"].tolist() for names, part in split(figures.runs, ROW)}
    drawings = {}
    for names, panel in split(found, PANEL):
        recipe, changed, scenario, source = names
        dots, lines = [], {}
        for row in records(panel):
            low, high = (None, None) if pd.isna(row["low"]) else (max(row["low"], 0.0), min(row["high"], 1.0))
            of_row = runs[recipe, changed, scenario, source, row["method"]]
            if low is None and len(of_row) == 1:
                low, high = of_row[0]["test"].get("intervals", {}).get(figures.main, (None, None))
            dot = {"name": row["method"], "mean": row["mean"], "low": low, "high": high}
            dots.append(dot | {"shown": tables.measured(row)})
            if row["method"] in REFERENCES:
                lines[REFERENCES[row["method"]]] = row["mean"]
        place = tables.place(source, scenario, recipe, changed)
        drawings[place] = dot_plot(dots, lines), figures.verdicts.get(names, "")
    return drawings


def _about(figures: StudyFigures) -> dict[str, str]:
    about = {"finished cells": f"{len(figures.results):,}"}
    for name in ("source", "scenario", "method", "fold", "seed", "hardware", "version"):
        found = {str(result[name]) for result in figures.results if result.get(name) is not None}
        about |= {name: ", ".join(sorted(found))} if found else {}
    about["recipe"] = "; ".join(str(Setting(*names)) for names, _ in split(figures.runs, ["recipe", "changed"]))
    return about | {"training time": format_seconds(figures.runs["seconds"].sum())}


def _coverage_notes(figures: StudyFigures) -> list[str]:
    """One note per source and scenario in which only some test instances have a known class."""
    notes = []
    for names, part in split(figures.runs, ["source", "scenario"]):
        tests = {
            run.get("fold", 0): run["test"] or {} for run in part["result"]
        }  # the bags are the same for all methods
        if note := coverage_note(*tests.values()):
            notes.append(f"{' '.join(filter(None, names))}: {note}.")
    return notes
