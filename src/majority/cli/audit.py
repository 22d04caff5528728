"""majority audit: how accurate a run is, from a few labelled instances."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from . import options
from .app import app
from .printing import log, note_trained_on


@app.command()
def audit(
    run: options.RunFolder,
    source: options.OtherSource = None,
    labels: Annotated[int, typer.Option(help="Instances to label.")] = 50,
    out: Annotated[
        Path, typer.Option(help="A folder; it gets label.html, to-label.csv, audit.json.", callback=options.not_stdout)
    ] = Path("audit"),
    more: Annotated[int | None, typer.Option(help="Draw so many further instances for the audit in --out.")] = None,
    answers: Annotated[Path | None, typer.Option(help="Labelled instances: print what they say.")] = None,
    calibrate: Annotated[bool, typer.Option("--calibrate", help="Keep the temperature with the classifier.")] = False,
    show_predictions: Annotated[bool, typer.Option("--show-predictions", help="Show predictions on the page.")] = False,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    bag_column: options.BagColumn = None,
    label_column: options.LabelColumn = None,
    path_column: options.PathColumn = None,
    device: options.Device = "auto",
) -> None:
    """Measure the instance accuracy with a few labels: draw instances, label them on a page, read the answers.

    First without --answers: label the instances on OUT/label.html. Then with --answers OUT/answers.csv.
    """
    from ..run.audit import report_audit, write_audit
    from .runs import _column_names

    if answers is not None:
        report_audit(run, answers, with_temperature=calibrate, device=device, log=log)
        return
    note_trained_on(run, source)
    names = _column_names(bag_column, label_column, path_column)
    write_audit(
        run,
        out,
        source,
        labels=labels,
        more=more,
        seed=seed,
        show_predictions=show_predictions,
        names=names,
        device=device,
        log=log,
    )
