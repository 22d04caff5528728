"""`majority study`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from . import options
from .app import app, tell_how_to_continue
from .printing import end_study, log

JOBS_HELP = "Number of parallel runs, or of parallel runs per GPU (default: one per core, two per GPU)."


@app.command()
def study(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help="Names from `majority list`, or labelled .npz or .mat files.")],
    methods: Annotated[str, typer.Option(help="Names separated by commas, or all.")] = "count,log-mean,vote,naive",
    scenarios: Annotated[str, typer.Option(help="Names or LOW,HIGH, separated by commas.")] = "small,various,large",
    folds: Annotated[str, typer.Option(help="Numbers of the folds to train: 0, 0-4 or 0,2 (of 0 to 4).")] = "0",
    preset: Annotated[str | None, typer.Option(help="A predefined study of one source: difficulty.")] = None,
    recipe: options.Recipe = "default",
    epochs: options.Epochs = None,
    patience: options.Patience = None,
    ratios: options.Ratios = None,
    backbone: options.Backbone = None,
    settings: options.Set = None,
    bags: options.NumberOfBags = None,
    bag_size: options.BagSize = None,
    ties: options.Ties = None,
    with_replacement: options.WithReplacement = False,
    seed: options.Seed = 0,
    data_seed: options.DataSeed = 0,
    device: options.Device = "auto",
    compile_network: options.Compile = None,
    jobs: Annotated[int | None, typer.Option(help=JOBS_HELP)] = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs, table.md and table.csv.")] = Path("runs/study"),
) -> None:
    """Train every method on every scenario and fold, and print one table.

    If it is interrupted, repeat the command to continue.
    """
    from ..experiments.data import Data
    from ..experiments.experiment import Experiment
    from ..methods import METHODS
    from ..sources import is_custom_source
    from ..study import Study, difficulty, join_ranges

    for source in filter(is_custom_source, sources):
        raise InputError(
            f"{source} contains your own bags, but `study` makes bags from labelled data sets: "
            "use `majority train --folds K`"
        )
    if preset is not None:
        _check_preset(preset, sources, context)
        with tell_how_to_continue(out):
            done = difficulty.run(sources[0], out, device, jobs, log)
        end_study(done, out)
        return
    data = Data(
        sources[0], bags=bags, bag_size=bag_size, ties=ties, with_replacement=with_replacement, data_seed=data_seed
    )
    shorthands = {
        "backbone": backbone,
        "epochs": epochs,
        "patience": patience,
        "compile": compile_network,
        "ratios": options.parse_ratios(ratios),
    }
    chosen = tuple(METHODS) if methods == "all" else options.split_names(methods)
    common = Experiment(
        data, chosen[0], recipe=recipe, seed=seed, settings=options.parse_settings(settings, shorthands)
    )
    scenario_names = join_ranges(options.split_names(scenarios))
    grid = Study(tuple(sources), scenario_names, chosen, options.parse_folds(folds), common)
    with tell_how_to_continue(out):
        done = grid.run(out, device, jobs, log)
    end_study(done, out)


def _check_preset(preset: str, sources: list[str], context: typer.Context) -> None:
    if preset != "difficulty":
        raise InputError(f"there is no preset {preset!r}: use difficulty")
    if len(sources) > 1:
        raise InputError(f"--preset {preset} studies one source: give {sources[0]} alone")
    allowed = {"sources", "preset", "device", "jobs", "out"}
    for option in context.command.params:
        given = option.name is not None and context.get_parameter_source(option.name)
        if option.name not in allowed and given and given.name == "COMMANDLINE":
            raise InputError(f"--preset {preset} sets {option.opts[0]} itself: leave it out")
