"""STUDY/report.html and the tables beside it: what a study found, next to the printed figures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import fmean

from ..errors import count_noun
from ..files import write_text
from ..plots.figures import Box, box_plot
from ..report.page import REPORT, format_seconds
from ..report.templates import fill
from . import writing
from .choosing import RULE, choices
from .comparison import Comparison, Table
from .figures import interval_plot, small_curves
from .missing import command, missing_cells
from .printed import notes
from .results import read_results
from .writing import fold_ranges

CURVES = 160  # drawings of learning curves on a page
QUANTILES = "overestimation_quantiles"
AXIS = "predicted minus true number of instances of the bag's class"


def write_study(study: Path, log: Callable[[str], None] = lambda line: None) -> list[Path]:
    """Write report.html, tables.md, tables.csv, tables.tex and summary.csv; a file's are written beside it."""
    results = read_results(study)
    if absent := sum(map(len, missing_cells(study, results).values())):
        log(f"note: missing: {count_noun(absent, 'cell')} of what was asked for; to train: {command(study)}")
    comparison = Comparison(results)
    tables, made, said = comparison.tables(), choices(comparison), _notes(comparison)
    folder = study.parent if study.is_file() else study
    texts = {
        REPORT: fill("page.html.jinja", _content(study, results, comparison), package="majority.study"),
        "tables.md": f"# {_title(study)}\n\n" + writing.markdown(tables, made, said),
        "tables.csv": writing.long_csv(tables),
        "tables.tex": writing.latex(tables, made, said),
        "summary.csv": writing.summary_csv(comparison),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def _content(study: Path, results: list[dict], comparison: Comparison) -> dict:
    made, absent = choices(comparison), missing_cells(study, results)
    drawn, left_out = _curves(comparison)
    columns, rows = writing.choice_table(made)
    return {
        "title": _title(study),
        "about": _about(results, comparison),
        "settings": comparison.settings,
        "legend": writing.LEGEND,
        "notes": _notes(comparison),
        "bags": comparison.bag_accuracy(),
        "accuracy": comparison.accuracy(),
        "temperatures": comparison.temperatures(),
        "consistency": comparison.consistency(),
        "validation": comparison.validation(),
        "intervals": writing.INTERVALS,
        "differences": [_drawn_differences(table) for table in comparison.differences()],
        "boxes": _boxes(comparison),
        "curves": drawn,
        "curves_left_out": left_out,
        "rule": RULE,
        "taken": [writing.taken(choice) for choice in made],
        "choice_columns": columns,
        "choices": rows,
        "overall": writing.overall(made) if made else "",
        "missing": {" · ".join(names): fold_ranges(folds) for names, folds in absent.items()},
        "missing_cells": sum(map(len, absent.values())),
        "command": command(study) if absent else "",
    }


def _notes(comparison: Comparison) -> list[str]:
    return [*comparison.coverage(), *notes(comparison.sources)]


def _title(study: Path) -> str:
    return study.resolve().stem if study.is_file() else study.resolve().name


def _about(results: list[dict], comparison: Comparison) -> dict[str, str]:
    every = lambda name: ", ".join(sorted({str(result[name]) for result in results if result.get(name)}))
    about = {
        "finished cells": f"{len(results):,}",
        "sources": ", ".join(comparison.sources),
        "scenarios": ", ".join(filter(None, comparison.scenarios)),
        "methods": ", ".join(comparison.methods),
        "folds": fold_ranges(sorted({result.get("fold", 0) for result in results})),
        "seeds": ", ".join(sorted({str(result["seed"]) for result in results if "seed" in result})),
        "training time": f"{format_seconds(sum(result.get('seconds', 0) for result in results))} in all",
        "hardware": every("hardware"),
        "made with": f"majority {every('version')}" if every("version") else "",
    }
    return {name: value for name, value in about.items() if value}


def _drawn_differences(table: Table) -> dict:
    """A table of differences as a drawing a source."""
    drawings = {}
    for number, source in enumerate(table.columns):
        gaps = [figures[number] for _, figures in table.rows if figures[number].mean is not None]
        if gaps:
            drawings[source] = interval_plot(gaps, f"{table.name}, by method, {source}")
    return {"title": table.title, "drawings": drawings}


def _boxes(comparison: Comparison) -> list[dict]:
    """Of each setting, scenario and source, a box a method: the mean of each quantile over runs."""
    drawn = []
    for panel in comparison.panels():
        boxes = []
        for method, runs in comparison.members(*panel).items():
            known = [run["test"][QUANTILES] for run in runs if (run.get("test") or {}).get(QUANTILES)]
            if known:
                means = (round(fmean(values), 2) for values in zip(*known, strict=True))
                boxes.append(Box(method, len(known), tuple(means)))
        if boxes:
            drawn.append({"title": _said(panel), "drawing": box_plot(boxes, AXIS)})
    return drawn


def _curves(comparison: Comparison) -> tuple[list[dict], int]:
    """A drawing a method, by setting, scenario and source; and how many found no room."""
    panels, count, left_out = [], 0, 0
    for panel in comparison.panels():
        drawings = []
        for method, runs in comparison.members(*panel).items():
            known = [run for run in runs if (run.get("curve") or {}).get("epoch")]
            if known and count == CURVES:
                left_out += 1
            elif known:
                drawings.append(small_curves(method, known))
                count += 1
        if drawings:
            panels.append({"title": _said(panel), "drawings": drawings})
    return panels, left_out


def _said(panel: tuple) -> str:
    setting, scenario, source = panel
    return ", ".join(filter(None, [source, scenario, f"recipe {setting}"]))
