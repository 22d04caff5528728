"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from .config_file import with_pairs_of_file
from .printing import log

SOURCE_HELP = (
    "A name from `majority list`, a .npz (MedMNIST's layout) or .mat (SVHN's layout) file; or bags of your own: "
    "a table (.csv, .tsv, .parquet), a folder of feature files, or a folder of images per bag."
)
SET_HELP = "A setting of the recipe's plan by its name in config.json, e.g. training.weight_decay=0.05."
MAX_FOLDS = 1_000
COMPILE_HELP = "On a GPU, compile the network even for a short run (long runs do so by themselves)."


def note_on_names(given: Any) -> Any:
    """Print a note on each source whose name is also that of a file or folder; returns what was given."""
    for source in [given] if isinstance(given, str) else given or []:
        if os.path.exists(source):  # otherwise nothing has to be imported
            from ..io import note_on_name

            if note := note_on_name(source):
                log(f"note: {note}")
    return given


Source = Annotated[str, typer.Argument(help=SOURCE_HELP, callback=note_on_names)]
RunFolder = Annotated[Path, typer.Argument(help="A run folder: the --out of `majority train`.")]
OtherSource = Annotated[
    str | None,
    typer.Argument(help="Use the bags of this source instead of the run's own.", callback=note_on_names),
]
Recipe = Annotated[str, typer.Option(help="How to train; see `majority list`.")]
NumberOfBags = Annotated[int | None, typer.Option(help="Training bags; a quarter as many for validation and testing.")]
BagSize = Annotated[int | None, typer.Option(help="Instances per bag.")]
Ties = Annotated[
    str | None,
    typer.Option(
        help="If classes share the top count: lowest (the class with the lowest number becomes the label; default), "
        "resample, error."
    ),
]
Like = Annotated[
    str | None,
    typer.Option(help="A known source with similar images; augmentations that preserve its labels are used."),
]
WithReplacement = Annotated[bool, typer.Option("--with-replacement", help="Allow an instance more than once in a bag.")]
WinnerRatio = Annotated[
    float | None, typer.Option(help="How many times as often the first class is the bag label as the last class.")
]
BenchmarkLabels = Annotated[
    str | None, typer.Option(help="Of benchmark bags: winner (default), or top2 (also the runner-up).")
]
Labels = Annotated[
    str | None,
    typer.Option(
        help="Of benchmark bags: winner (default), or top2 (also the runner-up). Of your own bags: a file of `majority "
        "review` with corrected labels."
    ),
]
WrongLabels = Annotated[
    float | None, typer.Option(help="Give this share of the training and validation bags of a benchmark a wrong label.")
]
Classes = Annotated[int | None, typer.Option(help="Use only the first N classes of a labelled data set.")]
Seed = Annotated[int, typer.Option(help="Seed of weights and order of bags.")]
DataSeed = Annotated[int, typer.Option(help="Seed of folds and bags.")]
Epochs = Annotated[int | None, typer.Option(help="Number of epochs (default: the recipe's).")]
Patience = Annotated[int | None, typer.Option(help="Stop after this many epochs without a lower validation loss.")]
BatchBags = Annotated[int | None, typer.Option(help="Bags per step.")]
LearningRate = Annotated[float | None, typer.Option(help="Learning rate (default: the recipe's).")]
MaxInstances = Annotated[int | None, typer.Option(help="Use a random subset of this size of each larger bag per step.")]
Backbone = Annotated[str | None, typer.Option(help="Network; see `majority list`.")]
MethodOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        callback=with_pairs_of_file,
        help="An option of the method, e.g. of=counts.",
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", callback=with_pairs_of_file, help=SET_HELP),
]
ImageSize = Annotated[int | None, typer.Option(help="Resize the images of a manifest to this many pixels per side.")]
Features = Annotated[str | None, typer.Option(help='Feature columns of a manifest, as in a,b or "height, cm",b.')]
BagColumn = Annotated[str | None, typer.Option(help="The column that names the bag (default: bag).")]
LabelColumn = Annotated[
    str | None, typer.Option(help="The column with the label of the bag (default: bag_label; label in a labels.csv).")
]
PathColumn = Annotated[str | None, typer.Option(help="The column that names the image (default: path).")]
Shard = Annotated[
    str | None, typer.Option(metavar="I/N", help="Do only part I of N parts, e.g. 2/8: for job arrays of a scheduler.")
]
On = Annotated[str, typer.Option(metavar="PLACE", help="local (this machine), or ray: the Ray cluster at RAY_ADDRESS.")]
Trackers = Annotated[
    list[str] | None, typer.Option("--log", help="Also log to tensorboard or mlflow; may be repeated.")
]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")]
Compile = Annotated[bool | None, typer.Option("--compile", help=COMPILE_HELP)]


def not_stdout(out: Path | None) -> Path | None:
    """Refuse `-`, which other programs take for standard output: it would become the name of a folder."""
    if out == Path("-"):
        raise InputError("--out -: nothing is written to standard output: give the name of a file or folder")
    return out


def split_names(text: str) -> tuple[str, ...]:
    """'a,"b, c"' -> ('a', 'b, c')."""
    line = text.replace("\n", ",")
    names = tuple(name.strip() for name in next(csv.reader([line], skipinitialspace=True)) if name.strip())
    if not names:
        raise InputError("an empty list of names: give at least one")
    return names


def optional_names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else split_names(text)


def parse_folds(text: str, option: str = "--folds") -> tuple[int, ...]:
    """'0', '0-4' or '0,2' -> fold numbers; also used for seeds."""
    folds: list[int] = []
    try:
        for piece in text.split(","):
            first, _, last = piece.partition("-")
            chosen = range(int(first), int(last or first) + 1)
            if not 0 < len(chosen) <= MAX_FOLDS:
                raise ValueError("an empty or endless range, such as 3-1 or 0-1000000000")
            folds += chosen
    except (ValueError, OverflowError):
        raise InputError(f"{option} {text}: write 0, 0-4 or 0,2, with at most {MAX_FOLDS} in a range") from None
    return tuple(folds)


def parse_vary(pairs: list[str] | None) -> dict[str, tuple[Any, ...]]:
    """'training.learning_rate=1e-3,3e-4' -> the values by the name of the setting."""
    vary: dict[str, tuple[Any, ...]] = {}
    for name, values in _parse_pairs(pairs, "--vary", "training.learning_rate=1e-3,3e-4", str).items():
        vary[name] = tuple(_parse_json(value) for value in values.split(","))
        if len(set(map(str, vary[name]))) < len(vary[name]) or len(vary[name]) < 2:
            raise InputError(f"--vary {name}={values}: give at least two different values, with commas between them")
    return vary


def _parse_json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def parse_method_options(pairs: list[str] | None) -> dict[str, Any]:
    return _parse_pairs(pairs, "--option", "of=counts", _parse_option_value)


def parse_settings(pairs: list[str] | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the plan by dotted name: those of --set, and those given by an option of their own (SHORTHANDS).

    `given` are the parameters of the command by name; None if an option was not given.
    """
    from ..recipes.plan import SHORTHANDS

    settings = _parse_pairs(pairs, "--set", "training.weight_decay=0.05", json.loads)
    for option, name in SHORTHANDS.items():
        value = given.get(option)
        if value is None:
            continue
        if name in settings:
            raise InputError(f"--{option.replace('_', '-')} and --set {name} are the same setting: give it once")
        settings[name] = value
    return settings


def _parse_option_value(text: str) -> Any:
    words = {"none": None, "true": True, "false": False}
    if text.lower() in words:
        return words[text.lower()]
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _parse_pairs(pairs: list[str] | None, option: str, example: str, parse: Callable[[str], Any]) -> dict[str, Any]:
    """KEY=VALUE pairs; a value that `parse` does not take stays text."""
    options: dict[str, Any] = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise InputError(f"{option} {pair}: write KEY=VALUE, as in {example}")
        if key in options:
            raise InputError(f"{option} {key} is given twice: give it once")
        options[key] = value
        with suppress(ValueError, RecursionError):
            options[key] = parse(value)
    return options
