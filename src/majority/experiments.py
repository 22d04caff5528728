"""One experiment: a source's bags, a method, a recipe, in a run folder. What `train` and `study` do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from . import __version__
from .classifier import Classifier
from .errors import InputError
from .files import write_json
from .inference import choose_device, evaluate
from .methods import find_method
from .model import build_model
from .recipes import DEFAULT, choose
from .runs import CLASSIFIER, RESULT, claimed, open_run, read_config
from .sources import Parts, load
from .training import CHECKPOINT, fit

CHANGEABLE = ("epochs", "patience", "batch_bags", "learning_rate", "max_instances", "compile")  # of a recipe's plan


@dataclass(frozen=True)
class Data:
    """Which bags: the same for every method, so that comparisons are paired."""

    source: str
    scenario: str = "various"
    fold: int = 0
    bags: int | None = None  # None: the source's own number
    bag_size: int | None = None
    ties: str = "lowest"
    with_replacement: bool = False
    data_seed: int = 0

    def parts(self) -> Parts:
        choices = asdict(self)
        return load(choices.pop("source")).make_parts(**choices)


@dataclass(frozen=True)
class Experiment:
    data: Data
    method: str = "count"
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

    def run(
        self,
        folder: str | Path,
        device: str = "auto",
        say: Callable[[str], None] = lambda line: None,
        eager: bool = False,
    ) -> dict:
        """Train and evaluate in the folder, or go on where a killed run was; return the result."""
        folder = Path(folder)
        find_method(self.method)
        with claimed(folder):
            parts = self.data.parts()
            on_gpu = choose_device(device).type == "cuda"
            plan, reason = choose(self.recipe, parts.train, Path(self.data.source).stem, on_gpu)
            plan = plan.changed(self.backbone, seed=self.seed, **{name: getattr(self, name) for name in CHANGEABLE})
            config = {
                "method": self.method,
                "method_options": self.method_options,
                "data": asdict(self.data) | {"fingerprint": [part.fingerprint() for part in parts]},
                "plan": plan.as_dict(),
            }
            finished = open_run(folder, config)
            if finished:
                say(f"{folder} is finished (epoch {finished['best_epoch']} of {finished['epochs']} was best)")
                return finished
            say(f"{reason}; {parts.train}")
            model = build_model(
                parts.train, self.method, plan.backbone, pixels=plan.pixels, seed=self.seed, **self.method_options
            )
            title = f"{self.data.source} {self.data.scenario} {self.method} fold {self.data.fold}"
            where = {"device": device, "folder": folder, "title": title, "eager": eager}
            fitted = fit(model, parts.train, parts.val, plan.training, **where)
            Classifier(model, device).save(folder / CLASSIFIER, about={"source": self.data.source})
            result = {
                "test": evaluate(model, parts.test, device).summary(),
                "val": evaluate(model, parts.val, device).summary(),
                "best_epoch": fitted.best_epoch,
                "epochs": fitted.epochs,
                "seconds": round(fitted.seconds, 3),
                "capture_seconds": round(fitted.capture_seconds, 3),
                "method": self.method,
                "recipe": plan.recipe,
                "source": self.data.source,
                "scenario": self.data.scenario,
                "fold": self.data.fold,
                "seed": self.seed,
                "data_seed": self.data.data_seed,
                "version": __version__,
            }
            write_json(folder / RESULT, result)
            (folder / CHECKPOINT).unlink(missing_ok=True)
            return result


def reopen(folder: str | Path, source: str | None = None, device: str = "auto") -> tuple[Classifier, Parts]:
    """A run's classifier and the bags it is for: those it was trained with, or of another source made alike."""
    folder = Path(folder)
    choices = read_config(folder)["data"]
    recorded = choices.pop("fingerprint")
    if not (folder / CLASSIFIER).is_file():
        raise InputError(f"{folder} is not finished: repeat its `majority train` command, it continues where it was")
    parts = Data(**choices | {"source": source or choices["source"]}).parts()
    if source is None and [part.fingerprint() for part in parts] != recorded:
        raise InputError(
            f"{choices['source']} has changed since {folder} was trained: put the old files back or train again"
        )
    classifier = Classifier.load(folder / CLASSIFIER, device)
    if parts.test.classes != tuple(classifier.classes):
        raise InputError(
            f"{source} has classes {', '.join(parts.test.classes)}; "
            f"{folder} was trained on {', '.join(classifier.classes)}"
        )
    return classifier, parts
