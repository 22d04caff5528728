"""One experiment: the bags of a source, a method and a recipe, in a run folder. `train` and `study` run it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ..data.bags import Bags
from ..data.device import choose_device, keep_freed_memory
from ..data.training_labels import used_instances
from ..errors import InputError, count_noun, unknown_name
from ..files import flatten, remove_leftovers, write_json, write_lines
from ..io import Parts, Source
from ..io.metrics import summary_with_intervals
from ..log import Log, no_log
from ..nn.backbones import check_backbone
from ..nn.methods import AUTO, check_options, sees_instance_labels
from ..nn.model import Model
from ..parsing import check_fields, parse_record
from ..predict.classifier import CLASSIFIER, REFITTED, Classifier
from ..recipes import (
    DEFAULT,
    RECIPES,
    Plan,
    TaskInfo,
    Trained,
    choose_plan,
    find_recipe,
    model_builder,
    temporary_files,
    train_by_plan,
)
from ..recipes.label_preserving import known_sources
from ..recipes.stages import REFIT, Chosen
from ..training.callbacks import Callback
from ..training.distributed import check_same, from_first, in_turn, is_first
from ..training.memory import memory_warning
from ..training.run_files import CHECKPOINT, METRICS
from ..training.validation import (
    check_all_known,
    check_bags_per_process,
    check_callbacks,
    check_label_kinds,
    check_weights,
)
from ..version import __version__
from .classified_bags import classify_bags
from .data import Data, fingerprints
from .folder import (
    CONFIG,
    RESULT,
    check_same_settings,
    environment,
    has_started,
    open_run,
    read_config,
    read_result,
    run_lock,
)
from .refit import check_refit, remove_refit, resolve_refit
from .reopen import open_classifier
from .report.page import REPORT, part_rows
from .run_report import write_report

MACHINE_FIELDS = ("source_path", "images", "embedding")  # of config.json: they may differ between machines
REFERENCE_RECIPE = "census"  # its plan has every setting that a recipe chosen by default may have


class Prepared(NamedTuple):
    """Everything that training needs, checked."""

    data: Data  # with its defaults and its corrected labels
    source: Source
    parts: Parts
    left_out: tuple[Bags, ...]  # the bags that are in no part, if there are any
    plan: Plan
    task: TaskInfo
    config: dict[str, Any]  # as it is written to config.json
    build: Callable[..., Model]  # a fresh network by its seed
    reason: str  # why this recipe

    @property
    def all_bags(self) -> list[Bags]:
        return [*self.parts.present().values(), *self.left_out]


class RunOptions(NamedTuple):
    """How a run is done, which does not change its result."""

    device: str
    log: Log
    eager: bool
    callbacks: Sequence[Callback]
    progress: bool


@dataclass(frozen=True)
class Experiment:
    data: Data
    method: str = AUTO  # the recipe weighs several methods, or takes the default one
    method_options: dict[str, Any] = field(default_factory=dict)
    recipe: str = DEFAULT
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)  # changes of the plan, such as {"training.epochs": 10}
    background_share: float | None = None  # of all instances; None: not known
    like: str | None = None  # a known source with similar images: what preserves its labels preserves these
    refit: bool | None = None  # train once more, on all labelled bags; None: see `resolve_refit`
    varied: tuple[str, ...] = ()  # the settings by which a study tells its cells apart

    def __post_init__(self) -> None:
        """Refuse what cannot be right before any data are read; the plan for the data is checked again later."""
        check_fields(self)
        check_options(self.method, self.method_options)
        if "training.seed" in self.settings:
            raise InputError("training.seed cannot be set: use --seed (seed=), which sets the seed of every stage")
        reference = find_recipe(REFERENCE_RECIPE if self.recipe == DEFAULT else self.recipe)
        plan = self._adapt(reference.plan_for(TaskInfo("")))
        if plan.backbone != "auto":
            check_backbone(plan.backbone)
        check_refit(self.refit, self.data)
        if self.data.use_instance_labels:
            reference.check_instance_labels(self.method)
        if self.like is not None and self.like not in known_sources():
            raise unknown_name("known source", self.like, known_sources(), option="--like")
        if self.like is not None and self.data.source in known_sources():
            what = f"like {self.like}: {self.data.source} is a known source itself"
            raise InputError(f"{what}: leave out --like (like=)")

    def run(
        self,
        folder: str | Path,
        device: str = "auto",
        log: Log = no_log,
        eager: bool = False,
        source: Source | None = None,  # if it is open already
        callbacks: Sequence[Callback] = (),
        progress: bool = True,  # show it on standard error
    ) -> dict[str, Any]:
        """Train and evaluate in the folder, or continue a run that was killed; return the result."""
        folder = Path(folder)
        callbacks = check_callbacks(callbacks)
        if not is_first():
            callbacks, log, progress = [], no_log, False
        with ExitStack() as held:
            from_first(lambda: held.enter_context(run_lock(folder)))
            before = from_first(lambda: read_config(folder) if has_started(folder) else None)
            prepared = in_turn(lambda: self._prepare(before, device, log, source))
            _check_same_run(prepared.config)
            result = from_first(lambda: open_run(folder, prepared.config, device))
            if result is None:
                if is_first():
                    self._log_start(folder, prepared, device, log)
                for callback in callbacks:
                    callback.on_run_start(folder, read_config(folder))
                options = RunOptions(device, log, eager, callbacks, progress)
                trained = self._train(folder, prepared, options)
                again = self._train_again(folder, prepared, trained, options) if prepared.config["refit"] else None
                result = from_first(lambda: self._finish(folder, prepared, trained, again, device))
                for callback in callbacks:
                    callback.on_run_end(result)
            else:
                from_first(lambda: self._write_missing_report(folder, prepared, device))
                log(f"{folder} is finished (kept epoch {result['best_epoch'] + 1} of {result['epochs']})")
            from_first(lambda: _remove_temporary_files(folder))
            return result

    def finished(self, folder: Path) -> dict[str, Any] | None:
        """The result if this run is complete in the folder; no data are read. Another run there is refused."""
        if not has_started(folder):
            return None
        config = read_config(folder)
        recipe = config["plan"]["recipe"] if self.recipe == DEFAULT else self.recipe
        task = parse_record(TaskInfo, config["task"], CONFIG, field="task")
        plan = self._adapt(find_recipe(recipe).plan(task))
        refit = self._refits(config, plan)
        requested = self._config(self.data.with_defaults(), plan, config["data"]["fingerprint"], refit)
        check_same_settings(folder, config, config | requested)
        complete = (folder / RESULT).exists() and (folder / REPORT).exists() and not temporary_files(folder)
        return read_result(folder) if complete else None

    # ------------------------------------------------------------------ the three steps of a run

    def _prepare(self, before: dict[str, Any] | None, device: str, log: Log, source: Source | None) -> Prepared:
        """Read the bags, make the plan, and refuse what cannot be trained. `before` is the config of a run that has
        started in the folder."""
        on_gpu = choose_device(device).type == "cuda"
        if before is not None:  # perhaps on another machine: the run continues by its own plan
            on_gpu = before["task"]["on_gpu"]
        data = self.data.with_defaults()
        source = source or data.open()
        for warning in source.warnings_for(data.background):
            log(f"warning: {warning}")
        parts = data.parts(source, log)
        train = parts.train
        task = TaskInfo.of(train, self.like or source.kind, on_gpu)
        if not task.vectors and not on_gpu:
            keep_freed_memory()
        if self.like is not None and task.vectors:
            what = f"like {self.like}: it is for images, and these instances are vectors"
            raise InputError(f"{what}: leave out --like (like=)")
        plan, reason = choose_plan(self.recipe, task)
        plan = self._adapt(plan)
        build = model_builder(plan, self.method, parts.train, **self._model_options(plan))
        refit = self._refits(before, plan, source)
        if refit and not RECIPES[plan.recipe].can_refit:
            what = f"refit: recipe {plan.recipe} cannot train once more on all bags"
            raise InputError(f"{what}: leave out --refit (refit=)")
        if before is None:  # a run that is refused leaves nothing behind
            self._check_parts(build(), parts.train, parts.val)
        if refit and parts.test is not None and (before is None or not before["refit"]):
            try:
                self._check_parts(build(), parts.test)
            except InputError as error:
                if self.refit:
                    raise
                log(f"note: there is no second training, on all bags, because of the test bags: {error}")
                refit = False
        left_out = data.left_out(source, parts)
        for bags in left_out:
            until = " until the training on all bags" if refit else ""
            what = "other bags of their groups are validation or test bags"
            log(f"{count_noun(len(bags), 'bag')} without a label left out{until}: {what}")
        for settings in plan.all_settings:
            check_bags_per_process(parts.train, settings)
        method = RECIPES[plan.recipe].resolve_method(self.method)
        config = self._config(data, plan, fingerprints(parts, method), refit) | {
            "task": task._asdict(),
            "planned_epochs": RECIPES[plan.recipe].epochs(plan, parts.train, method),
            "columns": source.columns,
            "images": source.image_files and source.image_files._asdict(),
            "embedding": source.embedding and source.embedding._asdict(),
        }
        return Prepared(data, source, parts, left_out, plan, task, config, build, reason)

    def _train(self, folder: Path, prepared: Prepared, options: RunOptions) -> Trained:
        data, parts, method = prepared.data, prepared.parts, prepared.config["method"]
        title = " ".join(filter(None, [data.source, data.scenario, method, f"fold {data.fold}"]))
        return self._train_on(parts.train, prepared.build, folder, prepared, options, title)

    def _train_again(self, folder: Path, prepared: Prepared, trained: Trained, options: RunOptions) -> Trained:
        """Train on all bags, and write the classifier that is used for other bags."""
        everything = prepared.data.join(prepared.all_bags)
        hint = " (leave it out with --no-refit, refit=False)" if self.refit is None else ""
        what = f"training once more on all {len(everything):,} bags, to classify other bags{hint}"
        options.log(f"{what}; figures are those of the first training")
        build = model_builder(prepared.plan, self.method, everything, **self._model_options(prepared.plan))
        title = f"{prepared.data.source} {prepared.config['method']}, all bags"
        again = self._train_on(everything, build, folder / REFIT, prepared, options, title, trained.chosen)
        if is_first():
            classifier = Classifier(again.model, options.device, prepared.source.columns)
            classifier.save(folder / REFITTED, about={"source": prepared.data.source})
        return again

    def _train_on(
        self,
        bags: Bags,
        build: Callable[..., Model],
        folder: Path,
        prepared: Prepared,
        options: RunOptions,
        title: str,
        chosen: Chosen | None = None,
    ) -> Trained:
        return train_by_plan(
            prepared.plan,
            prepared.config["method"],
            bags,
            prepared.parts.val,
            build,
            folder,
            title=title if options.progress else None,
            device=options.device,
            eager=options.eager,
            log=options.log,
            callbacks=options.callbacks,
            chosen=chosen,
        )

    def _finish(
        self, folder: Path, prepared: Prepared, trained: Trained, again: Trained | None, device: str
    ) -> dict[str, Any]:
        """Write the classifier, the figures and the report page."""
        source, parts = prepared.source, prepared.parts
        if trained.first is not None:
            (folder / CHECKPOINT).unlink(missing_ok=True)  # of the first training, whose epochs are replaced
        write_lines(folder / METRICS, trained.fitted.history)  # of the model that is kept, whichever stage made it
        classifier = Classifier(trained.model, device, source.columns)
        classifier.save(folder / CLASSIFIER, about={"source": self.data.source})
        evaluated = {"val": parts.val} if parts.test is None else {"test": parts.test, "val": parts.val}
        classified = {part: classify_bags(classifier, bags, source) for part, bags in evaluated.items()}
        figures: dict[str, Any] = {"test": {}}
        reported = "val" if parts.test is None else "test"
        figures |= {part: of_part.outcome().summary() for part, of_part in classified.items() if part != reported}
        figures[reported] = summary_with_intervals(classified[reported].outcome())
        facts = trained.summary() | self._about(prepared, device) | {"parts": part_rows(parts.present())}
        if again is None:
            remove_refit(folder)
        else:
            trained_on = sum(map(len, prepared.all_bags))
            facts |= {"refit_bags": trained_on, "refit_seconds": again.summary()["seconds"]}
        write_json(folder / RESULT, figures | facts)
        write_report(folder, classifier, parts.present(), source, classified=classified[reported])
        return read_result(folder)

    def _write_missing_report(self, folder: Path, prepared: Prepared, device: str) -> None:
        """Of a run that was killed between the result and the page."""
        if not (folder / REPORT).exists():
            write_report(folder, open_classifier(folder, device), prepared.parts.present(), prepared.source)

    # ------------------------------------------------------------------ their parts

    def _log_start(self, folder: Path, prepared: Prepared, device: str, log: Log) -> None:
        plan, train = prepared.plan, prepared.parts.train
        log(f"{prepared.reason}; {train}")
        if self.data.use_instance_labels:
            used = count_noun(len(used_instances(train)), "instance")
            log(f"training also learns the labels of {used} of training bags; metrics exclude these instances")
        on_gpu_now = choose_device(device).type == "cuda"
        if prepared.task.on_gpu != on_gpu_now:
            where = "a GPU" if prepared.task.on_gpu else "a CPU"
            log(f"note: this run was started on {where} and continues with the plan for it")
        if self.like is not None and not plan.augments_images:
            log(
                f"note: recipe {plan.recipe} does not augment these images, so --like (like=) has no effect"
                "; augmented and census do, census on a CPU where mirroring or turning an image keeps its class"
            )
        reasons = RECIPES[plan.recipe].without_effect(plan, train, prepared.config["method"])
        for name in [name for name in self.settings if name in reasons]:
            log(f"warning: setting {name} has no effect, leave it out: {reasons[name]}")
        if not (prepared.task.on_gpu or prepared.task.vectors or prepared.task.tiny):
            log("note: on a CPU, features of a pretrained network are more accurate than images: see `majority embed`")
        warning = None if on_gpu_now else memory_warning(prepared.build(), train, plan.training)
        if warning:
            log(f"warning: {warning}")
        if temporary_files(folder):
            log(f"{folder} was interrupted: continuing")

    def _check_parts(self, model: Model, *parts: Bags) -> None:
        """Refuse bags that the model cannot be trained on."""
        for part in parts:
            check_label_kinds(model, part)
            check_weights(model, part)
            if model.head.sees_instance_labels:
                check_all_known(self.method, part)

    def _refits(self, before: dict[str, Any] | None, plan: Plan, source: Source | None = None) -> bool:
        return resolve_refit(self.refit, before, RECIPES[plan.recipe], self.data, source)

    def _model_options(self, plan: Plan) -> dict[str, Any]:
        return {"pixels": plan.pixels, "background_share": self.background_share, **self.method_options}

    def _adapt(self, plan: Plan) -> Plan:
        """The plan with this experiment's seed and settings."""
        find_recipe(plan.recipe).check_method(self.method)
        return plan.with_seed(self.seed).with_settings(self.settings)

    def _config(self, data: Data, plan: Plan, fingerprint: list[str | None], refit: bool) -> dict[str, Any]:
        return {
            "method": RECIPES[plan.recipe].resolve_method(self.method),
            "method_options": self.method_options,
            "background_share": self.background_share,
            "data": asdict(data) | {"fingerprint": fingerprint},
            "plan": plan.as_dict(),
            "settings": self.settings,
            "source_path": data.path,
            "like": self.like,
            "refit": refit,
        }

    def _about(self, prepared: Prepared, device: str) -> dict[str, Any]:
        """What a result belongs to."""
        data, plan = prepared.data, prepared.plan
        return {
            "method": prepared.config["method"],
            "method_options": self.method_options,
            "sees_instance_labels": sees_instance_labels(self.method),
            "background_share": self.background_share,
            "recipe": plan.recipe,
            "source": data.source,
            "scenario": data.scenario,
            "fold": data.fold,
            "seed": self.seed,
            "data_seed": data.data_seed,
            "data": asdict(data),
            "plan": plan.as_dict(),
            "task": prepared.task._asdict(),
            **({"varied": {name: self.settings[name] for name in self.varied}} if self.varied else {}),
            **({"used_instance_labels": len(used_instances(prepared.parts.train))} if data.use_instance_labels else {}),
            "version": __version__,
            "hardware": environment(device)["device"],
        }


def _check_same_run(config: dict[str, Any]) -> None:
    """Refuse processes of one training that have other data, settings or versions."""
    facts = flatten({name: value for name, value in config.items() if name not in MACHINE_FIELDS})
    facts["a hash of the bags"] = facts.pop("data.fingerprint")
    check_same(facts | {"the version of majority": __version__, "the version of torch": torch.__version__})


def _remove_temporary_files(folder: Path) -> None:
    for path in temporary_files(folder):
        path.unlink()
    remove_leftovers(folder)
