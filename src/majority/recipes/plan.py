"""Plan: what a recipe sets, as frozen data. A run can be repeated from the plan in its folder."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from ..data.bags import Bags
from ..errors import InputError, closest
from ..files import flatten
from ..nn.model import TINY_IMAGE
from ..training.settings import Settings

SHORTHANDS = {  # options of the command that are short for one setting of the plan
    "backbone": "backbone",
    "epochs": "training.epochs",
    "patience": "training.patience",
    "batch_bags": "training.batch_bags",
    "learning_rate": "training.learning_rate",
    "max_instances": "training.max_instances",
    "compile": "training.compile",
}
MOST_WRONG = 0.45  # share of wrong labels: with two classes, labels of which half are wrong say nothing
VALUE_TYPES: dict[Any, tuple[type, str]] = {  # by the type of a setting: the type of new values, and its name
    bool: (bool, "true or false"),
    int: (Integral, "a whole number"),
    float: (Real, "a number"),
    str: (str, "a name"),
    tuple: (tuple, "a list"),
    NoneType: (NoneType, "null"),
}


class TaskInfo(NamedTuple):
    """Everything that a plan may depend on."""

    source: str  # the name of a registered source with such images; "" if what they show is not known
    shape: tuple[int, ...] = (32, 32, 3)  # of one instance
    on_gpu: bool = True
    bags: int = 400  # for training
    instances: int = 25_600  # of these bags
    labelled_bags: int | None = None  # those of these bags that have a label; None: all

    @classmethod
    def of(cls, train: Bags, source: str, on_gpu: bool) -> TaskInfo:
        """For training on these bags."""
        labelled = int(train.bag_labels.known.sum())
        return cls(source, train.store.shape[1:], on_gpu, len(train), len(train.index), labelled)

    @property
    def vectors(self) -> bool:
        return len(self.shape) == 1

    @property
    def tiny(self) -> bool:  # images for which an mlp is as good as a cnn and far faster
        return not self.vectors and min(self.shape[:2]) <= TINY_IMAGE


@dataclass(frozen=True)
class Plan:
    """What a recipe sets. A run can be repeated from it."""

    recipe: str  # its name
    backbone: str = "auto"
    pixels: str = "data"
    training: Settings = field(default_factory=Settings)  # of the network that is kept
    own: Any = None  # settings that only this recipe has: a frozen dataclass, or None
    assumed_wrong: float | None = 0.0  # share of the bag labels that may be wrong; None: the bags show it

    def __post_init__(self) -> None:
        if not isinstance(self.backbone, str):
            raise InputError(f"backbone is {self.backbone!r}: give a name, or auto")
        wrong = self.assumed_wrong
        if wrong is not None and not (is_real(wrong) and 0 <= wrong <= MOST_WRONG):
            raise InputError(f"assumed_wrong is {wrong!r}: give a share from 0 to {MOST_WRONG}, or null")

    @property
    def all_settings(self) -> list[Settings]:
        """Of the training and of every further stage."""
        return [self.training, *(settings for _, settings in self._stage_settings())]

    @property
    def augments_images(self) -> bool:
        return any(settings.augment for settings in self.all_settings)

    def as_dict(self) -> dict[str, Any]:
        """As it is written to config.json: a recipe's own settings are listed under the recipe's name."""
        plan = asdict(self)
        own = plan.pop("own")
        return plan if own is None else plan | {self.recipe: own}

    def with_seed(self, seed: int) -> Plan:
        """This plan with the same seed in every stage."""
        plan = replace(self, training=replace(self.training, seed=seed))
        stages = {name: replace(settings, seed=seed) for name, settings in self._stage_settings()}
        return replace(plan, own=replace(self.own, **stages)) if stages else plan

    def with_settings(self, settings: dict[str, Any]) -> Plan:
        """This plan with settings replaced by their dotted names, such as {"census.pretrain.epochs": 100}."""
        plan = self
        for name, value in settings.items():
            plan = plan._with_setting(name, value)
        return plan

    def _with_setting(self, name: str, value: Any) -> Plan:
        first, *rest = name.split(".")
        if first == self.recipe and self.own is not None:
            return self._with_own_setting(rest, value, name)
        known = [item.name for item in fields(self) if item.name not in ("recipe", "own")]
        if first not in known:
            raise InputError(f"the plan of recipe {self.recipe} has no setting {name!r}: {self._suggest(name)}")
        if value is None and not rest and is_dataclass(getattr(self, first)):
            raise InputError(f"{name}=null: recipe {self.recipe} needs it; change one of the settings in it instead")
        plan: Plan = _replace_setting(self, [first, *rest], value, name)
        return plan

    def _with_own_setting(self, path: list[str], value: Any, name: str) -> Plan:
        if not path and value is None:
            raise InputError(f"{name}=null: recipe {self.recipe} needs it; change one of the settings in it instead")
        if not path:
            raise InputError(
                f"{name}={_shown(value)}: it is a group of settings: change one of them with --set {name}.SETTING=VALUE"
            )
        return replace(self, own=_replace_setting(self.own, path, value, name))

    def _suggest(self, name: str) -> str:
        """What may be meant by a setting that does not exist: a near name, or else all that there are."""
        groups = {"training": self.training} | ({} if self.own is None else {self.recipe: self.own})
        single = [item.name for item in fields(self) if item.name not in ("recipe", "own", *groups)]
        first, dot, rest = name.partition(".")
        if dot:
            meant = closest(first, groups)
            similar = meant and f"{meant}.{rest}"
        else:
            by_name = {each: each for each in single}
            for group, settings in groups.items():
                by_name = {item.name: f"{group}.{item.name}" for item in fields(settings)} | by_name
            meant = closest(name, by_name)
            similar = meant and by_name[meant]
        if similar:
            return f"did you mean {similar}?"
        known = f"it has {', '.join(single)}, {' and '.join(f'{group}.NAME' for group in groups)}"
        return f"{known}; settings of recipe {first} need --recipe {first}" if dot else known

    def _stage_settings(self) -> Iterator[tuple[str, Settings]]:
        """The settings of each further stage, by the name of their field."""
        for item in fields(self.own) if self.own is not None else ():
            settings = getattr(self.own, item.name)
            if isinstance(settings, Settings):
                yield item.name, settings


def is_real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _replace_setting(settings: Any, path: list[str], value: Any, name: str) -> Any:
    """The dataclass with the setting at this path replaced; `name` is the whole dotted name, for messages."""
    first, *rest = path
    known = [item.name for item in fields(settings)] if is_dataclass(settings) else []
    if first not in known:
        group = name.removesuffix(".".join(path)).rstrip(".")
        similar = closest(first, known)
        guess = f"did you mean {similar}? " if similar else ""
        hint = (
            f"{guess}{group} has {', '.join(known)}" if known else f"{group} is {settings!r} and has no settings in it"
        )
        if settings is None:
            hint = f"this plan has no stage {group} for these instances on this device"
        raise InputError(f"the plan has no setting {name!r}: {hint}")
    before, kinds = getattr(settings, first), _types_of(settings, first)
    if value is not None and not rest and (is_dataclass(before) or any(map(is_dataclass, kinds))):
        raise InputError(
            f"{name}={_shown(value)}: it is a group of settings: change one of them with --set {name}.SETTING=VALUE"
        )
    value = _replace_setting(before, rest, value, name) if rest else lists_as_tuples(value)
    is_checked = all(kind in VALUE_TYPES for kind in kinds)  # what has another type, the recipe checks
    if is_checked and not any(_has_type(value, VALUE_TYPES[kind][0]) for kind in kinds):
        expected = " or ".join(VALUE_TYPES[kind][1] for kind in kinds)
        raise InputError(f"{name}={_shown(value)}: {expected} is needed")
    try:
        return replace(settings, **{first: value})
    except TypeError as error:
        raise InputError(f"{name}={_shown(value)}: {error}") from None


def _shown(value: Any) -> str:
    """The value as one writes it after --set.

    >>> _shown(("a", None)), _shown(True), _shown("many")
    ('["a", null]', 'true', 'many')
    """
    is_written_otherwise = value is None or isinstance(value, bool | tuple | list | dict)  # in JSON than in Python
    return json.dumps(value, default=str) if is_written_otherwise else str(value)


def _types_of(settings: Any, name: str) -> list[Any]:
    """The types that this field of a dataclass may have. Its value alone does not tell: a plan may have the whole
    number 3 where any number is allowed, and None where there may be further settings.

    >>> _types_of(Settings(warmup_epochs=3), "warmup_epochs"), _types_of(Settings(), "patience")
    ([<class 'float'>], [<class 'int'>, <class 'NoneType'>])
    """
    try:
        hint = get_type_hints(type(settings))[name]
    except NameError:  # of a type that only type checkers import
        value = getattr(settings, name)
        hint = Any if value is None else type(value) | None
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return [get_origin(kind) or kind for kind in kinds]


def _has_type(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and isinstance(value, bool) == (kind is bool)  # true is a whole number in Python


def lists_as_tuples(value: Any) -> Any:
    """JSON has no tuples."""
    return tuple(map(lists_as_tuples, value)) if isinstance(value, list) else value


def settings_by_name(plan: dict[str, Any]) -> dict[str, Any]:
    """The settings of a plan by dotted name, as they read back from a file."""
    return flatten(json.loads(json.dumps(plan)))
