"""train: an experiment from Python, on files or on bags in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ..arguments import check_arguments
from ..data.bags import Bags
from ..io import Parts, Source
from ..io.base import IN_MEMORY
from ..io.in_memory import as_source
from ..log import no_log
from ..nn.methods import AUTO
from ..parsing import read_records
from ..predict.classifier import Classifier
from ..recipes import DEFAULT
from ..records import Epoch
from ..training.callbacks import Callback
from ..training.distributed import from_first, in_turn, is_first
from ..training.run_files import METRICS
from .data import Data
from .experiment import Experiment
from .folder import classifier_file
from .report.page import REPORT


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
        return [dict(record) for record in read_records(Epoch, self.folder / METRICS)]

    def __repr__(self) -> str:
        part = "test" if self.result["test"] else "validation"
        name = next(name for name in ("instance_accuracy", "bag_accuracy") if self.metrics.get(name) is not None)
        accuracy = f"{name.replace('_', ' ')} {self.metrics[name]:.3f} on {self.metrics['bags']} {part} bags"
        return f"TrainedRun(method {self.result['method']}, recipe {self.result['recipe']}, {accuracy})"


@check_arguments
def train(
    source: str | Path | Source | Bags | Parts | Sequence[Bags | None],
    *,
    method: str = AUTO,
    method_options: Mapping[str, Any] | None = None,
    recipe: str = DEFAULT,
    settings: Mapping[str, Any] | None = None,  # such as {"training.epochs": 10}: those of --set
    out: str | Path | None = None,
    seed: int = 0,
    device: str = "auto",
    callbacks: Sequence[Callback] = (),
    refit: bool | None = None,  # train once more on all labelled bags; None: your own bags, if the recipe is census
    verbose: bool = True,  # print what the command prints, and the progress
    like: str | None = None,
    scenario: str | None = None,
    fold: int = 0,
    folds: int | None = None,
    bags: int | None = None,
    bag_size: int | None = None,
    ties: str | None = None,
    with_replacement: bool = False,
    data_seed: int = 0,
    image_size: int | None = None,
    features: Sequence[str] | None = None,
    bag_column: str | None = None,
    label_column: str | None = None,
    path_column: str | None = None,
    background: str | None = None,
    background_share: float | None = None,
    classes: int | None = None,
    winner_ratio: float | None = None,
    labels: str | None = None,
    use_instance_labels: bool = False,
    instance_labels: int | None = None,
    wrong_labels: float | None = None,
) -> TrainedRun:
    """Train as `majority train` does: choose a recipe, train all its stages, evaluate, and write the report.

    The source is a name or a path, what `load_source` returns, `Bags` (divided 60/20/20 or into `folds`), or a tuple of
    bags (train, val) or (train, val, test), such as the result of `make_parts`. All other arguments are the options of
    the command, with the same defaults; with `folds`, one call trains one `fold`, where the command trains all.

    With `refit`, a second training has all labelled bags, and `classifier` of the returned object is that one;
    `metrics` and `report` are those of the first, which did not see the test bags. It is the default for bags of your
    own (a file, a folder, or `Bags`) with recipe `census` and no `folds`. Parts that you give are trained on as they
    are.

    With `out`, the run is kept in that folder, and the same call continues or reopens it. Without it, the run is in a
    temporary folder that is removed when the returned object is no longer used.

    In a process group of torch.distributed, every process makes this call; see `fit`. All of them read the folder.

    >>> import majority
    >>> train, val, test = majority.load_source("digits").make_parts(scenario="large", bags=40, bag_size=16)
    >>> settings = {"training.epochs": 2}
    >>> run = majority.train((train, val, test), method="count", recipe="quick", settings=settings, verbose=False)
    >>> run.classifier.predict(test.instances()).shape
    (160,)
    >>> 0 < run.metrics["instance_accuracy"] < 1
    True
    """
    given = dict(locals())  # the arguments
    is_named = isinstance(source, str | Path)
    data = Data.from_options(str(source) if is_named else IN_MEMORY, given)
    experiment = Experiment(
        data, method, dict(method_options or {}), recipe, seed, dict(settings or {}), background_share, like, refit
    )
    opened = None if is_named else as_source(source)
    temporary = tempfile.TemporaryDirectory(prefix="majority-") if out is None and is_first() else None
    folder = from_first(lambda: Path(temporary.name if temporary else out or ""))
    log = print if verbose else no_log
    result = experiment.run(folder, device, log, source=opened, callbacks=callbacks, progress=verbose)
    # Before any process may remove the folder.
    classifier = in_turn(lambda: Classifier.load(classifier_file(folder), device))
    return TrainedRun(folder, classifier, result, temporary)
