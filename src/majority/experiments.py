"""One experiment: a source's bags, a method, a recipe, in a run folder. What `train` and `study` do."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from . import __version__
from .augment import LAWFUL
from .backbones import check_backbone
from .bags import Bags
from .classifier import Classifier
from .errors import InputError, no_such
from .files import read_json, write_json, write_lines
from .inference import choose_device
from .memory import tight
from .methods import DEFAULT_METHOD, check_options, find_method
from .model import Model, build_model
from .recipes import DEFAULT, RECIPES, Material, Plan, Run, choose, scaffold
from .recipes.plans import CHANGEABLE
from .report.page import REPORT, write_page
from .report.reading import read
from .runs import (
    CLASSIFIER,
    RESULT,
    begun,
    claimed,
    environment,
    finished_file,
    open_run,
    read_config,
    refuse_other,
    source_of,
)
from .sources import LabelledSet, OwnBags, Parts, is_own_source, load, names
from .sources.own import Wish
from .sources.own.checking import load_own
from .sources.own.originals import Originals
from .training import METRICS
from .training_checks import check_all_known

FULLEST = "census"  # the recipe whose plan has every setting that one chosen by default may have


@dataclass(frozen=True)
class Data:
    """Which bags: the same for every method, so that comparisons are paired."""

    source: str
    scenario: str | None = None  # None: various, where bags are made; bags of one's own are taken as they are
    fold: int = 0
    bags: int | None = None  # None: the source's own number
    bag_size: int | None = None
    ties: str | None = None  # None: lowest
    with_replacement: bool = False
    data_seed: int = 0
    folds: int | None = None  # of one's own bags
    image_size: int | None = None  # of a manifest, like features
    features: tuple[str, ...] | None = None
    background: str | None = None  # a class that does not vote
    classes: int | None = None  # the first so many of a labelled set; None: all
    winner_ratio: float | None = None  # the first class wins so many times as often as the last; None: all alike

    def __post_init__(self):
        for name in ("bags", "bag_size"):
            if getattr(self, name) is not None and getattr(self, name) < 1:
                raise InputError(f"--{name.replace('_', '-')} {getattr(self, name)}: give 1 or more")

    @property
    def path(self) -> str | None:
        """Of a source that is a file or folder, wherever it is read from; a link stays one, as its images may lie
        beside it."""
        return None if self.source in names() else os.path.abspath(Path(self.source).expanduser())

    def settled(self) -> Data:
        """With the defaults of the source's kind written out."""
        if is_own_source(self.source):
            if self.folds is not None and self.folds < 3:
                raise InputError(f"--folds {self.folds}: give 3 or more (one tests, one validates)")
            return self
        if self.folds is not None:
            raise InputError(f"--folds {self.folds}: benchmark sets always have five folds; choose one with --fold")
        return replace(self, scenario=self.scenario or "various", ties=self.ties or "lowest")

    def open(self) -> LabelledSet | OwnBags:
        return load(self.source, self.image_size, self.features)

    def parts(self, source: LabelledSet | OwnBags | None = None) -> Parts:
        choices = asdict(self.settled())
        for name in ("source", "image_size", "features"):
            choices.pop(name)
        source = source or self.open()
        if isinstance(source, LabelledSet):
            choices.pop("folds")
        return source.make_parts(**choices)


@dataclass(frozen=True)
class Experiment:
    data: Data
    method: str = DEFAULT_METHOD
    method_options: dict = field(default_factory=dict)
    recipe: str = DEFAULT
    seed: int = 0
    backbone: str | None = None  # None, here and below: as the recipe says
    epochs: int | None = None
    patience: int | None = None
    batch_bags: int | None = None
    learning_rate: float | None = None
    max_instances: int | None = None
    compile: bool | None = None
    background_share: float | None = None  # of all instances; None: not known
    ratios: tuple[float, ...] | None = None  # of the recipe mpem
    settings: dict = field(default_factory=dict)  # of the plan, by dotted name, such as census.start.epochs
    like: str | None = None  # a source that is known: what may be done to its images may be done to these

    def __post_init__(self):
        """What cannot be right is refused before any data are read; the plan for them judges once more."""
        check_options(self.method, self.method_options)
        if self.backbone not in (None, "auto"):
            check_backbone(self.backbone)
        if self.recipe not in (DEFAULT, *RECIPES):
            raise no_such("recipe", self.recipe, [DEFAULT, *RECIPES])
        twice = {f"training.{name}": name for name in CHANGEABLE} | {"backbone": "backbone"}
        for setting in self.settings.keys() & twice.keys():
            if getattr(self, name := twice[setting]) is not None:
                raise InputError(f"--{name.replace('_', '-')} and --set {setting} are one setting: give it once")
        if "training.seed" in self.settings:
            raise InputError("--set training.seed: take --seed, which is of all stages")
        self.changed(RECIPES[FULLEST if self.recipe == DEFAULT else self.recipe].plan(Material("")))
        if self.like is not None and self.like not in LAWFUL:
            raise no_such("--like", self.like, LAWFUL)
        if self.like is not None and self.data.source in LAWFUL:
            raise InputError(f"--like {self.like}: what may be done to {self.data.source} is known, leave it out")

    def run(
        self,
        folder: str | Path,
        device: str = "auto",
        say: Callable[[str], None] = lambda line: None,
        eager: bool = False,
        source: LabelledSet | OwnBags | None = None,  # where it is open already
    ) -> dict:
        """Train and evaluate in the folder, or go on where a killed run was; return the result."""
        folder = Path(folder)
        with claimed(folder):
            here = on_gpu = choose_device(device).type == "cuda"
            if begun(folder):  # elsewhere, perhaps: it goes on by its own plan
                on_gpu = read_config(folder)["material"]["on_gpu"]
            data = self.data.settled()
            source = source or data.open()
            for warning in source.warnings_given(data.background) if isinstance(source, OwnBags) else ():
                say(f"warning: {warning}")
            parts = data.parts(source)
            material = Material(self.kind, parts.train.store.shape[1:], on_gpu)
            if self.like is not None and material.vectors:
                raise InputError(f"--like {self.like} says what may be done to images: these are vectors, leave it out")
            plan, reason = choose(self.recipe, material)
            plan = self.changed(plan)
            build = self._builder(parts.train, plan)
            if not begun(folder):  # what is refused leaves nothing behind
                head = build().head
                for part in (parts.train, parts.val) if head.sees_instance_labels else ():
                    check_all_known(self.method, part)
            config = self._config(data, plan, _fingerprints(parts, self.method)) | _instances(source, material)
            finished = open_run(folder, config)
            if finished:
                if not (folder / REPORT).exists():  # killed between the result and the page
                    write_page(folder, open_classifier(folder, device), parts, source)
                _clear(folder)
                say(f"{folder} is finished (epoch {finished['best_epoch']} of 0 to {finished['epochs'] - 1} was kept)")
                return finished
            say(f"{reason}; {parts.train}")
            if on_gpu != here:
                say(f"note: begun {'on a GPU' if on_gpu else 'on a CPU'}, this run goes on by the plan for it")
            if self.like is not None and not plan.changes_images:
                say(f"note: recipe {plan.recipe} changes no images, so --like has no effect: census and augmented do")
            warning = None if here else tight(build(), parts.train, plan.training)
            if warning:
                say(f"warning: {warning}")
            if scaffold(folder):
                say(f"{folder} was interrupted: going on where it was")
            title = " ".join(filter(None, [data.source, data.scenario, self.method, f"fold {data.fold}"]))
            fresh = lambda number=0: build(run.seed_of(number))
            run = Run(folder, parts.train, parts.val, plan, fresh, title, device, eager, say)
            trained = RECIPES[plan.recipe].train(run)
            write_lines(folder / METRICS, trained.fitted.history)  # of this model, whichever stage it came from
            classifier = Classifier(trained.model, device, config.get("columns"))
            classifier.save(folder / CLASSIFIER, about={"source": self.data.source})
            judged = {"val": parts.val} if parts.test is None else {"test": parts.test, "val": parts.val}
            readings = {part: read(classifier, bags, source) for part, bags in judged.items()}
            figures = {"test": {}} | {part: reading.outcome().summary() for part, reading in readings.items()}
            write_json(folder / RESULT, figures | trained.summary() | self._about(data, plan, material))
            write_page(folder, classifier, parts, source, reading=readings.get("test", readings["val"]))
            _clear(folder)
            return read_json(folder / RESULT)

    def finished(self, folder: Path) -> dict | None:
        """The result, where this run is complete in the folder; no data is read. Another run there is refused."""
        if not begun(folder):
            return None
        there = read_config(folder)
        recipe = there["plan"]["recipe"] if self.recipe == DEFAULT else self.recipe
        plan = self.changed(RECIPES[recipe].plan(Material(**there["material"])))
        refuse_other(folder, there, there | self._config(self.data.settled(), plan, there["data"]["fingerprint"]))
        complete = (folder / RESULT).exists() and (folder / REPORT).exists() and not scaffold(folder)
        return read_json(folder / RESULT) if complete else None

    @property
    def kind(self) -> str:
        """What the images are like: said, or known by the name of a labelled set."""
        return self.like or ("" if is_own_source(self.data.source) else Path(self.data.source).stem)

    def changed(self, plan: Plan) -> Plan:
        """The plan with what this experiment sets."""
        RECIPES[plan.recipe].check_method(self.method)
        training = {name: getattr(self, name) for name in CHANGEABLE}
        return plan.changed(self.backbone, self.ratios, seed=self.seed, **training).with_settings(self.settings)

    def _builder(self, train: Bags, plan: Plan) -> Callable[..., Model]:
        """Makes networks of the plan by their seeds; one pass over the instances is enough for all of them."""
        made = {"pixels": plan.pixels, "background_share": self.background_share, **self.method_options}

        def build(seed: int = 0) -> Model:
            model = build_model(train, self.method, plan.backbone, seed=seed, **made)
            made["normalise"] = model.normalise
            return model

        return build

    def _config(self, data: Data, plan: Plan, fingerprint: list) -> dict:
        return {
            "method": self.method,
            "method_options": self.method_options,
            "background_share": self.background_share,
            "data": asdict(data) | {"fingerprint": fingerprint},
            "plan": plan.as_dict(),
            "settings": self.settings,
            "source_path": data.path,
            "like": self.like,
        }

    def _about(self, data: Data, plan: Plan, material: Material) -> dict:
        """What a result is of."""
        return {
            "method": self.method,
            "method_options": self.method_options,
            "sees_instance_labels": find_method(self.method).head.sees_instance_labels,
            "background_share": self.background_share,
            "recipe": plan.recipe,
            "source": self.data.source,
            "scenario": data.scenario,
            "fold": self.data.fold,
            "seed": self.seed,
            "data_seed": self.data.data_seed,
            "data": asdict(data),
            "plan": plan.as_dict(),
            "material": material._asdict(),
            "version": __version__,
            "hardware": environment()["device"],
        }


class Opened(NamedTuple):
    classifier: Classifier
    bags: dict[str, Bags]  # by part; "all" of a source of one's own
    source: LabelledSet | OwnBags


def open_bags(
    folder: str | Path,
    source: str | None = None,
    *,
    labels: bool,
    unlabelled: bool = False,
    all_parts: bool = False,
    device: str = "auto",
    say: Callable[[str], None] = lambda line: None,
) -> Opened:
    """A run's classifier and bags for it: all bags of another source of one's own (whose labels may be needed, or
    not where it is `unlabelled`, or never); else the test bags, or all parts, of the run's source or of another one
    made alike."""
    folder = Path(folder)
    if source is not None and is_own_source(source):
        config, classifier = read_config(folder), open_classifier(folder, device)
        own = load_own(Path(source).expanduser(), _wish(classifier, config, labels, unlabelled))
        for warning in own.warnings:
            say(f"warning: {warning}")
        background = classifier.model.spec.background
        bags = own.bags if background is None else own.bags.with_background(classifier.classes[background.index])
        classifier.model.spec.check(bags.store)
        return Opened(classifier, {"all": bags}, own)
    classifier, parts, opened = reopen(folder, source, device)
    if parts.test is None and not all_parts:
        raise InputError(f"{folder} has no test bags: its source marks none; take --all, or give a SOURCE")
    chosen = parts._asdict() if all_parts else {"test": parts.test}
    return Opened(classifier, {part: bags for part, bags in chosen.items() if bags is not None}, opened)


def reopen(
    folder: str | Path, source: str | None = None, device: str = "auto"
) -> tuple[Classifier, Parts, LabelledSet | OwnBags]:
    """A run's classifier, the bags it is for (those it was trained with, or of another source made alike) and their
    source. The test bags are None where it gives none."""
    folder = Path(folder)
    config = read_config(folder)
    choices = config["data"]
    recorded = choices.pop("fingerprint")
    classifier = open_classifier(folder, device)
    choices["source"] = source_of(config)
    if source is not None:
        choices |= {"source": source, "folds": None, "image_size": None, "features": None}
    path = config.get("source_path")
    if source is None and path and not Path(choices["source"]).exists():
        raise InputError(
            f"the bags that {folder} was trained on are not where they were: put them, or a link, at {path}"
        )
    data = Data(**choices)
    opened = data.open()
    parts = data.parts(opened)
    if source is None and _fingerprints(parts, config["method"]) != recorded:
        raise InputError(
            f"{choices['source']} has changed since {folder} was trained: put the old files back or train again"
        )
    if parts.train.classes != tuple(classifier.classes):
        raise InputError(
            f"{source} has classes {', '.join(parts.train.classes)}; "
            f"{folder} was trained on {', '.join(classifier.classes)}"
        )
    return classifier, parts, opened


def open_classifier(folder: Path, device: str = "auto") -> Classifier:
    """What a finished run left."""
    return Classifier.load(finished_file(folder, CLASSIFIER), device)


def _wish(classifier: Classifier, config: dict, labels: bool, unlabelled: bool) -> Wish:
    """Other files are read as those that the classifier was trained on."""
    spec, columns, images = classifier.model.spec, config.get("columns"), config.get("images")
    return Wish(
        labels,
        unlabelled,
        training=False,
        classes=spec.classes,
        image_size=spec.instance_shape[:2] if spec.images else None,
        channels=spec.instance_shape[2] if spec.images else None,
        seen=Originals(**images) if images else None,
        features=tuple(columns) if columns else None,
    )


def _instances(source: LabelledSet | OwnBags, material: Material) -> dict:
    """What a config tells of them: their kind, columns of a table, what image files were."""
    told, own = {"material": material._asdict()}, isinstance(source, OwnBags)
    if own:
        told["columns"] = source.columns
    if not material.vectors:
        originals = source.originals if own else Originals.of_shape(*material.shape)
        told["images"] = originals and originals._asdict()
    return told


def _clear(folder: Path) -> None:
    for path in scaffold(folder):
        path.unlink()


def _fingerprints(parts: Parts, method: str) -> list[str | None]:
    """Hashes of what the method's training can see."""
    truth = find_method(method).head.sees_instance_labels
    return [part and (part if truth else part.blind()).fingerprint() for part in parts]
