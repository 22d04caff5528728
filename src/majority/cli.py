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

SOURCE_HELP = (
    "A name from `majority list`, a .npz (MedMNIST's layout) or .mat (SVHN's layout) file; or bags of your own: "
    "a manifest (.csv, .parquet) or a folder of feature files (docs/data.md)."
)
Source = Annotated[str, typer.Argument(help=SOURCE_HELP)]
Run = Annotated[Path, typer.Argument(help="A run folder: the --out of `majority train`.")]
OtherSource = Annotated[str | None, typer.Argument(help="Bags of this source instead of the run's own.")]
Recipe = Annotated[str, typer.Option(help="How to train; see `majority list`.")]
Bags = Annotated[int | None, typer.Option(help="Training bags; a quarter as many to validate and to test.")]
BagSize = Annotated[int | None, typer.Option(help="Instances a bag.")]
Ties = Annotated[
    str | None, typer.Option(help="Bags whose top count is shared: lowest (class wins; the default), resample, error.")
]
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
ImageSize = Annotated[int | None, typer.Option(help="Resize a manifest's images to so many pixels a side.")]
Features = Annotated[str | None, typer.Option(help="Columns of a manifest with commas between them: the features.")]
Background = Annotated[str | None, typer.Option(help="A class that does not vote; bag labels never name it.")]
BackgroundShare = Annotated[float | None, typer.Option(help="Its share of all instances, where it is known.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
COMPILE_HELP = "On a GPU, compile the network first: a minute that long runs and studies win back."
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
    method: Annotated[str, typer.Option(help="See `majority list`.")] = "log-mean",
    recipe: Recipe = "default",
    scenario: Annotated[
        str | None, typer.Option(help="small, various (the default), large, or LOW,HIGH majority proportions.")
    ] = None,
    fold: Annotated[int | None, typer.Option(help="0 to 4; of your own bags 0 to --folds - 1 [default: 0].")] = None,
    folds: Annotated[int | None, typer.Option(help="Cross-validate your own bags; without --fold, all folds.")] = None,
    image_size: ImageSize = None,
    features: Features = None,
    epochs: Epochs = None,
    patience: Patience = None,
    bags: Bags = None,
    bag_size: BagSize = None,
    batch_bags: BatchBags = None,
    learning_rate: LearningRate = None,
    max_instances: MaxInstances = None,
    backbone: Backbone = None,
    option: Option = None,
    background: Background = None,
    background_share: BackgroundShare = None,
    ties: Ties = None,
    with_replacement: WithReplacement = False,
    seed: Seed = 0,
    data_seed: DataSeed = 0,
    device: Device = "auto",
    compile_network: Compile = None,
    eager: Annotated[bool, typer.Option("--eager", help="On a GPU, launch every step from Python (to debug).")] = False,
    out: Annotated[Path | None, typer.Option(help="Run folder [default: runs/SOURCE[-SCENARIO]-METHOD-foldF].")] = None,
) -> None:
    """Train an instance classifier from majority labels, in a run folder. Killed, the same command continues."""
    from .experiments import Data, Experiment

    if background_share is not None and background is None:
        raise InputError("--background-share: name the background too, with --background NAME")
    own = (folds, image_size, _names(features) if features is not None else None, background)
    data = Data(source, scenario, fold or 0, bags, bag_size, ties, with_replacement, data_seed, *own).settled()
    changes = {"backbone": backbone, "epochs": epochs, "patience": patience, "batch_bags": batch_bags}
    changes |= {"learning_rate": learning_rate, "max_instances": max_instances, "compile": compile_network}
    changes |= {"background_share": background_share}
    experiment = Experiment(data, method, _method_options(option), recipe, seed, **changes)
    stem = "-".join(filter(None, [Path(source).resolve().stem, (data.scenario or "").replace(",", "-"), method]))
    if folds is not None and fold is None:
        _cross_validate(experiment, folds, out or Path("runs") / stem, device, eager)
        return
    folder = out or Path("runs") / f"{stem}-fold{data.fold}"
    result = experiment.run(folder, device, _say, eager)
    _print_result(result)
    _say(f"run folder: {folder}")


@app.command()
def evaluate(
    run: Run,
    source: OtherSource = None,
    all_parts: Annotated[bool, typer.Option("--all", help="Training and validation bags too.")] = False,
    device: Device = "auto",
) -> None:
    """Figures of a run's classifier on the test bags of its fold, or on all bags of a SOURCE of your own."""
    from .experiments import open_bags
    from .inference import evaluate as measure

    classifier, bags, _ = open_bags(run, source, labels=True, all_parts=all_parts, device=device)
    for part, of_part in bags.items():
        _print_figures(measure(classifier.model, of_part, device).summary(), f"{part} bags")


@app.command()
def predict(
    run: Run,
    source: OtherSource = None,
    out: Annotated[Path, typer.Option(help="A .csv or .parquet file.")] = Path("predictions.csv"),
    by_bag: Annotated[bool, typer.Option("--bags", help="A row a bag instead of a row an instance.")] = False,
    all_parts: Annotated[bool, typer.Option("--all", help="Training and validation bags too.")] = False,
    device: Device = "auto",
) -> None:
    """Classify every instance of the test bags of a run's fold, or of all bags of a SOURCE of your own."""
    from .experiments import open_bags
    from .predictions import check_place, write_bag_predictions, write_predictions
    from .runs import read_config

    check_place(out)
    own = Path(read_config(run)["data"]["source"])
    for place in filter(None, [source, own]):
        if out.exists() and out.resolve() == Path(place).resolve():
            raise InputError(f"--out {out} is the source itself: choose another file")
    if source is not None and Path(source).resolve() == own.resolve():
        _say("note: the run was trained on bags of this source; they are among those predicted here")
    classifier, bags, opened = open_bags(run, source, labels=False, all_parts=all_parts, device=device)
    if by_bag:
        _say(f"{write_bag_predictions(out, classifier, bags)} bags: {out}")
    else:
        _say(f"{write_predictions(out, classifier, bags, opened)} instances: {out}")


@app.command()
def export(run: Run, out: Annotated[Path, typer.Option(help="An .onnx file.")] = Path("model.onnx")) -> None:
    """Write a run's instance classifier as ONNX: stored instances in, probabilities out, checked in onnxruntime."""
    from .experiments import open_classifier
    from .export import export_onnx

    _say(str(export_onnx(open_classifier(run, "cpu"), out)))


@app.command()
def check(source: Source, image_size: ImageSize = None, features: Features = None) -> None:
    """Read everything of a source, say what it holds and every problem: file, row, cure. Exit 1 on problems."""
    from rich.table import Table

    from .checks import check_source

    found = check_source(source, image_size, _names(features) if features is not None else None)
    if found.summary:
        table = Table(title=source, title_justify="left", show_header=False)
        for name, value in found.summary.items():
            table.add_row(name, value)
        _console().print(table)
    for warning in found.warnings:
        _say(f"warning: {warning}")
    for problem in found.problems:
        _say(f"problem: {problem}")
    _say(f"{len(found.problems)} problems, {len(found.warnings)} warnings")
    if found.problems:
        raise typer.Exit(1)


@app.command()
def report(run: Run, device: Device = "auto") -> None:
    """Write RUN/report.html: one page, no network, with the figures, curves, classes, bags and images of a run."""
    from .report import write_report

    _say(str(write_report(run, device)))


@app.command()
def study(
    sources: Annotated[list[str], typer.Argument(help="Names from `majority list`, or labelled .npz or .mat files.")],
    methods: Annotated[str, typer.Option(help="Names with commas between them.")] = "count,log-mean,vote,naive",
    scenarios: Annotated[str, typer.Option(help="Names with commas between them.")] = "small,various,large",
    folds: Annotated[str, typer.Option(help="0, 0-4 or 0,2.")] = "0",
    recipe: Recipe = "default",
    epochs: Epochs = None,
    patience: Patience = None,
    bags: Bags = None,
    bag_size: BagSize = None,
    ties: Ties = None,
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
    from .sources import is_own_source
    from .study import Study, aggregate, as_csv, as_markdown

    for source in filter(is_own_source, sources):
        raise InputError(f"{source} holds bags of your own, study makes bags of labelled sets: take train --folds K")
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


def _console():
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=160)


def _say(line: str) -> None:
    print(line, flush=True)


def _cross_validate(experiment, folds: int, out: Path, device: str, eager: bool) -> None:
    """Every fold in a folder of its own below `out`, one line of means at the end."""
    from dataclasses import replace

    from .study import aggregate

    results = []
    for fold in range(folds):
        of_fold = replace(experiment, data=replace(experiment.data, fold=fold))
        results.append(of_fold.run(out / f"fold{fold}", device, _say, eager))
    _print_rows(aggregate(results))
    _say(f"run folders: {out}/fold0 to fold{folds - 1}")


def _print_result(result: dict) -> None:
    if result["test"]:
        _print_figures(result["test"], f"test bags of fold {result['fold']}")
    else:
        _print_figures(result["val"], "validation bags")
        _say("there are no test bags: these figures are of the bags by which the epoch was chosen, and flatter it")


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
        table.add_row(row["source"], row["scenario"] or "-", row["method"], str(row["n"]), *figures)
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
