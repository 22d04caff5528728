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
    answers: Annotated[Path | None, Parameter(help="Labelled instances: print what they say.")] = None,
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

    given = {"SOURCE": source, "--labels": labels, "--more": more, "--seed": seed, "a column": columns or None}
    drawn_by = [name for name, value in given.items() if value is not None]
    if answers is not None and drawn_by:
        raise InputError(f"--answers reads the audit that the answers are of: leave out {', '.join(drawn_by)}")
    if answers is None and calibrate:
        raise InputError("--calibrate needs the answers of an audit: give --answers")
    if answers is not None:
        report_audit(run, answers, with_temperature=calibrate, device=device, log=log)
        return
    note_trained_on(run, source)
    write_audit(
        run,
        out,
        source,
        labels=labels,
        more=more,
        seed=seed,
        show_predictions=show_predictions,
        names=column_names(columns),
        device=device,
        log=log,
    )
