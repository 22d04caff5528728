"""What a run does with its bags: the plan of its recipe, checked, and the content of its config.json."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..data.bags import Bags
from ..data.device import choose_device, keep_freed_memory
from ..data.training_labels import used_instances
from ..errors import InputError, count_noun, unknown_name
from ..fields import from_json
from ..io import CustomBags, Source
from ..io.benchmarks.catalogue import known_of, known_sources
from ..log import Log
from ..nn.backbones import check_backbone
from ..nn.methods import check_options
from ..nn.model import Model
from ..recipes import Plan, Recipe, TaskInfo, find_recipe, model_builder
from ..recipes.stages import Stage
from ..training.validation import check_all_known, check_bags_per_process, check_labels
from .config import BenchmarkBags, OwnBags, RunConfig
from .data import Data, fingerprints, path_of, with_files
from .folder import environment
from .record import CONFIG, Environment, PlanRecord, RunRecord


class Planned(NamedTuple):
    """Everything that training needs, checked."""

    config: RunConfig  # see `resolve` and `with_method`
    data: Data
    plan: Plan
    task: TaskInfo
    stages: list[Stage]
    record: RunRecord  # as it is written to config.json
    build: Callable[..., Model]  # a fresh network for the training bags by its seed


def builder(plan: Plan, config: RunConfig, train: Bags) -> Callable[..., Model]:
    """A function that makes a fresh network for these bags by its seed."""
    given: dict[str, Any] = {"pixels": plan.pixels, "background_share": config.background_share}
    return model_builder(plan, config.method, train, **given, **config.method_options)


def task_of(record: RunRecord) -> TaskInfo:
    return from_json(TaskInfo, record.task, f"the task in {CONFIG} of the run", "train again in another folder")


def adapt(plan: Plan, config: RunConfig) -> Plan:
    """The plan with this run's seed and settings."""
    find_recipe(plan.recipe).check_method(config.method)
    return plan.with_seed(config.seed).with_settings(config.settings)


def resolve(config: RunConfig) -> RunConfig:
    """The same run with what its recipe and its files stand for."""
    return with_files(config.model_copy(update={"recipe": find_recipe(config.recipe).name}))


def with_method(config: RunConfig, task: TaskInfo) -> RunConfig:
    """The same run with what its method stands for."""
    return config.model_copy(update={"method": find_recipe(config.recipe).resolve_method(config.method, task)})


def check_config(config: RunConfig) -> None:
    """Refuse what cannot be right before any data are read; the plan for the data is checked again later."""
    check_options(config.method, config.method_options)
    reference = find_recipe(config.recipe)
    reference.check_method(config.method)
    plan = reference.check_settings(config.settings, config.seed)
    if plan.backbone != "auto":
        check_backbone(plan.backbone)
    if config.instance_labels is not None:
        reference.check_instance_labels(config.method)
    if config.like is not None and config.like not in known_sources():
        raise unknown_name("known source", config.like, known_sources(), option="like")
    if config.like is not None and config.bags.source in known_sources():
        raise InputError(f"like {config.like}: {config.bags.source} is a known source itself: leave it out")


def plan_run(config: RunConfig, data: Data, before: RunRecord | None, device: str, log: Log) -> Planned:
    """The plan for these bags on this device; what cannot be trained is refused. A run that has started (`before`),
    perhaps on another machine, continues by its own plan."""
    on_gpu = choose_device(device).type == "cuda" if before is None else task_of(before).on_gpu
    train = data.parts.train
    kind = config.like or data.source.kind
    task = TaskInfo.of(train, kind, on_gpu, **known_of(kind))
    if not task.vectors and not on_gpu:
        keep_freed_memory()
    recipe, config = find_recipe(config.recipe), with_method(config, task)
    plan = adapt(recipe.plan_for(task), config)
    build = builder(plan, config, train)
    stages = recipe.stages(recipe.task_for(task, config.method, build), plan)
    for stage in stages:
        if stage.settings is not None:
            check_bags_per_process(train, stage.settings)
    refit = _check_bags(build(), config, resolve_refit(config, before, recipe, data.source), data, before, log)
    if config.answers is not None and not len(used_instances(train)) and not refit:
        what = f"instance_labels {config.instance_labels}: no answer is about an instance of a training bag"
        raise InputError(f"{what}: train once more on all bags, which learns the others (--refit, refit=True)")
    if data.left_out is not None:
        until = " until the training on all bags" if refit else ""
        what = "other bags of their groups are validation or test bags"
        log(f"{count_noun(len(data.left_out), 'bag')} without a label left out{until}: {what}")
    record = RunRecord(
        run=config,
        refit=refit,
        fingerprint=fingerprints(data.parts, config.method),
        plan=PlanRecord(**plan.as_dict()),
        task=task._asdict(),
        planned_epochs=sum(stage.epochs for stage in stages),
        source_path=path_of(config.bags),
        encoder=data.source.encoder,
        images=data.source.image_files,
        embedding=data.source.embedding,
        environment=Environment(**environment(device)),
    )
    return Planned(config, data, plan, task, stages, record, build)


def resolve_refit(config: RunConfig, before: RunRecord | None, recipe: Recipe, source: Source | None) -> bool:
    """As the user says. Otherwise a run that has started goes on as its config says (`before`), and a new one trains
    once more if the recipe gains by it and the bags are your own: neither those of a benchmark, nor folds, nor parts
    that the caller has made, perhaps to test the classifier on one of them."""
    if config.refit is not None:
        return config.refit
    if before is not None:
        return before.refit
    is_own = isinstance(config.bags, OwnBags) and config.bags.folds is None and isinstance(source, CustomBags)
    return recipe.refits_by_default and is_own


def _check_bags(model: Model, config: RunConfig, refit: bool, data: Data, before: RunRecord | None, log: Log) -> bool:
    """Refuse bags that the model cannot be trained on: a run that is refused leaves nothing behind. Test bags that it
    cannot be trained on end only the training on all bags, whether there is one is returned."""
    parts, new = data.parts, before is None
    for part in [parts.train, parts.val] if new else []:
        _check_part(model, config.method, part)
    if refit and parts.test is not None and (before is None or not before.refit):
        try:
            _check_part(model, config.method, parts.test)
        except InputError as error:
            if config.refit:
                raise
            log(f"note: there is no second training, on all bags, because of the test bags: {error}")
            return False
    return refit


def _check_part(model: Model, method: str, bags: Bags) -> None:
    check_labels(model, bags)
    if model.head.sees_instance_labels:
        check_all_known(method, bags)


def log_start(planned: Planned, device: str, log: Log) -> None:
    """What is worth knowing before the training."""
    plan, task, train = planned.plan, planned.task, planned.data.parts.train
    log(f"recipe {plan.recipe}; {train}")
    if used := len(used_instances(train)):
        what = f"training also learns the labels of {count_noun(used, 'instance')} of training bags"
        log(f"{what}; metrics exclude these instances")
    on_gpu_now = choose_device(device).type == "cuda"
    if task.on_gpu != on_gpu_now:
        where = "a GPU" if task.on_gpu else "a CPU"
        log(f"note: this run was started on {where} and continues with the plan for it")
    if not (task.on_gpu or task.vectors or task.tiny):
        log("note: on a CPU, features of a pretrained network are more accurate than images: see `majority embed`")


def title_of(planned: Planned) -> str:
    """Of the progress."""
    bags = planned.config.bags
    scenario = bags.scenario if isinstance(bags, BenchmarkBags) else None
    return " ".join(filter(None, [bags.source, scenario, planned.config.method, f"fold {bags.fold}"]))
