"""Plan: what a recipe sets, as frozen data. A run is repeated from the plan that its folder holds."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields, is_dataclass, replace
from math import inf
from typing import NamedTuple

from ..errors import InputError
from ..model import TINY_IMAGE
from ..training.settings import Settings

CHANGEABLE = ("epochs", "patience", "batch_bags", "learning_rate", "max_instances", "compile")  # each by its own option
KINDS = {  # of a setting's value: the types that may replace it, and how they are said
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a name"),
    tuple: ((tuple,), "a list"),
}


class TaskInfo(NamedTuple):
    """All that a plan may depend on: what may be done to a source's images, how large they are, and where."""

    source: str  # its name, or that of one whose images are alike; bags of one's own have none
    shape: tuple[int, ...] = (32, 32, 3)  # of an instance
    on_gpu: bool = True

    @property
    def vectors(self) -> bool:
        return len(self.shape) == 1

    @property
    def tiny(self) -> bool:  # images, where an mlp is as good as a cnn and far faster
        return not self.vectors and min(self.shape[:2]) <= TINY_IMAGE


@dataclass(frozen=True)
class CensusSettings:
    """What the recipe census sets beside the training of its readers and of `last`."""

    start: Settings | None = None  # self-supervised, on the bags' own instances; None: no such stage
    head: Settings | None = None  # then the head alone, on the network as it is
    temperature: float = 0.2  # of the contrastive loss
    momentum: float = 0.99  # of the running mean of weights that readers and last leave
    readers: int = 3
    reader_epochs: int = 40  # as many as `last` has, but no more than these
    sharpness: float = 2.0  # the power that the readers' mean soft_labels are taken to
    mixed: float = 0.5  # up to which part of an instance is another, where soft_labels are learned
    mixed_views: float = 0.0  # the same of the start's first views

    def __post_init__(self):
        allowed = {
            "readers": (self.readers >= 1, "1 or more"),
            "reader_epochs": (self.reader_epochs >= 1, "1 or more"),
            "momentum": (0 <= self.momentum < 1, "0 or more and below 1"),
            "mixed": (0 <= self.mixed <= 1, "between 0 and 1"),
            "mixed_views": (0 <= self.mixed_views <= 1, "between 0 and 1"),
            "temperature": (0 < self.temperature < inf, "a number above 0"),
            "sharpness": (0 < self.sharpness < inf, "a number above 0"),
        }
        for name, (well, said) in allowed.items():
            if not well:
                raise InputError(f"census.{name} is {getattr(self, name)}: it must be {said}")


@dataclass(frozen=True)
class Plan:
    recipe: str
    backbone: str = "auto"
    pixels: str = "data"
    training: Settings = field(default_factory=Settings)  # of the network that is kept, and of those it learns from
    ratios: tuple[float, ...] | None = None  # to choose from: how much a bag leaves out of its count; mpem alone
    census: CensusSettings | None = None  # census alone

    def __post_init__(self):
        if not isinstance(self.backbone, str):
            raise InputError(f"backbone is {self.backbone!r}: give a name, or auto")
        ratios = self.ratios
        if ratios is not None and not (ratios and all(0 < r <= 1 for r in ratios) and len({*ratios}) == len(ratios)):
            shown = ",".join(map(str, ratios))
            raise InputError(f"ratios {shown or '(none)'}: give numbers above 0 and up to 1, each once")

    @property
    def changes_images(self) -> bool:
        stages = [self.training, self.census and self.census.start]
        return any(stage and stage.augment for stage in stages)

    def as_dict(self) -> dict:
        return asdict(self)

    def with_settings(self, settings: dict[str, object]) -> Plan:
        """With some of its settings by dotted name replaced, such as {"census.start.epochs": 100}."""
        plan = self
        for name, value in settings.items():
            plan = _replaced(plan, name.split("."), value, name)
        return plan

    def changed(self, backbone: str | None = None, ratios: tuple[float, ...] | None = None, **training) -> Plan:
        """This plan with what the caller set (None: as planned)."""
        if ratios is not None and self.ratios is None:
            raise InputError(f"recipe {self.recipe} has no ratios, it counts every instance: take --recipe mpem")
        training = {name: value for name, value in training.items() if value is not None}
        of_all = {name: value for name, value in training.items() if name in ("seed", "compile")}
        census = self.census
        for stage in ("start", "head"):
            if census and getattr(census, stage):
                census = replace(census, **{stage: replace(getattr(census, stage), **of_all)})
        return replace(
            self,
            census=census,
            backbone=backbone or self.backbone,
            ratios=self.ratios if ratios is None else ratios,
            training=replace(self.training, **training),
        )


def _replaced(part, path: list[str], value: object, name: str):
    known = [field.name for field in fields(part)] if is_dataclass(part) else []
    first, *rest = path
    if first not in known or first == "recipe":
        above = name.removesuffix(".".join(path)).rstrip(".") or "it"
        said = f"{above} has {', '.join(known)}"
        deeper = [f"{path}.{name}" for path in ("training", "census") if hasattr(getattr(part, path, None), name)]
        said = f"did you mean {deeper[0]}?" if deeper else said
        said = said if known else f"there is no {above} in the plan of this recipe for these instances, on this device"
        raise InputError(f"the plan has no setting {name!r}: {said}")
    before = getattr(part, first)
    if value is None and not rest and isinstance(part, Plan) and is_dataclass(before):
        raise InputError(f"{name}=null: recipe {part.recipe} needs it; leave this out, or change a setting in it")
    if value is not None and not rest and (is_dataclass(before) or first in ("start", "head")):
        raise InputError(f"{name}={value}: it has settings of its own, change one: --set {name}.SETTING=VALUE")
    value = _replaced(before, rest, value, name) if rest else _as_set(value)
    kinds, needed = KINDS.get(type(before), ((type(value),), ""))  # of what is not set yet, the plan itself judges
    if value is not None and type(value) not in kinds:
        raise InputError(f"{name}={value}: {needed} is needed")
    try:
        return replace(part, **{first: value})
    except TypeError as error:
        shown = "null" if value is None else value
        said = f"{needed} is needed" if needed else str(error)
        raise InputError(f"{name}={shown}: {said}") from None


def _as_set(value: object) -> object:
    """JSON has no tuples."""
    return tuple(map(_as_set, value)) if isinstance(value, list) else value


def plan_as_now(plan: dict) -> dict:
    """A run's plan, with what the settings were that there were none of when it was made."""
    return plan | {"census": {"mixed_views": 0.0, **plan["census"]}} if plan.get("census") else plan


def settings_by_name(plan: dict) -> dict:
    """A plan's settings by dotted name, as they read back from a file."""
    return flatten(json.loads(json.dumps(plan_as_now(plan))))


def flatten(content: dict, prefix: str = "") -> dict:
    """Nested settings by dotted name.

    >>> flat({"a": {"b": 1}, "c": None})
    {'a.b': 1, 'c': None}
    """
    named = {}
    for key, value in content.items():
        named |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return named
