"""One experiment, in a run folder: read the bags, plan, train, evaluate, write. `train` and `study` run it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..data.device import choose_device
from ..data.joining import join
from ..data.training_labels import used_instances
from ..files import flatten, remove_leftovers, write_json, write_lines
from ..io import Source
from ..io.metrics import summary_with_intervals
from ..log import Log, no_log
from ..nn.methods import sees_instance_labels
from ..predict.classifier import CLASSIFIER, REFITTED, Classifier
from ..predict.evaluate import predict
from ..predict.metrics import is_skewed
from ..predict.predictions import Predictions
from ..recipes import Run, Trained, temporary_files, train_by_plan
from ..recipes.forest import baseline
from ..recipes.running import REFIT
from ..training.callbacks import Callback
from ..training.checkpoint import CHECKPOINT, METRICS
from ..training.distributed import check_same, from_first, in_turn, is_first
from ..training.validation import check_callbacks
from ..version import __version__
from .config import RunConfig
from .data import path_of, read_data, write_trained
from .folder import has_started, open_run, read_config, run_lock
from .plan import Planned, builder, check_config, log_start, plan_run, resolve, task_of, title_of, with_method
from .record import OF_MACHINE, RESULT, RunRecord, check_same_run, read_result
from .reopen import open_classifier
from .report.blocks import REPORT
from .report.page import part_rows, write_report


class How(NamedTuple):
    """How a run is done, which does not change its result."""

    device: str = "auto"
    log: Log = no_log
    eager: bool = False
    callbacks: Sequence[Callback] = ()
    progress: bool = True  # show it on standard error


def run_experiment(
    config: RunConfig,
    folder: str | Path,
    how: How | None = None,
    source: Source | None = None,  # if it is open already
    varied: Mapping[str, Any] | None = None,  # the options by which a study tells its cells apart
) -> dict[str, Any]:
    """Train and evaluate in the folder, or continue a run that was killed; return the result."""
    folder, how = Path(folder), how or How()
    check_config(config)
    choose_device(how.device)  # raises if there is none of this name
    how = how._replace(callbacks=check_callbacks(how.callbacks))
    how = how if is_first() else how._replace(callbacks=[], log=no_log, progress=False)
    with ExitStack() as held:
        from_first(lambda: held.enter_context(run_lock(folder)))
        before = from_first(lambda: read_config(folder) if has_started(folder) else None)
        config = resolve(config)
        data = in_turn(lambda: read_data(config, source, how.log))
        planned = in_turn(lambda: plan_run(config, data, before, how.device, how.log))
        _check_same_processes(planned.record)
        result = from_first(lambda: open_run(folder, planned.record))
        if result is None:
            trained = train(folder, planned, how)
            again = train_again(folder, planned, how, trained) if planned.record.refit else None
            classifier = from_first(lambda: _write_classifier(folder, planned, trained, how))
            result = from_first(
                lambda: write(folder, planned, trained, again, classifier, *evaluate(classifier, planned), varied)
            )
            for callback in how.callbacks:
                callback.on_run_end(result)
        else:
            from_first(lambda: _write_missing_report(folder, planned, how.device))
            how.log(f"{folder} is finished (kept epoch {result['best_epoch'] + 1} of {result['epochs']})")
        from_first(lambda: _remove_temporary_files(folder))
        return result


def run_folds(
    config: RunConfig, folds: Sequence[int], folder: Path, how: How, source: Source | None = None
) -> list[dict[str, Any]]:
    """Train each fold in its own folder. A warning that folds share is logged once."""
    warned: set[str] = set()

    def log_once(line: str) -> None:
        if line not in warned:
            how.log(line)
        if line.startswith("warning: "):
            warned.add(line)

    once = how._replace(log=log_once)
    return [run_experiment(config.with_options(fold=fold), folder / f"fold{fold}", once, source) for fold in folds]


def finished_result(config: RunConfig, folder: Path) -> dict[str, Any] | None:
    """The result if this run is complete in the folder; no data are read. Another run there is refused."""
    check_config(config)
    if not has_started(folder):
        return None
    before = read_config(folder)
    asked = with_method(resolve(config), task_of(before))
    refit = before.refit if asked.refit is None else asked.refit
    changed = {"run": asked, "refit": refit, "source_path": path_of(config.bags)}
    check_same_run(folder, before, before.model_copy(update=changed))
    complete = (folder / RESULT).exists() and (folder / REPORT).exists() and not temporary_files(folder)
    return read_result(folder) if complete else None


# ---------------------------------------------------------------------- the steps


def train(folder: Path, planned: Planned, how: How) -> Trained:
    if is_first():
        log_start(planned, how.device, how.log)
        if temporary_files(folder):
            how.log(f"{folder} was interrupted: continuing")
    for callback in how.callbacks:
        callback.on_run_start(folder, read_config(folder).as_json())
    return train_by_plan(_run_of(planned, folder, how, title_of(planned)), planned.config.method)


def train_again(folder: Path, planned: Planned, how: How, chosen: Trained) -> Trained:
    """Train on all bags, and write the classifier that is used for other bags."""
    config = planned.config
    everything = join([*planned.data.for_training_on_all(config).values()])
    hint = " (leave it out with --no-refit, refit=False)" if config.refit is None else ""
    what = f"training once more on all {len(everything):,} bags, to classify other bags{hint}"
    how.log(f"{what}; figures are those of the first training")
    run = _run_of(planned, folder / REFIT, how, f"{config.bags.source} {config.method}, all bags")
    run = replace(run, train=everything, build=builder(planned.plan, config, everything))
    again = train_by_plan(run, config.method, chosen)
    if is_first():
        _classifier_of(again, planned, how).save(folder / REFITTED, about={"source": config.bags.source})
    return again


def _run_of(planned: Planned, folder: Path, how: How, title: str) -> Run:
    parts, shown = planned.data.parts, title if how.progress else None
    of_machine = {name: getattr(how, name) for name in ("device", "eager", "log", "callbacks")}
    return Run(parts.train, parts.val, planned.plan, planned.build, planned.task, folder, shown, **of_machine)


def _classifier_of(trained: Trained, planned: Planned, how: How) -> Classifier:
    return Classifier(trained.model, how.device, planned.data.source.encoder)


def _write_classifier(folder: Path, planned: Planned, trained: Trained, how: How) -> Classifier:
    if trained.first is not None:
        (folder / CHECKPOINT).unlink(missing_ok=True)  # of the first training, whose epochs are replaced
    write_lines(folder / METRICS, trained.fitted.history)  # of the model that is kept, whichever stage made it
    classifier = _classifier_of(trained, planned, how)
    classifier.save(folder / CLASSIFIER, about={"source": planned.config.bags.source})
    return classifier


def evaluate(classifier: Classifier, planned: Planned) -> tuple[dict[str, Any], Predictions]:
    """The figures of each part, with intervals for the test bags, or else the validation bags; and these bags, which
    the report is about."""
    parts = planned.data.parts
    reported = "val" if parts.test is None else "test"
    figures: dict[str, Any] = {"test": {}}
    found: Predictions
    for name, bags in (("val", parts.val), ("test", parts.test)):
        if bags is not None:
            found = predict(classifier.model, bags, classifier.device)
            figures[name] = summary_with_intervals(found) if name == reported else found.summary()
    if is_skewed(figures[reported]):
        figures["class_recall"] = found.class_recall()
    return figures, found


def write(
    folder: Path,
    planned: Planned,
    trained: Trained,
    again: Trained | None,
    classifier: Classifier,
    figures: dict[str, Any],
    reported: Predictions,
    varied: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Write the figures and the report page."""
    data = planned.data
    facts = trained.summary() | about(planned) | {"parts": part_rows(data.parts.present())}
    if planned.task.vectors:
        found = baseline(data.parts.train, data.parts.test or data.parts.val)
        facts |= {} if found is None else {"baseline": found}
    if varied:
        facts["varied"] = dict(varied)
    if again is None:
        shutil.rmtree(folder / REFIT, ignore_errors=True)  # of a run that was interrupted there and goes on without it
        (folder / REFITTED).unlink(missing_ok=True)
        learned = {"train": data.parts.train}
    else:
        learned = data.for_training_on_all(planned.config)
        facts |= {"refit_bags": sum(map(len, learned.values())), "refit_seconds": again.summary()["seconds"]}
    write_trained(folder, learned, data.source)
    write_json(folder / RESULT, figures | facts)
    write_report(folder, classifier, data.parts.present(), data.source, predictions=reported)
    return read_result(folder)


def about(planned: Planned) -> dict[str, Any]:
    """What a result belongs to."""
    config, used = planned.config, len(used_instances(planned.data.parts.train))
    bags = {"scenario": None} | config.facts_of_bags()
    return {
        "method": config.method,
        "method_options": config.method_options,
        "sees_instance_labels": sees_instance_labels(config.method),
        "background_share": config.background_share,
        "recipe": planned.plan.recipe,
        **{name: bags[name] for name in ("source", "scenario", "fold", "data_seed")},
        "seed": config.seed,
        "data": bags,
        "plan": planned.plan.as_dict(),
        "task": planned.task._asdict(),
        **({"used_instance_labels": used} if used else {}),
        "version": __version__,
        "hardware": planned.record.environment.device,
    }


# ---------------------------------------------------------------------- what surrounds them


def _write_missing_report(folder: Path, planned: Planned, device: str) -> None:
    """Of a run that was killed between the result and the page."""
    if not (folder / REPORT).exists():
        data = planned.data
        write_report(folder, open_classifier(folder, device), data.parts.present(), data.source)


def _check_same_processes(record: RunRecord) -> None:
    """Refuse processes of one training that have other data, settings or versions."""
    facts = flatten(record.model_dump(mode="json", exclude={*OF_MACHINE}))
    facts["a hash of the bags"] = facts.pop("fingerprint")
    check_same(facts | {"the version of majority": __version__, "the version of torch": torch.__version__})


def _remove_temporary_files(folder: Path) -> None:
    for path in temporary_files(folder):
        path.unlink()
    remove_leftovers(folder)
