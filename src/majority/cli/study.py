"""`majority study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from . import options
from .app import app, tell_how_to_continue
from .config_file import Config, with_pairs_of_file
from .printing import end_study, log

DEFAULT_METHODS = "count,log-mean,vote,naive"
JOBS_HELP = "Number of parallel runs, or of parallel runs per GPU (default: one per core, two per GPU)."
SOURCES_HELP = "Names from `majority list`, labelled .npz or .mat files, or bags of your own (five folds)."
VARY_HELP = "Values of a setting to compare, as rows of one table, e.g. training.learning_rate=1e-3,3e-4."
REFERENCE_HELP = "The method, as its row is named, that others are compared with in the report."


@app.command()
def study(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help=SOURCES_HELP, callback=options.note_on_names)],
    config: Config = None,
    methods: Annotated[str, typer.Option(help="Names separated by commas, or all.")] = DEFAULT_METHODS,
    scenarios: Annotated[str, typer.Option(help="Names or LOW,HIGH, separated by commas.")] = "small,various,large",
    folds: Annotated[str, typer.Option(help="Numbers of the folds to train: 0, 0-4 or 0,2 (of 0 to 4).")] = "0",
    seeds: Annotated[str, typer.Option(help="Seeds of weights and order of bags: 0, 0-2 or 0,2.")] = "0",
    vary: Annotated[
        list[str] | None,
        typer.Option("--vary", metavar="NAME=VALUE,VALUE", callback=with_pairs_of_file, help=VARY_HELP),
    ] = None,
    reference: Annotated[str | None, typer.Option(help=REFERENCE_HELP)] = None,
    recipe: options.Recipe = "default",
    epochs: options.Epochs = None,
    patience: options.Patience = None,
    batch_bags: options.BatchBags = None,
    learning_rate: options.LearningRate = None,
    max_instances: options.MaxInstances = None,
    backbone: options.Backbone = None,
    option: options.MethodOption = None,
    settings: options.Set = None,
    like: options.Like = None,
    bags: options.NumberOfBags = None,
    bag_size: options.BagSize = None,
    classes: options.Classes = None,
    winner_ratio: options.WinnerRatio = None,
    labels: options.BenchmarkLabels = None,
    wrong_labels: options.WrongLabels = None,
    ties: options.Ties = None,
    with_replacement: options.WithReplacement = False,
    data_seed: options.DataSeed = 0,
    device: options.Device = "auto",
    compile: options.Compile = None,
    jobs: Annotated[int | None, typer.Option(help=JOBS_HELP)] = None,
    shard: options.Shard = None,
    on: options.On = "local",
    trackers: options.Trackers = None,
    out: Annotated[
        Path, typer.Option(help="Folder of the runs, table.md and table.csv.", callback=options.not_stdout)
    ] = Path("runs/study"),
) -> None:
    """Train every method on every scenario, fold and seed, and print one table.

    If it is interrupted, repeat the command to continue.
    """
    from ..io import is_custom_source
    from ..nn.methods import METHODS
    from ..run.data import Data
    from ..run.experiment import Experiment
    from ..run.shards import Shard
    from ..run.study import Study, join_ranges

    chosen = tuple(METHODS) if methods == "all" else options.split_names(methods)
    fold_numbers = options.parse_folds(folds)
    part = None if shard is None else Shard.parse(shard)
    data = Data(
        sources[0],
        bags=bags,
        bag_size=bag_size,
        ties=ties,
        with_replacement=with_replacement,
        data_seed=data_seed,
        classes=classes,
        winner_ratio=winner_ratio,
        labels=labels,
        wrong_labels=wrong_labels,
    )
    common = Experiment(
        data,
        chosen[0],
        recipe=recipe,
        settings=options.parse_settings(settings, context.params),
        like=like,
    )
    grid = Study(
        tuple(sources),
        join_ranges(options.split_names(scenarios)),
        chosen,
        fold_numbers,
        common,
        options.parse_folds(seeds, "--seeds"),
        options.parse_vary(vary),
        reference,
        options.parse_method_options(option),
    )
    if _is_given(context, "scenarios") and all(map(is_custom_source, sources)):
        raise InputError(f"--scenarios makes bags from labelled sets, and {sources[0]} has its own bags: leave it out")
    with tell_how_to_continue(out):
        done = grid.run(out, device, jobs, log, part, on, trackers or [])
    end_study(done, out, part)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option is on the command line or in the file of --config."""
    source = context.get_parameter_source(name)
    return source is not None and source.name in ("COMMANDLINE", "DEFAULT_MAP")
