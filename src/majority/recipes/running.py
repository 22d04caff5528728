"""How a list of stages is run. A finished stage is never trained again."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from ..errors import InputError
from ..fields import from_json
from ..files import read_json, write_json, write_lines
from ..nn.model import Model
from ..nn.weights import Weights, check_weights, read_weights, write_weights
from ..training.callbacks import Fitted
from ..training.checkpoint import CHECKPOINT, METRICS, read_history
from ..training.distributed import from_first
from ..training.progress import show_stages
from .stages import Result, Run, Stage, kept_result

STAGES = "stages"  # the folder of the stages
ROBUST = "robust"  # the folder of a second training, without labels that seem to be wrong
REFIT = "refit"  # the folder of a second training, on all bags
OUTCOME, WEIGHTS = "outcome.json", "weights.safetensors"
REMOVE = "remove it and run again, which trains this stage again"


@dataclass(frozen=True)
class Trained:
    """The result of a recipe: a network, how it was trained, and what led to it."""

    model: Model
    fitted: Fitted  # the training of this model
    stages: Sequence[Stage] = ()
    results: Mapping[str, Result] = field(default_factory=dict)  # of all stages that were run
    about: dict[str, Any] = field(default_factory=dict)  # what was chosen: entries of result.json
    first: Trained | None = None  # the training that showed which labels are wrong

    @property
    def trainings(self) -> dict[str, Fitted]:
        """How each stage was trained."""
        return {name: result.fitted for name, result in self.results.items() if result.fitted is not None}

    def summary(self) -> dict[str, Any]:
        """Best epoch and epochs of the model; seconds of all stages."""
        trainings = [*(self.first.trainings.values() if self.first else ()), *self.trainings.values()]
        each = {id(fitted): fitted for fitted in trainings}.values()  # the second training takes over some of the first
        choices = [result.seconds for result in self.results.values()]
        summary: dict[str, Any] = {
            "best_epoch": self.fitted.best_epoch,
            "epochs": self.fitted.epochs,
            "seconds": round(sum(fitted.seconds for fitted in each) + sum(choices), 3),
            "capture_seconds": round(sum(fitted.capture_seconds for fitted in each), 3),
        }
        if len(self.stages) > 1:
            summary["stages"] = {
                name: {"best_epoch": fitted.best_epoch, "epochs": fitted.epochs, fitted.loss_name: fitted.best_loss}
                for name, fitted in self.trainings.items()
            }
        return summary | self.about


# ---------------------------------------------------------------------- a list of stages


def run_stages(stages: Sequence[Stage], run: Run, given: Mapping[str, Result] | None = None) -> Trained:
    """Run them in their order, or go on in the folder. Of the stages whose results are `given`, and of those that only
    led to these, none is run."""
    results = dict(given or {})
    needed = needed_stages(stages, results)
    with show_stages(run.title, sum(stage.epochs for stage in needed)) as progress:
        callbacks = [*filter(None, [progress]), *run.callbacks]
        for number, stage in enumerate(needed, start=1):
            own = replace(run, callbacks=callbacks, results=results, stage=stage)
            if len(stages) > 1:
                title = run.title and f"stage {number} of {len(needed)}: {stage.name} · {run.title}"
                own = replace(own, folder=run.folder and run.folder / STAGES / stage.name, title=title)
                results[stage.name] = _run_stage(own)
            else:  # in the run folder itself; for callbacks, a further training is its only stage
                results[stage.name] = _train(own, stage.start(own), run.phase)
            if progress is not None:
                progress.before += stage.epochs
    found = {stage.name: results[stage.name] for stage in stages if stage.name in results}
    about = merge(result.about for result in found.values())
    about.pop("kept", None)
    kept = kept_result(results, stages[-1].name)
    if kept.fitted is None:
        raise InputError(f"stage {stages[-1].name} trains no network: let the last stage do so, or give one as `kept`")
    return Trained(kept.model, kept.fitted, stages, found, about)


def run_again(trained: Trained, run: Run) -> Trained:
    """Train the same stages on other bags, for as many epochs and with the choices that validation bags have made."""
    given = {stage.name: trained.results[stage.name] for stage in trained.stages if stage.choose and not stage.again}
    epochs = {name: fitted.best_epoch + 1 for name, fitted in trained.trainings.items()}
    return run_stages(trained.stages, replace(run, epochs=epochs, phase=REFIT), given)


def needed_stages(stages: Sequence[Stage], given: Mapping[str, Result]) -> list[Stage]:
    """Those that have to be run for the last one, if the results of some are given."""
    if not given:
        return list(stages)
    inputs = {stage.name: stage.inputs for stage in stages}
    for name, result in given.items():
        inputs[name] = (result.about["kept"],) if "kept" in result.about else ()
    needed, open_names = set[str](), [stages[-1].name]
    while open_names:
        name = open_names.pop()
        if name not in needed:
            needed.add(name)
            open_names += inputs[name]
    return [stage for stage in stages if stage.name in needed and stage.name not in given]


def merge(entries: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Entries of result.json from several stages.

    >>> merge([{"losses": {"heads": 1}}, {"losses": {"teachers": 2}, "warnings": ["a"]}, {"warnings": ["b"]}])
    {'losses': {'heads': 1, 'teachers': 2}, 'warnings': ['a', 'b']}
    """
    merged: dict[str, Any] = {}
    for about in entries:
        for name, value in about.items():
            before = merged.get(name)
            if isinstance(before, dict) and isinstance(value, dict):
                value = before | value
            merged[name] = before + value if isinstance(before, list) and isinstance(value, list) else value
    return merged


# ---------------------------------------------------------------------- one stage


def _run_stage(run: Run) -> Result:
    """Train, or choose, in the folder of the stage; or read what that has left."""
    stage, folder = run.stage, run.folder
    saved = from_first(lambda: _read(stage, folder)) if folder else None
    model: Any = None if stage.choose else stage.start(run)
    if saved is not None:
        result, weights = saved
        if model is not None:
            check_weights(weights, model.state_dict(), (folder or Path()) / WEIGHTS, REMOVE)
            model.load_state_dict(weights)
            result = replace(result, model=model)
    else:
        shown = f"{run.phase}/{stage.name}" if run.phase else stage.name
        result = _choose(run, stage.choose) if stage.choose else _train(run, model, shown)
        from_first(lambda: _write(folder, result))
    if model is not None:
        model.to("cpu", memory_format=torch.contiguous_format)  # networks that wait take no memory of a GPU
    if result.fitted is not None:
        loss = "validation loss" if result.fitted.loss_name == "val_loss" else "training loss"
        kept = f"kept epoch {result.fitted.best_epoch + 1} of {result.fitted.epochs}"
        run.log(f"stage {stage.name}: {kept}, {loss} {result.fitted.best_loss:.4f}")
    return result


def _choose(run: Run, choose: Callable[[Run], dict[str, Any]]) -> Result:
    start = time.perf_counter()
    found = json.loads(json.dumps(choose(run)))  # as it would read back; by all processes together
    about: dict[str, Any] = from_first(lambda: found)
    for title, line in about.get("lines", {}).items():
        run.log(f"{title}: {line}")
    for warning in about.get("warnings", []):
        run.log(f"warning: {warning}")
    return Result(about=about, seconds=time.perf_counter() - start)


def _train(run: Run, model: Model, shown: str) -> Result:
    """Train; `shown` is the stage's name for callbacks, which are not told of one without a name or a training."""
    callbacks = run.callbacks if shown and run.stage.settings else ()
    for callback in callbacks:
        callback.on_stage_start(shown)
    fitted: Any = run.stage.train(run, model)
    for callback in callbacks:
        callback.on_stage_end(shown, fitted)
    return Result(model, fitted)


def _write(folder: Path | None, result: Result) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        if result.model is not None:
            write_weights(folder / WEIGHTS, result.model.state_dict())
        if result.fitted is not None:
            write_lines(folder / METRICS, result.fitted.history)  # of a training that is not one of epochs, too
        chosen = {"chosen": result.about, "checksum": _checksum(result.about)}
        write_json(folder / OUTCOME, result.fitted.outcome if result.fitted else chosen)
        (folder / CHECKPOINT).unlink(missing_ok=True)


def _read(stage: Stage, folder: Path) -> tuple[Result, Weights] | None:
    """What a finished stage has left, and the weights of its network."""
    place = folder / OUTCOME
    if not place.exists() or not (stage.choose or (folder / WEIGHTS).exists()):
        return None
    (folder / CHECKPOINT).unlink(missing_ok=True)
    outcome = read_json(place, REMOVE)
    if stage.choose:
        if outcome.get("checksum") != _checksum(outcome.get("chosen")):
            raise InputError(f"{place} is damaged (its checksum is wrong): {REMOVE}")
        return Result(about=outcome["chosen"]), {}
    result = Result()
    if stage.settings is not None:
        fitted = from_json(Fitted, outcome, place, REMOVE)
        fitted.history = read_history(folder / METRICS, REMOVE)
        if not 0 <= fitted.best_epoch < fitted.epochs:
            found = f"{fitted.epochs} epochs in {METRICS}, but epoch {fitted.best_epoch + 1} was kept"
            raise InputError(f"{folder} is damaged ({found}): {REMOVE}")
        result = Result(fitted=fitted)
    return result, read_weights(folder / WEIGHTS, REMOVE)[0]


def _checksum(chosen: Any) -> int:
    """Of a choice, which can be anything: later stages trust it."""
    return zlib.crc32(json.dumps(chosen).encode())


def temporary_files(folder: Path) -> list[Path]:
    """Files that a run folder holds only until the run is finished: its checkpoint, and the weights of its stages."""
    places = (folder, folder / ROBUST, folder / REFIT)
    return [file for place in places for name in (CHECKPOINT, f"{STAGES}/*/*.safetensors") for file in place.glob(name)]
