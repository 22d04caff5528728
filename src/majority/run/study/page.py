"""STUDY/report.html and its tables: the results of a study."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean
from typing import Any

from ...errors import count_noun
from ...files import write_text
from ...log import Log, no_log
from ..plots.figures import Box, box_plot
from ..report.about import format_seconds
from ..report.page import REPORT, SURPLUS
from ..report.templates import fill
from . import table_formats
from .choosing import RULE, choices
from .comparison import Comparison, Gap, Table
from .figures import interval_plot, small_curves
from .missing import missing_cells, requested_reference, study_command
from .results import Result, Setting, read_results
from .table_formats import fold_ranges

MAX_CURVES = 160  # drawings of learning curves on a page
QUANTILES = "overestimation_quantiles"


def write_study(study: Path, log: Log = no_log, reference: str | None = None) -> list[Path]:
    """Write report.html, tables.md, tables.csv and tables.tex into the study's folder.

    `study` may also be a .jsonl file of results: the files are then written into its folder. `reference` is the row
    that others are compared with; without it, the one that the study has named, if any.
    """
    results = read_results(study)
    if missing := sum(map(len, missing_cells(study, results).values())):
        log(f"note: {count_noun(missing, 'cell')} of this study missing; to train them: {study_command(study)}")
    comparison = Comparison(results, reference or requested_reference(study))
    tables, made, all_notes = comparison.tables(), choices(comparison), comparison.coverage_notes()
    folder = study.parent if study.is_file() else study
    content = _content(study, results, comparison)
    texts = {
        REPORT: fill("page.html.jinja", "study", content, _sections(content), package="majority.run.study"),
        "tables.md": f"# {_title(study)}\n\n" + table_formats.markdown(tables, made, all_notes),
        "tables.csv": table_formats.long_csv(tables),
        "tables.tex": table_formats.latex(tables, made, all_notes),
    }
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def _content(study: Path, results: list[Result], comparison: Comparison) -> dict[str, Any]:
    made, missing = choices(comparison), missing_cells(study, results)
    drawn, left_out = _curves(comparison)
    columns, rows = table_formats.choice_table(made)
    return {
        "title": _title(study),
        "about": _about(results, comparison),
        "settings": comparison.settings,
        "legend": table_formats.LEGEND,
        "notes": comparison.coverage_notes(),
        "bags": comparison.bag_accuracy(),
        "accuracy": comparison.accuracy(),
        "temperatures": comparison.temperatures(),
        "consistency": comparison.consistency(),
        "validation": comparison.validation(),
        "intervals": table_formats.INTERVALS,
        "differences": [_difference_plots(table) for table in comparison.differences()],
        "boxes": _boxes(comparison),
        "curves": drawn,
        "curves_left_out": left_out,
        "rule": RULE,
        "recommendations": [table_formats.recommendation(choice) for choice in made],
        "choice_columns": columns,
        "choices": rows,
        "costs": table_formats.cost_summary(made) if made else "",
        "missing": {" · ".join(names): fold_ranges(folds) for names, folds in missing.items()},
        "n_missing": sum(map(len, missing.values())),
        "command": study_command(study) if missing else "",
    }


def _sections(content: dict[str, Any]) -> dict[str, str]:
    """The anchors and names of the sections that the page has."""
    if not content["accuracy"]:
        sections = {"study": "Study", "bags": "Bags", "table3": "Table 3", "differences": "Differences"}
        sections |= {"choosing": "Choosing", "curves": "Curves"}
        return {name: title for name, title in sections.items() if name not in ("bags", "differences") or content[name]}
    tables = {f"table{number}": f"Table {number}" for number in (1, 2, 3)}
    more = {"differences": "Differences", "choosing": "Choosing", "boxes": "Overestimation", "curves": "Curves"}
    return {"study": "Study"} | tables | more


def _title(study: Path) -> str:
    return study.resolve().stem if study.is_file() else study.resolve().name


def _about(results: list[Result], comparison: Comparison) -> dict[str, str]:
    def all_values(name: str) -> str:
        return ", ".join(sorted({str(result[name]) for result in results if result.get(name)}))

    about = {
        "finished cells": f"{len(results):,}",
        "sources": ", ".join(comparison.sources),
        "scenarios": ", ".join(filter(None, comparison.scenarios)),
        "methods": ", ".join(comparison.methods),
        "folds": fold_ranges(sorted({result.get("fold", 0) for result in results})),
        "seeds": ", ".join(sorted({str(result["seed"]) for result in results if "seed" in result})),
        "training time": f"{format_seconds(sum(result.get('seconds', 0) for result in results))} in total",
        "hardware": all_values("hardware"),
        "made with": f"majority {all_values('version')}" if all_values("version") else "",
    }
    return {name: value for name, value in about.items() if value}


def _difference_plots(table: Table) -> dict[str, Any]:
    """A table of differences as one drawing per source."""
    drawings = {}
    for column, source in enumerate(table.columns):
        gaps = [row[column] for _, row in table.rows]
        known = [gap for gap in gaps if isinstance(gap, Gap) and gap.mean is not None]
        if known:
            drawings[source] = interval_plot(known, f"{table.name}, by method, {source}")
    return {"title": table.title, "drawings": drawings}


def _boxes(comparison: Comparison) -> list[dict[str, str]]:
    """For each setting, scenario and source, one box per method: the mean of each quantile over its runs."""
    drawn = []
    for panel in comparison.panels():
        boxes = []
        for method, runs in comparison.runs_by_method(*panel).items():
            known = [run["test"][QUANTILES] for run in runs if (run.get("test") or {}).get(QUANTILES)]
            if known:
                means = (round(fmean(values), 2) for values in zip(*known, strict=True))
                boxes.append(Box(method, len(known), tuple(means)))
        if boxes:
            drawn.append({"title": _panel_title(*panel), "drawing": box_plot(boxes, SURPLUS)})
    return drawn


def _curves(comparison: Comparison) -> tuple[list[dict[str, Any]], int]:
    """For each setting, scenario and source, one drawing per method; and the number of drawings left out."""
    panels, count, left_out = [], 0, 0
    for panel in comparison.panels():
        drawings = []
        for method, runs in comparison.runs_by_method(*panel).items():
            known = [run for run in runs if (run.get("curve") or {}).get("epoch")]
            if known and count == MAX_CURVES:
                left_out += 1
            elif known:
                drawings.append(small_curves(method, known))
                count += 1
        if drawings:
            panels.append({"title": _panel_title(*panel), "drawings": drawings})
    return panels, left_out


def _panel_title(setting: Setting, scenario: str | None, source: str) -> str:
    return ", ".join(filter(None, [source, scenario, f"recipe {setting}"]))
