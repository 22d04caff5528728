"""train: an experiment from Python, on files or on bags in memory."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, overload

from ..data.bags import Bags
from ..io import LabelledSet, Parts, Source
from ..io.in_memory import as_source
from ..log import no_log
from ..predict.classifier import Classifier, mean_of
from ..training.callbacks import Callback
from ..training.checkpoint import METRICS, read_history
from ..training.distributed import from_first, in_turn, is_first
from .config import IN_MEMORY, Machine, RunConfig
from .experiment import How, run_experiment, run_folds
from .folder import classifier_file
from .options import checked, plain
from .report.blocks import REPORT


@dataclass(frozen=True, repr=False)
class TrainedRun:
    """What `majority.train` returns: a finished run folder, and its content."""

    folder: Path
    classifier: Classifier
    result: dict[str, Any]  # the content of result.json
    _temporary: Any = field(default=None, compare=False)  # removes the folder when the object is no longer used

    @property
    def metrics(self) -> dict[str, Any]:
        """The metrics of the test bags, or of the validation bags if there are no test bags."""
        metrics: dict[str, Any] = self.result["test"] or self.result["val"]
        return metrics

    @property
    def report(self) -> Path:
        """The report page: one HTML file that needs no network."""
        return self.folder / REPORT

    @cached_property
    def history(self) -> list[dict[str, Any]]:
        """One record per epoch of the network that was kept."""
        return read_history(self.folder / METRICS)

    def __repr__(self) -> str:
        part = "test" if self.result["test"] else "validation"
        name = next(name for name in ("instance_accuracy", "bag_accuracy") if self.metrics.get(name) is not None)
        accuracy = f"{name.replace('_', ' ')} {self.metrics[name]:.3f} on {self.metrics['bags']} {part} bags"
        return f"TrainedRun(method {self.result['method']}, recipe {self.result['recipe']}, {accuracy})"


@dataclass(frozen=True)
class CrossValidation:
    """What `majority.train` returns with `folds` and without `fold`: the run of each fold."""

    folder: Path
    runs: tuple[TrainedRun, ...]

    @cached_property
    def classifier(self) -> Classifier:
        """The mean of the classifiers of all folds, as `majority predict FOLDER` uses it."""
        return mean_of([run.classifier for run in self.runs])

    @property
    def metrics(self) -> dict[str, float]:
        """Of the test bags: the mean over folds of each figure, and the sum of each number of bags or instances."""
        means: dict[str, float] = {}
        for name in self.runs[0].metrics:
            values: list[Any] = [run.metrics.get(name) for run in self.runs]
            if all(type(value) in (int, float) for value in values):
                means[name] = sum(values) if type(values[0]) is int else sum(values) / len(values)
        return means


SourceOrBags = str | Path | Source | Bags | Parts | Sequence[Bags | None]


@overload
def train(
    source: SourceOrBags,
    *,
    folds: int,
    fold: None = None,
    out: str | Path | None = None,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
    verbose: bool = True,
    **options: Any,
) -> CrossValidation: ...
@overload
def train(
    source: SourceOrBags,
    *,
    out: str | Path | None = None,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
    verbose: bool = True,
    **options: Any,
) -> TrainedRun: ...
def train(
    source: SourceOrBags,
    *,
    out: str | Path | None = None,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
    verbose: bool = True,  # print what the command prints, and the progress
    **options: Any,
) -> TrainedRun | CrossValidation:
    """Train as `majority train` does: choose a recipe, train all its stages, evaluate, and write the report.

    The source is a name or a path, what `load_source` returns, `Bags` (divided 60/20/20 or into `folds`), or a tuple of
    bags (train, val) or (train, val, test), such as the result of `make_parts`. The options are those of the command,
    with the same names, bounds and defaults, such as `method="count"`, `recipe="quick"`, `epochs=10`, `seed=1`,
    `method_options={"of": "counts"}` and `settings={"training.weight_decay": 0.05}`: the page of settings lists them.
    With `folds` and no `fold`, all folds are trained, and the result is a `CrossValidation`.

    With `refit`, a second training has all labelled bags, and `classifier` of the returned object is that one;
    `metrics` and `report` are those of the first, which did not see the test bags. It is the default for bags of your
    own (a file, a folder, or `Bags`) with recipe `census` and no `folds`. Parts that you give are trained on as they
    are.

    With `out`, the run is kept in that folder, and the same call continues or reopens it. Without it, the run is in a
    temporary folder that is removed when the returned object is no longer used.

    In a process group of torch.distributed, every process makes this call; see `fit`. All of them read the folder.

    Args:
        source: The bags: a name, a path, or objects in memory.
        out: The folder of the run (default: a temporary one).
        device: auto, cpu, cuda, cuda:N or mps.
        callbacks: Objects that follow the training: see `Callback`.
        verbose: Print the progress and the figures.
        **options: Those of the command, with `_` for `-`.

    >>> import majority
    >>> train, val, test = majority.load_source("digits").make_parts(scenario="large", bags=40, bag_size=16)
    >>> run = majority.train((train, val, test), method="count", recipe="quick", epochs=2, verbose=False)
    >>> run.classifier.predict(test.instances()).shape
    (160,)
    >>> 0 < run.metrics["instance_accuracy"] < 1
    True
    """
    opened = None if isinstance(source, str | Path) else as_source(source)
    name = os.fspath(source) if isinstance(source, str | Path) else IN_MEMORY
    config = RunConfig.from_options(
        name, own=None if opened is None else not isinstance(opened, LabelledSet), **options
    )
    checked(Machine, {"device": device} | ({} if out is None else {"out": plain(out)}))
    temporary = tempfile.TemporaryDirectory(prefix="majority-") if out is None and is_first() else None
    folder = from_first(lambda: Path(temporary.name if temporary else out or ""))
    log = print if verbose else no_log
    how = How(device, log, callbacks=callbacks, progress=verbose)

    def trained(place: Path, result: dict[str, Any]) -> TrainedRun:
        classifier = in_turn(lambda: Classifier.load(classifier_file(place), device))
        return TrainedRun(place, classifier, result, temporary)

    if config.all_folds is None:
        return trained(folder, run_experiment(config, folder, how, opened))
    results = run_folds(config, config.all_folds, folder, how, opened)
    return CrossValidation(folder, tuple(trained(folder / f"fold{i}", result) for i, result in enumerate(results)))
