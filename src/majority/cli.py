"""The command: parse, call, print. Rooms that need torch are entered only when a command runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from . import __version__
from .errors import InputError, TrainingError

app = typer.Typer(
    help="Learning from Majority Label: bags labelled with their most common class in, an instance classifier out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

SOURCE_HELP = "A name from `majority list`, or a .npz (MedMNIST's layout) or .mat (SVHN's layout) file."
Source = Annotated[str, typer.Argument(help=SOURCE_HELP)]
Run = Annotated[Path, typer.Argument(help="A run folder: the --out of `majority train`.")]
OtherSource = Annotated[str | None, typer.Argument(help="Bags of this source instead of the run's own.")]
Recipe = Annotated[str, typer.Option(help="How to train; see `majority list`.")]
Bags = Annotated[int | None, typer.Option(help="Training bags; a quarter as many to validate and to test.")]
BagSize = Annotated[int | None, typer.Option(help="Instances a bag.")]
Ties = Annotated[str, typer.Option(help="Bags whose top count is shared: lowest (class wins), resample, error.")]
WithReplacement = Annotated[bool, typer.Option("--with-replacement", help="An instance may be twice in a bag.")]
Seed = Annotated[int, typer.Option(help="Weights, order of bags.")]
DataSeed = Annotated[int, typer.Option(help="Folds and bags.")]
Epochs = Annotated[int | None, typer.Option(help="Instead of the recipe's number.")]
Patience = Annotated[int | None, typer.Option(help="Stop after so many epochs without a better validation loss.")]
BatchBags = Annotated[int | None, typer.Option(help="Bags a step.")]
LearningRate = Annotated[float | None, typer.Option(help="Instead of the recipe's.")]
MaxInstances = Annotated[int | None, typer.Option(help="Of each larger bag, a fresh random part this large a step.")]
Backbone = Annotated[str | None, typer.Option(help="Network; see `majority list`.")]
Option = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the method, e.g. of=counts.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
COMPILE_HELP = "On a GPU, compile the network: a quarter faster after a minute (pays in long runs and studies)."
Compile = Annotated[bool | None, typer.Option("--compile", help=COMPILE_HELP)]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit


@app.command()
def train(
    source: Source,
    method: Annotated[str, typer.Option(help="See `majority list`.")] = "count",
    recipe: Recipe = "default",
    scenario: Annotated[str, typer.Option(help="small, various, large, or LOW,HIGH majority proportions.")] = "various",
    fold: Annotated[int, typer.Option(help="0 to 4.")] = 0,
    epochs: Epochs = None,
    patience: Patience = None,
    bags: Bags = None,
    bag_size: BagSize = None,
    batch_bags: BatchBags = None,
    learning_rate: LearningRate = None,
    max_instances: MaxInstances = None,
    backbone: Backbone = None,
    option: Option = None,
    ties: Ties = "lowest",
    with_replacement: WithReplacement = False,
    seed: Seed = 0,
    data_seed: DataSeed = 0,
    device: Device = "auto",
    compile_network: Compile = None,
    eager: Annotated[bool, typer.Option("--eager", help="On a GPU, launch every step from Python (to debug).")] = False,
    out: Annotated[Path | None, typer.Option(help="Run folder [default: runs/SOURCE-SCENARIO-METHOD-foldF].")] = None,
) -> None:
    """Train an instance classifier from majority labels, in a run folder. Killed, the same command continues."""
    from .experiments import Data, Experiment

    data = Data(source, scenario, fold, bags, bag_size, ties, with_replacement, data_seed)
    changes = {"backbone": backbone, "epochs": epochs, "patience": patience, "batch_bags": batch_bags}
    changes |= {"learning_rate": learning_rate, "max_instances": max_instances, "compile": compile_network}
    experiment = Experiment(data, method, _method_options(option), recipe, seed, **changes)
    folder = out or Path("runs") / f"{Path(source).stem}-{scenario.replace(',', '-')}-{method}-fold{fold}"
    result = experiment.run(folder, device, _say, eager)
    _print_figures(result["test"], f"test bags of fold {fold}")
    _say(f"run folder: {folder}")


@app.command()
def evaluate(
    run: Run,
    source: OtherSource = None,
    all_parts: Annotated[bool, typer.Option("--all", help="Training and validation bags too.")] = False,
    device: Device = "auto",
) -> None:
    """Figures of a run's classifier on the test bags of its fold."""
    from .experiments import reopen
    from .inference import evaluate as measure

    classifier, parts = reopen(run, source, device)
    for part in parts._fields if all_parts else ["test"]:
        _print_figures(measure(classifier.model, getattr(parts, part), device).summary(), f"{part} bags")


@app.command()
def predict(
    run: Run,
    source: OtherSource = None,
    out: Annotated[Path, typer.Option(help="A .csv file, a row an instance.")] = Path("predictions.csv"),
    all_parts: Annotated[bool, typer.Option("--all", help="Training and validation bags too.")] = False,
    device: Device = "auto",
) -> None:
    """Classify every instance of the test bags of a run's fold."""
    from .experiments import reopen
    from .predictions import write_predictions

    if out.suffix != ".csv" or not out.parent.is_dir():
        raise InputError(f"--out {out}: give a file that ends in .csv, in a folder that exists")
    classifier, parts = reopen(run, source, device)
    chosen = parts._asdict() if all_parts else {"test": parts.test}
    _say(f"{write_predictions(out, classifier, chosen)} instances: {out}")


@app.command()
def study(
    sources: Annotated[list[str], typer.Argument(help=SOURCE_HELP)],
    methods: Annotated[str, typer.Option(help="Names with commas between them.")] = "count,log-mean,vote,naive",
    scenarios: Annotated[str, typer.Option(help="Names with commas between them.")] = "small,various,large",
    folds: Annotated[str, typer.Option(help="0, 0-4 or 0,2.")] = "0",
    recipe: Recipe = "default",
    epochs: Epochs = None,
    patience: Patience = None,
    bags: Bags = None,
    bag_size: BagSize = None,
    ties: Ties = "lowest",
    with_replacement: WithReplacement = False,
    seed: Seed = 0,
    data_seed: DataSeed = 0,
    device: Device = "auto",
    compile_network: Compile = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and of table.md and table.csv.")] = Path("runs/study"),
) -> None:
    """Train every method on every scenario and fold, one table at the end. Killed, the same command continues."""
    from .experiments import Data, Experiment
    from .files import write_atomically
    from .study import Study, aggregate, as_csv, as_markdown

    data = Data(
        sources[0], bags=bags, bag_size=bag_size, ties=ties, with_replacement=with_replacement, data_seed=data_seed
    )
    common = Experiment(data, recipe=recipe, seed=seed, epochs=epochs, patience=patience, compile=compile_network)
    grid = Study(tuple(sources), _names(scenarios), _names(methods), _folds(folds), common)
    rows = aggregate(grid.run(out, device, say=_say))
    write_atomically(out / "table.md", lambda place: place.write_text(as_markdown(rows)))
    write_atomically(out / "table.csv", lambda place: place.write_text(as_csv(rows)))
    _print_rows(rows)
    _say(f"{sum(row['seconds'] for row in rows):.0f} s of training; {out / 'table.md'}, {out / 'table.csv'}")


@app.command("list")
def list_all() -> None:
    """Sources (here or not, where), methods, backbones and recipes."""
    from rich.table import Table

    from .backbones import BACKBONES
    from .methods import METHODS
    from .recipes import RECIPES
    from .sources import describe

    table = Table(title="sources", title_justify="left")
    for column in ("name", "here", "instances", "shape", "classes", "licence", "where"):
        table.add_column(column, overflow="fold")
    for info in describe():
        shape = "x".join(map(str, info.shape))
        here = "yes" if info.here else "no"
        table.add_row(info.name, here, str(info.instances), shape, str(len(info.classes)), info.licence, info.where)
    _console().print(table)
    for title, entries in {
        "methods": {name: method.about for name, method in METHODS.items()},
        "backbones": {name: backbone.about for name, backbone in BACKBONES.items()},
        "recipes": {name: recipe.about for name, recipe in RECIPES.items()},
    }.items():
        table = Table("name", "about", title=title, title_justify="left")
        for name, about in entries.items():
            table.add_row(name, about)
        _console().print(table)


def main() -> None:
    """Exit 0 when done, 2 on wrong use or bad input, 1 when training failed; one message, no traceback."""
    try:
        app()
    except (InputError, TrainingError) as error:
        if "--debug" in sys.argv:
            raise
        print(f"majority: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except KeyboardInterrupt:
        print("majority: interrupted; the same command continues where it was", file=sys.stderr)
        sys.exit(130)


def _console():
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=160)


def _say(line: str) -> None:
    print(line, flush=True)


def _print_figures(figures: dict, title: str) -> None:
    from rich.table import Table

    table = Table("figure", "value", title=title, title_justify="left")
    for name, value in figures.items():
        if not isinstance(value, list):
            table.add_row(name.replace("_", " "), f"{value:.4f}" if isinstance(value, float) else str(value))
    _console().print(table)


def _print_rows(rows: list[dict]) -> None:
    from rich.table import Table

    from .study.tables import FIGURES, shown

    table = Table("source", "scenario", "method", "n", *FIGURES.values())
    for before, row in zip([None, *rows], rows, strict=False):
        if before and before["scenario"] != row["scenario"]:
            table.add_section()
        figures = [shown(row, figure) for figure in FIGURES]
        table.add_row(row["source"], row["scenario"], row["method"], str(row["n"]), *figures)
    _console().print(table)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        raise InputError("an empty list of names: give at least one")
    return names


def _folds(text: str) -> tuple[int, ...]:
    """'0', '0-4' or '0,2' -> fold numbers."""
    folds: list[int] = []
    try:
        for piece in text.split(","):
            first, _, last = piece.partition("-")
            folds += range(int(first), int(last or first) + 1)
    except ValueError:
        raise InputError(f"--folds {text}: write 0, 0-4 or 0,2") from None
    return tuple(folds)


def _method_options(pairs: list[str] | None) -> dict:
    options = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"--option {pair}: write KEY=VALUE, e.g. of=counts")
        try:
            options[key] = float(value)
        except ValueError:
            options[key] = value
    return options
