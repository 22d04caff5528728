"""The command: parse, call, print. Rooms that need torch are entered only when a command runs."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from .. import __version__
from ..errors import InputError, TrainingError, count_noun
from ..plugins import load_plugins
from .printing import console, end_study, log, note_trained_on, print_check, print_figures, print_folds, print_result

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
Ratios = Annotated[str | None, typer.Option(help="Of the recipe mpem: shares to leave out, e.g. 0.1,0.5,1.0.")]
Backbone = Annotated[str | None, typer.Option(help="Network; see `majority list`.")]
Option = Annotated[list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the method, e.g. of=counts.")]
SET_HELP = "A setting of the recipe's plan by its name in config.json, e.g. training.weight_decay=0.05."
Set = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=SET_HELP)]
ImageSize = Annotated[int | None, typer.Option(help="Resize a manifest's images to so many pixels a side.")]
Like = Annotated[str | None, typer.Option(help="Your images may be changed in training as this source's may be.")]
Features = Annotated[str | None, typer.Option(help='The features: columns of a manifest, as in a,b or "height, cm",b.')]
Background = Annotated[str | None, typer.Option(help="A class that does not vote; bag labels never name it.")]
Classes = Annotated[int | None, typer.Option(help="Only the first so many classes of a labelled set.")]
WinnerRatio = Annotated[float | None, typer.Option(help="The first class wins so many times as often as the last.")]
BackgroundShare = Annotated[float | None, typer.Option(help="Its share of all instances, where it is known.")]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
COMPILE_HELP = "On a GPU, compile the network also for a short run (a long one does so by itself)."
Compile = Annotated[bool | None, typer.Option("--compile", help=COMPILE_HELP)]
Jobs = Annotated[int | None, typer.Option(help="Runs side by side, or on each GPU (default: one a core, two a GPU).")]


@app.callback(invoke_without_command=True)
def _options(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if version:
        print(__version__)
        raise typer.Exit
    load_plugins()


@app.command()
def train(
    source: Source,
    method: Annotated[str, typer.Option(help="See `majority list`.")] = "adjusted-mean",
    recipe: Recipe = "default",
    scenario: Annotated[
        str | None, typer.Option(help="small, various (the default), large, or LOW,HIGH majority proportions.")
    ] = None,
    fold: Annotated[int | None, typer.Option(help="0 to 4; of your own bags 0 to --folds - 1 (default: 0).")] = None,
    folds: Annotated[int | None, typer.Option(help="Cross-validate your own bags; without --fold, all folds.")] = None,
    image_size: ImageSize = None,
    like: Like = None,
    features: Features = None,
    epochs: Epochs = None,
    patience: Patience = None,
    bags: Bags = None,
    bag_size: BagSize = None,
    batch_bags: BatchBags = None,
    learning_rate: LearningRate = None,
    max_instances: MaxInstances = None,
    ratios: Ratios = None,
    backbone: Backbone = None,
    option: Option = None,
    settings: Set = None,
    background: Background = None,
    background_share: BackgroundShare = None,
    classes: Classes = None,
    winner_ratio: WinnerRatio = None,
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
    from ..experiments.data import Data
    from ..experiments.experiment import Experiment

    if background_share is not None and background is None:
        raise InputError("--background-share: name the background too, with --background NAME")
    given = {"scenario": scenario, "fold": fold or 0, "folds": folds, "data_seed": data_seed, "ties": ties}
    given |= {"bags": bags, "bag_size": bag_size, "with_replacement": with_replacement, "background": background}
    given |= {"classes": classes, "winner_ratio": winner_ratio, "image_size": image_size}
    data = Data(source, **given, features=None if features is None else _names(features)).with_defaults()
    changes = {"backbone": backbone, "epochs": epochs, "patience": patience, "batch_bags": batch_bags}
    changes |= {"learning_rate": learning_rate, "max_instances": max_instances, "compile": compile_network}
    changes |= {"background_share": background_share, "ratios": _ratios(ratios), "settings": settings_of(settings)}
    experiment = Experiment(data, method, _method_options(option), recipe, seed, **changes, like=like)
    stem = "-".join(filter(None, [Path(source).resolve().stem, (data.scenario or "").replace(",", "-"), method]))
    if folds is not None and fold is None:
        _cross_validate(experiment, folds, out or Path("runs") / stem, device, eager)
        return
    folder = out or Path("runs") / f"{stem}-fold{data.fold}"
    with _continuable(folder):
        result = experiment.run(folder, device, log, eager)
    print_result(result)
    log(f"run folder: {folder}")


@app.command()
def evaluate(
    run: Run,
    source: OtherSource = None,
    all_parts: Annotated[bool, typer.Option("--all", help="Training and validation bags too.")] = False,
    device: Device = "auto",
) -> None:
    """Figures of a run's classifier on the test bags of its fold, or on all bags of a SOURCE of your own."""
    from ..experiments.reopen import open_bags
    from ..inference.evaluate import evaluate as measure

    classifier, bags, _ = open_bags(run, source, labels=True, all_parts=all_parts, device=device, log=log)
    note_trained_on(run, source)
    for part, of_part in bags.items():
        print_figures(measure(classifier.model, of_part, device).summary(), f"{part} bags")


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
    from ..experiments.reopen import open_bags
    from ..experiments.run_folder import read_config, source_of
    from ..inference.prediction_files import check_place, write_bag_predictions, write_predictions

    check_place(out, filter(None, [source, source_of(read_config(run))]))
    classifier, bags, opened = open_bags(run, source, labels=False, all_parts=all_parts, device=device, log=log)
    note_trained_on(run, source)
    if by_bag:
        log(f"{count_noun(write_bag_predictions(out, classifier, bags), 'bag')}: {out}")
    else:
        log(f"{count_noun(write_predictions(out, classifier, bags, opened), 'instance')}: {out}")


@app.command()
def export(run: Run, out: Annotated[Path, typer.Option(help="An .onnx file.")] = Path("model.onnx")) -> None:
    """Write a run's instance classifier as ONNX: stored instances in, probabilities out, checked in onnxruntime."""
    from ..experiments.reopen import open_classifier
    from ..inference.onnx import export_onnx

    log(str(export_onnx(open_classifier(run, "cpu"), out)))


@app.command()
def check(source: Source, image_size: ImageSize = None, features: Features = None) -> None:
    """Read everything of a source, log what it holds and all that is wrong: file, row, cure. Exit 1 on problems."""
    from ..sources import check_source

    found = check_source(source, image_size, _names(features) if features is not None else None)
    print_check(found, source)
    if found.problems:
        raise typer.Exit(1)


@app.command()
def report(
    run: Annotated[Path, typer.Argument(help="A run folder, a study's folder, or a .jsonl file of results.")],
    source: OtherSource = None,
    device: Device = "auto",
) -> None:
    """Write report.html, one page that needs no network: of a run, or of a study with its tables beside it.

    With a SOURCE, RUN/report-SOURCE.html: the run's classifier on the bags of that one, which need no labels.
    """
    from ..experiments.run_folder import CONFIG
    from ..experiments.run_report import report_run
    from ..study.page import write_study

    of_run = source is not None or (run / CONFIG).is_file()
    note_trained_on(run, source)
    written = [report_run(run, device, source, log)] if of_run else write_study(run, log)
    for path in written:
        log(str(path))


@app.command()
def study(
    context: typer.Context,
    sources: Annotated[list[str], typer.Argument(help="Names from `majority list`, or labelled .npz or .mat files.")],
    methods: Annotated[str, typer.Option(help="Names with commas between them, or all.")] = "count,log-mean,vote,naive",
    scenarios: Annotated[str, typer.Option(help="Names or LOW,HIGH, commas between them.")] = "small,various,large",
    folds: Annotated[str, typer.Option(help="0, 0-4 or 0,2.")] = "0",
    preset: Annotated[str | None, typer.Option(help="A study made in advance, of one source: difficulty.")] = None,
    recipe: Recipe = "default",
    epochs: Epochs = None,
    patience: Patience = None,
    ratios: Ratios = None,
    backbone: Backbone = None,
    settings: Set = None,
    bags: Bags = None,
    bag_size: BagSize = None,
    ties: Ties = None,
    with_replacement: WithReplacement = False,
    seed: Seed = 0,
    data_seed: DataSeed = 0,
    device: Device = "auto",
    compile_network: Compile = None,
    jobs: Jobs = None,
    out: Annotated[Path, typer.Option(help="Folder of the runs and of table.md and table.csv.")] = Path("runs/study"),
) -> None:
    """Train every method on every scenario and fold, one table at the end. Killed, the same command continues."""
    from ..experiments.data import Data
    from ..experiments.experiment import Experiment
    from ..methods import METHODS
    from ..sources import is_custom_source
    from ..study import Study, difficulty, with_ranges

    for source in filter(is_custom_source, sources):
        raise InputError(f"{source} holds bags of your own, study makes bags of labelled sets: take train --folds K")
    if preset is not None:
        _check_preset(preset, sources, context)
        with _continuable(out):
            done = difficulty.run(sources[0], out, device, jobs, log)
        end_study(done, out)
        return
    data = Data(
        sources[0], bags=bags, bag_size=bag_size, ties=ties, with_replacement=with_replacement, data_seed=data_seed
    )
    changes = {"backbone": backbone, "epochs": epochs, "patience": patience, "compile": compile_network}
    changes |= {"ratios": _ratios(ratios), "settings": settings_of(settings)}
    chosen = tuple(METHODS) if methods == "all" else _names(methods)
    common = Experiment(data, chosen[0], recipe=recipe, seed=seed, **changes)
    grid = Study(tuple(sources), with_ranges(_names(scenarios)), chosen, folds_of(folds), common)
    with _continuable(out):
        done = grid.run(out, device, jobs, log)
    end_study(done, out)


@app.command("list")
def list_all() -> None:
    """Sources (here or not, where), methods, backbones and recipes."""
    from rich.table import Table

    from ..backbones import BACKBONES
    from ..methods import METHODS
    from ..recipes import DEFAULT, RECIPES
    from ..sources import describe

    table = Table(title="sources", title_justify="left")
    for column in ("name", "here", "instances", "shape", "classes", "licence", "where"):
        table.add_column(column, overflow="fold")
    for info in describe():
        shape = "x".join(map(str, info.shape))
        here = "yes" if info.here else "no"
        table.add_row(info.name, here, str(info.instances), shape, str(len(info.classes)), info.licence, info.where)
    console().print(table)
    for title, entries in {
        "methods": {name: method.about for name, method in METHODS.items()},
        "backbones": {name: backbone.about for name, backbone in BACKBONES.items()},
        "recipes": {DEFAULT: "one of these, by the data and the device", **{n: r.about for n, r in RECIPES.items()}},
    }.items():
        table = Table("name", "about", title=title, title_justify="left")
        for name, about in entries.items():
            table.add_row(name, about)
        console().print(table)


def main() -> None:
    """Exit 0 when done, 2 on wrong use or bad input, 1 when training failed; one message, no traceback."""
    try:
        app()
    except (InputError, TrainingError) as error:
        if "--debug" in sys.argv:
            raise
        print(f"majority: {error}", file=sys.stderr)
        sys.exit(2 if isinstance(error, InputError) else 1)


def _cross_validate(experiment, folds: int, out: Path, device: str, eager: bool) -> None:
    """Every fold in a folder of its own below `out`, one line of means at the end."""
    from dataclasses import replace

    results = []
    for fold in range(folds):
        of_fold = replace(experiment, data=replace(experiment.data, fold=fold))
        with _continuable(out):
            results.append(of_fold.run(out / f"fold{fold}", device, log, eager))
    print_folds(results)
    log(f"run folders: {out}/fold0 to fold{folds - 1}")


@contextmanager
def _continuable(out: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        log(f"stopped; the same command continues {out} where it was")
        raise


def _check_preset(preset: str, sources: list[str], context: typer.Context) -> None:
    if preset != "difficulty":
        raise InputError(f"there is no preset {preset!r}: take difficulty")
    if len(sources) > 1:
        raise InputError(f"--preset {preset} studies one source: give {sources[0]} alone")
    own = {"sources", "preset", "device", "jobs", "out"}
    for option in context.command.params:
        if option.name not in own and context.get_parameter_source(option.name).name == "COMMANDLINE":
            raise InputError(f"--preset {preset} sets {option.opts[0]} itself: leave it out")


def _names(text: str) -> tuple[str, ...]:
    line = text.replace("\n", ",")
    names = tuple(name.strip() for name in next(csv.reader([line], skipinitialspace=True)) if name.strip())
    if not names:
        raise InputError("an empty list of names: give at least one")
    return names


def _ratios(text: str | None) -> tuple[float, ...] | None:
    """'0.1,0.5' -> numbers."""
    if text is None:
        return None
    try:
        return tuple(float(number) for number in text.split(","))
    except ValueError:
        raise InputError(f"--ratios {text}: write numbers with commas between them, 0.1,0.5,1.0") from None


def folds_of(text: str) -> tuple[int, ...]:
    """'0', '0-4' or '0,2' -> fold numbers."""
    folds: list[int] = []
    try:
        for piece in text.split(","):
            first, _, last = piece.partition("-")
            folds += range(int(first), int(last or first) + 1)
        if not folds:
            raise ValueError("such as 3-1")
    except ValueError:
        raise InputError(f"--folds {text}: write 0, 0-4 or 0,2") from None
    return tuple(folds)


def _method_options(pairs: list[str] | None) -> dict:
    words = {"none": None, "true": True, "false": False}
    number = lambda text: int(text) if text.lstrip("+-").isdigit() else float(text)
    read = lambda text: words[text.lower()] if text.lower() in words else number(text)
    return _pairs(pairs, "--option", "of=counts", read)


def settings_of(pairs: list[str] | None) -> dict:
    return _pairs(pairs, "--set", "training.weight_decay=0.05", json.loads)


def _pairs(pairs: list[str] | None, option: str, example: str, read: Callable[[str], object]) -> dict:
    """Values as `read` takes them, else as text."""
    options = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{option} {pair}: write KEY=VALUE, as in {example}")
        if key in options:
            raise InputError(f"{option} {key} is given twice: give it once")
        options[key] = value
        with suppress(ValueError):
            options[key] = read(value)
    return options
