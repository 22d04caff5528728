"""RunConfig: what describes a run. Every option is a field here, with its type, bounds, default and one line on it.

The command line, `majority.train`, `--config FILE.toml`, config.json, the settings page and the axes of a study are
derived from these fields. All of them use the names of the fields without the parts that the fields are in.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BeforeValidator, ConfigDict, Field, ValidationError, create_model, model_validator

from ..data.splitting import MIN_BAGS
from ..descriptions import DEFAULT_RECIPE
from ..errors import InputError
from ..nn.methods import AUTO
from .options import (
    IN_COMMAND,
    NULL,
    USUAL,
    Part,
    as_words,
    options_of,
    plain,
    problems_of,
    refuse,
    split_names,
)

IN_MEMORY = "bags in memory"  # the source of a run whose bags were given from Python

Count = Annotated[int, Ge(1), Le(10**8)]
Seed = Annotated[int, Ge(0), Le(2**32 - 1)]  # the stages of a run use larger seeds
Share = Annotated[float, Ge(0), Le(1)]
Name = Annotated[str, Field(min_length=1)]
Trackers = Annotated[tuple[Literal["tensorboard"], ...], BeforeValidator(split_names)]
Names = Annotated[tuple[Name, ...], Field(min_length=1), BeforeValidator(split_names)]


class Columns(Part):
    """The names of columns in a table of your own, None for the usual ones."""

    title: ClassVar[str] = "Columns of your table"
    bag_column: Annotated[Name | None, USUAL] = None
    """The column that names the bag (default: bag)."""
    label_column: Annotated[Name | None, USUAL] = None
    """The column with the label of the bag (default: bag_label; label in a labels.csv)."""
    path_column: Name | None = None
    """The column that names the image (default: path)."""


class Reading(Columns):
    """How bags of your own are read."""

    title: ClassVar[str] = "Your own bags"
    image_size: Annotated[Annotated[int, Ge(1), Le(1024)] | None, USUAL] = None
    """Resize the images of a table to this many pixels per side."""
    features: Annotated[Names | None, USUAL] = None
    """Feature columns of a table, as in a,b or "height, cm",b."""


class Division(Part):
    """What both kinds of bags have."""

    title: ClassVar[str] = "Your own bags"
    about: ClassVar[str]
    fold: Annotated[int, Ge(0), Le(10**6), USUAL] = 0
    """The fold whose bags are the test bags: 0 to 4; for your own bags 0 to folds - 1."""
    data_seed: Seed = 0
    """Seed of folds and bags."""


class OwnBags(Division, Reading):
    """Bags of your own, from a table, a folder of feature files or a folder of images per bag."""

    title: ClassVar[str] = "Your own bags"

    about: ClassVar[str] = "bags of your own"
    hidden: ClassVar[tuple[str, ...]] = ("kind", "source", "corrections")
    kind: Literal["own"] = "own"
    source: Name
    """A table (.csv, .tsv, .parquet), a folder of feature files, or a folder of images per bag."""
    folds: Annotated[Annotated[int, Ge(3), Le(10**6)] | None, USUAL] = None
    """Cross-validate with this number of folds, e.g. 5: all of them are trained, unless a fold is given."""
    min_bags: Annotated[Count, USUAL] = MIN_BAGS
    """A class that is the label of fewer bags takes no part as a label; 1 keeps all classes."""
    labels: Name | None = None
    """Of your own bags: a file of `majority review` with corrected labels. Of benchmark bags: what their labels say,
    winner, or top2: also the runner-up."""
    corrections: Annotated[dict[str, str] | None, Field(repr=False)] = None  # the content of that file: label by bag


class BenchmarkBags(Division):
    """Bags that are made from a labelled set, the same for every method, so that comparisons are paired."""

    title: ClassVar[str] = "Benchmark bags"
    about: ClassVar[str] = "labelled sets"
    hidden: ClassVar[tuple[str, ...]] = ("kind", "source")
    kind: Literal["benchmark"] = "benchmark"
    source: Name
    """A name from `majority list`, or a .npz (MedMNIST's layout) or .mat (SVHN's layout) file."""
    scenario: Name = "various"
    """Majority proportions: small, various, large, or LOW,HIGH."""
    fold: Annotated[int, Ge(0), Le(4)] = 0
    bags: Annotated[int, Ge(4), Le(10**8)] | None = None
    """Training bags; a quarter as many for validation and testing (default: the source's)."""
    bag_size: Count | None = None
    """Instances per bag (default: the source's)."""
    ties: Literal["lowest", "resample", "error"] = "lowest"
    """If classes share the top count: the class with the lowest number becomes the label, or draw again, or stop."""
    with_replacement: bool = False
    """Allow an instance more than once in a bag."""
    classes: Annotated[int, Ge(2), Le(10**6)] | None = None
    """Use only the first classes of the labelled set (default: all)."""
    winner_ratio: Annotated[float, Gt(0), Le(10**6)] | None = None
    """How many times as often the first class is the bag label as the last class (default: 1)."""
    wrong_labels: Annotated[float, Ge(0), Lt(1)] | None = None
    """Give this share of the training and validation bags a wrong label (default: 0)."""
    labels: Literal["winner", "top2"] = "winner"


class Labels(Part):
    """What training sees of the labels."""

    title: ClassVar[str] = "Labels"
    background: Annotated[Name | None, USUAL] = None
    """A class that is not counted for the majority and is never a bag label."""
    background_share: Share | None = None
    """Its share of all instances, if it is known."""
    instance_labels: Count | Name | None = None
    """Also learn known classes of instances of training bags: all, or so many per class, of the column label, or a file
    of answers to an audit; metrics exclude these instances."""


class Shorthands(Part):
    """Options that are short for one setting of the recipe; see `settings`."""

    title: ClassVar[str] = "Method and recipe"
    epochs: Annotated[int | None, USUAL] = None
    """Number of epochs (default: the recipe's)."""
    backbone: Name | None = None
    """Network; see `majority list`."""
    learning_rate: float | None = None
    """Learning rate (default: the recipe's)."""
    batch_bags: int | None = None
    """Bags per step."""
    patience: int | None = None
    """Stop after this many epochs without a lower validation loss."""
    max_instances: int | None = None
    """Use a random subset of this size of each larger bag per step."""
    compile: bool | None = None
    """On a GPU, compile the network even for a short run (long runs do so by themselves)."""


def plan_setting(name: str) -> str:
    """The full name of a setting, of which this may be the short one.

    >>> plan_setting("epochs"), plan_setting("training.weight_decay")
    ('training.epochs', 'training.weight_decay')
    """
    return f"training.{name}" if name in Shorthands.model_fields and name != "backbone" else name


def with_short_names(settings: Mapping[str, Any]) -> dict[str, Any]:
    """These settings as options: by their short names, and the others, and those that are off, in `settings`."""
    rest = dict(settings)
    short = {name: plan_setting(name) for name in Shorthands.model_fields}
    given = {name: rest.pop(full) for name, full in short.items() if rest.get(full) is not None}
    return given | {"settings": rest}


class Method(Part):
    title: ClassVar[str] = "Method and recipe"
    method: Annotated[Name, USUAL] = AUTO
    """See `majority list`; auto: several, weighed by the bags (census, and quick for vectors), or adjusted-mean."""
    recipe: Annotated[Name, USUAL] = DEFAULT_RECIPE
    """How to train; see `majority list`."""
    method_options: dict[str, Any] = Field(default_factory=dict)
    """An option of the method, e.g. of=counts."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """A setting of the recipe's plan by its name in config.json, e.g. training.weight_decay=0.05."""
    like: Name | None = None
    """A known source with similar images; augmentations that preserve its labels are used."""
    refit: bool | None = None
    """Then train once more, on all labelled bags (default: your own bags, recipe census, without folds)."""
    seed: Annotated[Seed, USUAL] = 0
    """Seed of weights and order of bags."""


class RunConfig(Labels, Method):
    bags: Annotated[OwnBags | BenchmarkBags, Field(discriminator="kind")]
    answers: dict[str, dict[str, str]] | None = None  # to an audit, of instance_labels: class by bag and instance

    @classmethod
    def from_options(cls, source: str, *, own: bool | None = None, **options: Any) -> RunConfig:
        """The run that options describe, all wrong ones in one error. `own`: whether the source has its own bags, if it
        is in memory."""
        kind, known = bags_class(source, own), {name: option.field for name, option in OPTIONS.items()}
        given = {name: plain(value) for name, value in options.items() if value is not None}
        misplaced = [name for name in given if not may_have(kind, name)]
        problems = [f"{name} is not for {kind.about} such as {source}: leave it out" for name in misplaced]
        bags, short = (
            {name: given[name] for name in part.model_fields if name in given} for part in (kind, Shorthands)
        )
        run = {name: value for name, value in given.items() if name not in {*bags, *short, *misplaced}}
        settings: dict[str, Any] = {}
        try:
            settings = Shorthands.model_validate(short).model_dump(exclude_none=True)
        except ValidationError as error:
            problems += problems_of(error, known)
        by_long_name, others = {plan_setting(name): of for name, of in settings.items()}, run.get("settings", {})
        if isinstance(others, dict):  # else it is refused below
            twice = sorted(by_long_name.keys() & others.keys())
            problems += [f"{name} is given twice, also by its short name: give it once" for name in twice]
            run["settings"] = others | by_long_name
        bags |= {"kind": kind.model_fields["kind"].default, "source": source}
        try:
            config = cls.model_validate(run | {"bags": bags})
        except ValidationError as error:
            problems += problems_of(error, known | kind.model_fields)
        refuse(problems)
        return config

    @model_validator(mode="after")
    def _possible(self) -> Self:
        chosen, bags = self.instance_labels, self.bags
        if "training.seed" in self.settings:
            raise InputError("training.seed cannot be set: use seed, which sets the seed of every stage")
        if self.background_share is not None and self.background is None:
            raise InputError("background_share: name the background too (background)")
        if isinstance(bags, BenchmarkBags) and isinstance(chosen, str):
            raise InputError(f"instance_labels is {chosen}: of a benchmark set, say how many per class, e.g. 5")
        if self.refit and (isinstance(bags, BenchmarkBags) or bags.folds is not None):
            raise InputError("refit is for your own bags without folds, whose classifiers are averaged: leave it out")
        return self

    @property
    def all_folds(self) -> range | None:
        """The folds to train, if it is not one."""
        folds = self.bags.folds if isinstance(self.bags, OwnBags) else None
        return None if folds is None or "fold" in self.bags.model_fields_set else range(folds)

    def options(self) -> dict[str, Any]:
        """The options, flat, that are not the default: `from_options` makes the same run of them."""
        bags = self.bags.model_dump(exclude_defaults=True) | {"source": self.bags.source}
        if isinstance(self.bags, OwnBags) and self.bags.folds is not None and self.all_folds is None:
            bags["fold"] = self.bags.fold
        return self.model_dump(exclude_defaults=True, exclude={"bags"}) | bags

    def facts_of_bags(self) -> dict[str, Any]:
        """The options that say which bags there are and what training sees of them, also those that are the default."""
        facts = self.bags.model_dump(exclude={"kind"}) | self.model_dump(include={"background", "instance_labels"})
        return facts | ({"labels": None} if facts["labels"] == "winner" else {})

    def with_options(self, **changes: Any) -> RunConfig:
        """This run with other options; None is the default. `settings` and `method_options` replace single ones."""
        options = self.options()
        replaced = {*map(plan_setting, changes)}
        options["settings"] = {name: of for name, of in self.settings.items() if name not in replaced}
        for name in ("settings", "method_options"):
            options[name] = options.get(name, {}) | changes.pop(name, {})
        own = isinstance(self.bags, OwnBags) if "source" not in changes else None
        return RunConfig.from_options(**(options | changes), own=own)

    def as_command(self) -> str | None:
        """The `majority train` command of this run; None if its bags were given from Python.

        >>> RunConfig.from_options("my bags.csv", method="count", epochs=3).as_command()
        "majority train 'my bags.csv' --method count --epochs 3"
        """
        options = {name: value for name, value in self.options().items() if name not in ("corrections", "answers")}
        source, settings = options.pop("source"), options.pop("settings", {})
        words = as_words(options | with_short_names(settings))
        return None if source == IN_MEMORY else shlex.join(["majority", "train", source, *words])


class Machine(Part):
    """How a run is done, which does not change its result."""

    title: ClassVar[str] = "Machine"
    device: Annotated[Name, USUAL] = "auto"
    """auto, cpu, cuda, cuda:N or mps."""
    eager: bool = False
    """On a GPU, launch every step from Python (for debugging)."""
    log: Trackers = ()
    """Also log to tensorboard."""
    out: Annotated[Name | None, USUAL] = None
    """Run folder (default: runs/SOURCE-SCENARIO-METHOD-foldF)."""


OPTIONS = options_of(Method, Shorthands, OwnBags, BenchmarkBags, Labels)  # of a run
MACHINE = options_of(Machine)
TRAIN = OPTIONS | MACHINE
COLUMNS, READING = options_of(Columns), options_of(Reading)


def may_have(kind: type[Division], name: str) -> bool:
    """Whether an option is for bags of this kind, and not for the other kind alone."""
    return name in kind.model_fields or name not in {*OwnBags.model_fields, *BenchmarkBags.model_fields}


def bags_class(source: str, own: bool | None = None) -> type[OwnBags] | type[BenchmarkBags]:
    from ..io import is_custom_source

    return OwnBags if (is_custom_source(source) if own is None else own) else BenchmarkBags


# ---------------------------------------------------------------------- as a file


def as_toml(config: RunConfig, machine: Machine, without: Collection[str] = ()) -> str:
    """Every option of the run; those without a value, and those to be left out, are comments."""
    values = dict.fromkeys(Shorthands.model_fields) | dict(machine) | dict(config.bags)
    values |= config.model_dump(exclude={"bags"}) | with_short_names(config.settings)
    lines, tables = [f"source = {_text(config.bags.source)}"], list[str]()
    title = ""
    for name, option in (OPTIONS | MACHINE).items():
        if name not in values:
            continue
        value, key = values[name], option.in_command.replace("-", "_")
        if option.title != title:
            title = option.title
            lines.append(f"\n# {title}")
        if isinstance(value, dict):
            tables.append(f"\n[{key}]")
            tables += [f"{_text(name)} = {_text(NULL if item is None else item)}" for name, item in value.items()]
        elif value in (None, ()) or name in without:
            lines.append(f"# {key}: {option.about}")
        else:
            lines.append(f"{key} = {_text(value)}")
    return "\n".join(lines + tables)


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def json_schema() -> dict[str, Any]:
    """The JSON schema of a file for --config."""
    fields: dict[str, Any] = {"source": (str | None, None)}
    for name, option in TRAIN.items():
        taken = option.field.rebuild_annotation() | None
        fields[IN_COMMAND.get(name, name)] = (taken, Field(None, description=option.about))
    return create_model("config", __config__=ConfigDict(extra="forbid"), **fields).model_json_schema()
