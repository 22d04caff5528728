"""One experiment: a source's bags, a method, a recipe, in a run folder. What `train` and `study` do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from .. import __version__
from ..backbones import check_backbone
from ..data.bags import Bags
from ..data.device import choose_device
from ..errors import InputError, unknown_name
from ..files import read_json, write_json, write_lines
from ..inference.classifier import Classifier
from ..inference.reading import read
from ..methods import DEFAULT_METHOD, METHODS, check_options
from ..model import Model, build_model
from ..recipes import DEFAULT, RECIPES, Plan, Run, TaskInfo, choose, temporary_files
from ..recipes.label_preserving import LABEL_PRESERVING
from ..recipes.plan import CHANGEABLE
from ..report.page import REPORT
from ..sources import CustomBags, LabelledSet, is_custom_source
from ..training.loop import METRICS
from ..training.memory import memory_warning
from ..training.validation import check_all_known
from .data import Data, fingerprints
from .reopen import open_classifier
from .run_folder import (
    CLASSIFIER,
    RESULT,
    check_same_settings,
    environment,
    has_started,
    open_run,
    read_config,
    run_lock,
)
from .run_report import write_report

REFERENCE_RECIPE = "census"  # the recipe whose plan has every setting that one chosen by default may have


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
            raise unknown_name("recipe", self.recipe, [DEFAULT, *RECIPES])
        twice = {f"training.{name}": name for name in CHANGEABLE} | {"backbone": "backbone"}
        for setting in self.settings.keys() & twice.keys():
            if getattr(self, name := twice[setting]) is not None:
                raise InputError(f"--{name.replace('_', '-')} and --set {setting} are one setting: give it once")
        if "training.seed" in self.settings:
            raise InputError("--set training.seed: take --seed, which is of all stages")
        self.changed(RECIPES[REFERENCE_RECIPE if self.recipe == DEFAULT else self.recipe].plan(TaskInfo("")))
        if self.like is not None and self.like not in LABEL_PRESERVING:
            raise unknown_name("--like", self.like, LABEL_PRESERVING)
        if self.like is not None and self.data.source in LABEL_PRESERVING:
            raise InputError(f"--like {self.like}: what may be done to {self.data.source} is known, leave it out")

    def run(
        self,
        folder: str | Path,
        device: str = "auto",
        log: Callable[[str], None] = lambda line: None,
        eager: bool = False,
        source: LabelledSet | CustomBags | None = None,  # where it is open already
    ) -> dict:
        """Train and evaluate in the folder, or go on where a killed run was; return the result."""
        folder = Path(folder)
        with run_lock(folder):
            here = on_gpu = choose_device(device).type == "cuda"
            if has_started(folder):  # elsewhere, perhaps: it goes on by its own plan
                on_gpu = read_config(folder)["task"]["on_gpu"]
            data = self.data.with_defaults()
            source = source or data.open()
            for warning in source.warnings_for(data.background):
                log(f"warning: {warning}")
            parts = data.parts(source)
            task = TaskInfo(self.kind, parts.train.store.shape[1:], on_gpu)
            if self.like is not None and task.vectors:
                raise InputError(f"--like {self.like} says what may be done to images: these are vectors, leave it out")
            plan, reason = choose(self.recipe, task)
            plan = self.changed(plan)
            build = self._builder(parts.train, plan)
            if not has_started(folder):  # what is refused leaves nothing behind
                head = build().head
                for part in (parts.train, parts.val) if head.sees_instance_labels else ():
                    check_all_known(self.method, part)
            config = self._config(data, plan, fingerprints(parts, self.method)) | _instances(source, task)
            finished = open_run(folder, config)
            if finished:
                if not (folder / REPORT).exists():  # killed between the result and the page
                    write_report(folder, open_classifier(folder, device), parts, source)
                _clear(folder)
                log(f"{folder} is finished (epoch {finished['best_epoch']} of 0 to {finished['epochs'] - 1} was kept)")
                return finished
            log(f"{reason}; {parts.train}")
            if on_gpu != here:
                log(f"note: begun {'on a GPU' if on_gpu else 'on a CPU'}, this run goes on by the plan for it")
            if self.like is not None and not plan.changes_images:
                log(f"note: recipe {plan.recipe} changes no images, so --like has no effect: census and augmented do")
            warning = None if here else memory_warning(build(), parts.train, plan.training)
            if warning:
                log(f"warning: {warning}")
            if temporary_files(folder):
                log(f"{folder} was interrupted: going on where it was")
            title = " ".join(filter(None, [data.source, data.scenario, self.method, f"fold {data.fold}"]))
            fresh = lambda number=0: build(run.seed_of(number))
            run = Run(folder, parts.train, parts.val, plan, fresh, title, device, eager, log)
            trained = RECIPES[plan.recipe].train(run)
            write_lines(folder / METRICS, trained.fitted.history)  # of this model, whichever stage it came from
            classifier = Classifier(trained.model, device, config.get("columns"))
            classifier.save(folder / CLASSIFIER, about={"source": self.data.source})
            judged = {"val": parts.val} if parts.test is None else {"test": parts.test, "val": parts.val}
            readings = {part: read(classifier, bags, source) for part, bags in judged.items()}
            figures = {"test": {}} | {part: reading.outcome().summary() for part, reading in readings.items()}
            write_json(folder / RESULT, figures | trained.summary() | self._about(data, plan, task))
            write_report(folder, classifier, parts, source, reading=readings.get("test", readings["val"]))
            _clear(folder)
            return read_json(folder / RESULT)

    def finished(self, folder: Path) -> dict | None:
        """The result, where this run is complete in the folder; no data is read. Another run there is refused."""
        if not has_started(folder):
            return None
        there = read_config(folder)
        recipe = there["plan"]["recipe"] if self.recipe == DEFAULT else self.recipe
        plan = self.changed(RECIPES[recipe].plan(TaskInfo(**there["task"])))
        check_same_settings(
            folder, there, there | self._config(self.data.with_defaults(), plan, there["data"]["fingerprint"])
        )
        complete = (folder / RESULT).exists() and (folder / REPORT).exists() and not temporary_files(folder)
        return read_json(folder / RESULT) if complete else None

    @property
    def kind(self) -> str:
        """What the images are like: said, or known by the name of a labelled set."""
        return self.like or ("" if is_custom_source(self.data.source) else Path(self.data.source).stem)

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

    def _about(self, data: Data, plan: Plan, task: TaskInfo) -> dict:
        """What a result is of."""
        return {
            "method": self.method,
            "method_options": self.method_options,
            "sees_instance_labels": METHODS.find(self.method).head.sees_instance_labels,
            "background_share": self.background_share,
            "recipe": plan.recipe,
            "source": self.data.source,
            "scenario": data.scenario,
            "fold": self.data.fold,
            "seed": self.seed,
            "data_seed": self.data.data_seed,
            "data": asdict(data),
            "plan": plan.as_dict(),
            "task": task._asdict(),
            "version": __version__,
            "hardware": environment()["device"],
        }


def _instances(source: LabelledSet | CustomBags, task: TaskInfo) -> dict:
    """What a config tells of them: their kind, columns of a table, what image files were."""
    told, own = {"task": task._asdict()}, isinstance(source, CustomBags)
    if own:
        told["columns"] = source.columns
    if not task.vectors:
        originals = source.image_files
        told["images"] = originals and originals._asdict()
    return told


def _clear(folder: Path) -> None:
    for path in temporary_files(folder):
        path.unlink()
