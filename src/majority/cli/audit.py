"""majority audit: how accurate a run is, from a few labelled instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..errors import InputError
from .app import command
from .arguments import Device, OtherSource, RunFolder, column_names, of_columns
from .printing import log, note_trained_on


@command("audit", of_columns)
def audit(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    labels: Annotated[int | None, Parameter(help="Instances to label (default: 50).")] = None,
    out: Annotated[Path, Parameter(help="A folder; it gets label.html, to-label.csv and audit.json.")] = Path("audit"),
    more: Annotated[int | None, Parameter(help="Draw so many further instances for the audit in --out.")] = None,
    answers: Annotated[
        list[Path] | None,
        Parameter(help="Labelled instances: print what they say. Once for each annotator.", negative=""),
    ] = None,
    calibrate: Annotated[
        bool, Parameter(help="Keep the temperature with the classifier.", negative="", show_default=False)
    ] = False,
    show_predictions: Annotated[
        bool, Parameter(help="Show predictions on the page.", negative="", show_default=False)
    ] = False,
    seed: Annotated[int | None, Parameter(help="Seed of the draw (default: 0).")] = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Measure the instance accuracy with a few labels: draw instances, label them on a page, read the answers.

    First without --answers: label the instances on OUT/label.html. Then with --answers OUT/answers.csv.
    """
    from ..run.audit import report_audit, write_audit

    given = {"SOURCE": source, "--labels": labels, "--seed": seed, "a column": columns or None}
    if answers:
        given["--more"] = more
    drawn_by = [name for name, value in given.items() if value is not None]
    if drawn_by and (answers or more is not None):
        option = "--answers" if answers else "--more"
        raise InputError(f"{option} goes on with an audit that has these already: leave out {', '.join(drawn_by)}")
    if calibrate and not answers:
        raise InputError("--calibrate needs the answers of an audit: give --answers")
    if more is not None and more < 1:
        raise InputError(f"--more {more}: give 1 or more")
    if answers:
        report_audit(run, answers, calibrate=calibrate, device=device, log=log)
        return
    note_trained_on(run, source)
    write_audit(
        run,
        out,
        source,
        labels=50 if labels is None else labels,
        more=more,
        seed=seed or 0,
        names=column_names(columns),
        show_predictions=show_predictions,
        device=device,
        log=log,
    )
