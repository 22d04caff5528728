"""`majority train`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import InputError
from . import options
from .app import app, tell_how_to_continue
from .config_file import Config
from .printing import log, print_folds, print_result

if TYPE_CHECKING:
    from ..run.experiment import Experiment

SCENARIO_HELP = "small, various (the default), large, or LOW,HIGH majority proportions."
FOLDS_HELP = "Cross-validate your own bags with this number of folds, e.g. 5; without --fold, all folds are trained."
METHOD_HELP = "See `majority list`; auto: several, weighted by the bags (census), or adjusted-mean."
REFIT_HELP = "Then train once more, on all labelled bags (default: your own bags, recipe census, without --folds)."
INSTANCE_HELP = "Also train on known instance labels of training bags (column label); metrics exclude these instances."
PER_CLASS_HELP = "With --use-instance-labels: use at most N labels per class."


def _under_torchrun(command: Callable[..., None]) -> Callable[..., None]:
    """The command; if torchrun starts it in several processes, they do it together."""

    @wraps(command)
    def run(**options: Any) -> None:
        from ..training.distributed import join_torchrun

        with join_torchrun(options["device"]):
            command(**options)

    return run


@app.command()
@_under_torchrun
def train(
    context: typer.Context,
    source: options.Source,
    config: Config = None,
    method: Annotated[str, typer.Option(help=METHOD_HELP)] = "auto",
    recipe: options.Recipe = "default",
    scenario: Annotated[str | None, typer.Option(help=SCENARIO_HELP)] = None,
    fold: Annotated[int | None, typer.Option(help="0 to 4; for your own bags 0 to --folds - 1 (default: 0).")] = None,
    folds: Annotated[int | None, typer.Option(help=FOLDS_HELP)] = None,
    image_size: options.ImageSize = None,
    like: options.Like = None,
    features: options.Features = None,
    bag_column: options.BagColumn = None,
    label_column: options.LabelColumn = None,
    path_column: options.PathColumn = None,
    epochs: options.Epochs = None,
    patience: options.Patience = None,
    bags: options.NumberOfBags = None,
    bag_size: options.BagSize = None,
    batch_bags: options.BatchBags = None,
    learning_rate: options.LearningRate = None,
    max_instances: options.MaxInstances = None,
    backbone: options.Backbone = None,
    option: options.MethodOption = None,
    settings: options.Set = None,
    background: Annotated[
        str | None, typer.Option(help="A class that is not counted for the majority and is never a bag label.")
    ] = None,
    background_share: Annotated[float | None, typer.Option(help="Its share of all instances, if it is known.")] = None,
    refit: Annotated[bool | None, typer.Option("--refit/--no-refit", help=REFIT_HELP)] = None,
    classes: options.Classes = None,
    winner_ratio: options.WinnerRatio = None,
    labels: options.Labels = None,
    use_instance_labels: Annotated[bool, typer.Option("--use-instance-labels", help=INSTANCE_HELP)] = False,
    instance_labels: Annotated[int | None, typer.Option(help=PER_CLASS_HELP)] = None,
    wrong_labels: options.WrongLabels = None,
    ties: options.Ties = None,
    with_replacement: options.WithReplacement = False,
    seed: options.Seed = 0,
    data_seed: options.DataSeed = 0,
    device: options.Device = "auto",
    compile: options.Compile = None,
    eager: Annotated[
        bool, typer.Option("--eager", help="On a GPU, launch every step from Python (for debugging).")
    ] = False,
    trackers: options.Trackers = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Run folder (default: runs/SOURCE-SCENARIO-METHOD-foldF).", callback=options.not_stdout),
    ] = None,
) -> None:
    """Train an instance classifier from majority labels, in a run folder.

    If it is interrupted, repeat the command to continue. With `torchrun --nproc-per-node N -m majority train ...`,
    several processes train together.
    """
    from ..run.data import Data
    from ..run.experiment import Experiment
    from ..run.trackers import create_trackers
    from ..training.distributed import is_first

    callbacks = create_trackers(trackers or [])
    if background_share is not None and background is None:
        raise InputError("--background-share: name the background too, with --background NAME")
    given = context.params | {"features": options.optional_names(features)}
    data = Data.from_options(source, given).with_defaults()
    experiment = Experiment(
        data,
        method,
        options.parse_method_options(option),
        recipe,
        seed,
        settings=options.parse_settings(settings, context.params),
        background_share=background_share,
        like=like,
        refit=refit,
    )
    stem = "-".join(filter(None, [Path(source).resolve().stem, (data.scenario or "").replace(",", "-"), method]))
    if folds is not None and fold is None:
        _cross_validate(experiment, folds, out or Path("runs") / stem, device, eager, trackers or [])
        return
    folder = out or Path("runs") / f"{stem}-fold{data.fold}"
    with tell_how_to_continue(folder) if is_first() else nullcontext():
        result = experiment.run(folder, device, log, eager, callbacks=callbacks)
    if is_first():
        print_result(result)
        log(f"run folder: {folder}")


def _cross_validate(
    experiment: Experiment, folds: int, out: Path, device: str, eager: bool, trackers: list[str]
) -> None:
    """Train each fold in its own folder below `out` and print the means. A warning that folds share is printed once."""
    from ..run.trackers import create_trackers
    from ..training.distributed import is_first

    results: list[dict[str, Any]] = []
    warned: set[str] = set()

    def log_once(line: str) -> None:
        if line not in warned:
            log(line)
        if line.startswith("warning: "):
            warned.add(line)

    for fold in range(folds):
        of_fold = replace(experiment, data=replace(experiment.data, fold=fold))
        with tell_how_to_continue(out) if is_first() else nullcontext():
            callbacks = create_trackers(trackers)
            results.append(of_fold.run(out / f"fold{fold}", device, log_once, eager, callbacks=callbacks))
    if is_first():
        print_folds(results)
        log(f"run folders: {out}/fold0 to fold{folds - 1}")
