"""majority audit: how accurate a run is, from a few labelled instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from ..errors import InputError
from .app import Device, Flag, OtherSource, RunFolder, command
from .printing import log


@command("audit", "config.COLUMNS")
def audit(
    run: RunFolder,
    source: OtherSource = None,
    /,
    *,
    labels: int | None = None,
    out: Path = Path("audit"),
    more: int | None = None,
    answers: Annotated[list[Path] | None, Parameter(negative="")] = None,
    calibrate: Flag = False,
    show_predictions: Flag = False,
    seed: int | None = None,
    device: Device = "auto",
    **columns: Any,
) -> None:
    """Measure the instance accuracy with a few labels: draw instances, label them on a page, read the answers.

    First without --answers: label the instances on OUT/label.html. Then with --answers OUT/answers.csv.

    Args:
        labels: Instances to label (default: 50).
        out: A folder; it gets label.html, to-label.csv and audit.json.
        more: Draw so many further instances for the audit in --out.
        answers: Labelled instances: print what they say. Once for each annotator.
        calibrate: Keep the temperature with the classifier.
        show_predictions: Show predictions on the page.
        seed: Seed of the draw (default: 0).
    """
    from ..run.audit import report_audit, write_audit

    if (answers or more is not None) and (source is not None or labels is not None or seed is not None or columns):
        raise InputError("--answers and --more go on with an audit: leave out SOURCE, --labels, --seed and columns")
    if more is not None and more < 1:
        raise InputError(f"--more {more}: give 1 or more")
    if calibrate and not answers:
        raise InputError("--calibrate needs the answers of an audit: give --answers")
    if answers:
        report_audit(run, answers, calibrate=calibrate, device=device, log=log)
        return
    write_audit(
        run,
        out,
        source,
        labels=50 if labels is None else labels,
        more=more,
        seed=seed or 0,
        columns=columns,
        show_predictions=show_predictions,
        device=device,
        log=log,
    )
