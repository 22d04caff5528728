"""Plan: the settings of a recipe, as frozen data, and TaskInfo, which they depend on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any, NamedTuple

from annotated_types import Ge, Le

from ..data.bags import Bags
from ..data.labels import WINNER
from ..errors import InputError, closest
from ..fields import check_fields, with_setting
from ..files import flatten
from ..nn.model import TINY_IMAGE
from ..training.settings import Settings

MOST_WRONG = 0.45  # share of wrong labels: with two classes, labels of which half are wrong say nothing
OF_UNKNOWN_IMAGES = ("crop", "resized-crop", "cutout", "noise")  # orientation and colour stay as they are


class TaskInfo(NamedTuple):
    """Everything that settings and stages may depend on."""

    source: str = ""  # the name of a registered source with such images; "" if what they show is not known
    shape: tuple[int, ...] = (32, 32, 3)  # of one instance
    on_gpu: bool = True
    bags: int = 400  # for training
    instances: int = 25_600  # of these bags
    labelled_bags: int | None = None  # those of these bags that have a label; None: all
    label_preserving: tuple[str, ...] | None = None  # augmentations that keep the classes; None: not known
    mixed_views: bool = False  # whether pairs of images may be mixed in pretraining
    every_class_wins: bool = True  # every class but a background is the label of a bag, and one of two
    plain_labels: bool = True  # every label names one class and no runner-up, and there is no background
    finds_share: bool = False  # there is a background class, and its share of the instances is not known
    instance_labels: bool = False  # training learns the labels of some instances
    own_module: bool = False  # the backbone is a module of the user
    losses: tuple[str, ...] = ()  # the methods that are weighed; none if one method is named

    @classmethod
    def of(cls, train: Bags, source: str = "", on_gpu: bool = False, **known: Any) -> TaskInfo:
        """For training on these bags; `known` is what is known of the images of this source."""
        return cls(source, train.store.shape[1:], on_gpu, **known).with_bags(train)

    def with_bags(self, train: Bags) -> TaskInfo:
        counts = train.bag_labels.counts[train.voting_classes]
        return self._replace(
            bags=len(train),
            instances=len(train.index),
            labelled_bags=int(train.bag_labels.known.sum()),
            every_class_wins=bool(counts.min() > 0 and counts.sum() > len(counts)),
            plain_labels=train.background is None and not train.bag_labels.kinds - {WINNER},
            instance_labels=train.training_labels is not None,
        )

    @property
    def vectors(self) -> bool:
        return len(self.shape) == 1

    @property
    def tiny(self) -> bool:  # images for which an mlp is as good as a cnn and far faster
        return not self.vectors and min(self.shape[:2]) <= TINY_IMAGE

    def allowed(self, *augmentations: str) -> tuple[str, ...]:
        """Those of the augmentations that keep the classes of the images.

        >>> TaskInfo().allowed("flip", "crop"), TaskInfo(label_preserving=("flip",)).allowed("flip", "crop")
        (('crop',), ('flip',))
        """
        known = OF_UNKNOWN_IMAGES if self.label_preserving is None else self.label_preserving
        return tuple(name for name in augmentations if name in known)


@dataclass(frozen=True)
class Plan:
    """The settings of a recipe. A run can be repeated from them."""

    recipe: str = ""  # its name, which `Recipe.plan_for` sets
    backbone: str = "auto"
    pixels: str = "data"
    training: Settings = field(default_factory=Settings)  # of the network that is kept
    own: Any = None  # settings that only this recipe has: a frozen dataclass, or None
    assumed_wrong: Annotated[float, Ge(0), Le(MOST_WRONG)] | None = 0.0  # share of wrong labels; None: the bags show it

    def __post_init__(self) -> None:
        check_fields(self)

    def as_dict(self) -> dict[str, Any]:
        """As it is written to config.json: a recipe's own settings are listed under the recipe's name."""
        plan = asdict(self)
        own = plan.pop("own")
        return plan if own is None else plan | {self.recipe: own}

    def with_seed(self, seed: int) -> Plan:
        """This plan with the same seed in every training."""
        plan = replace(self, training=replace(self.training, seed=seed))
        if self.own is None:
            return plan
        settings = {name: value for name, value in vars(self.own).items() if isinstance(value, Settings)}
        return replace(plan, own=replace(self.own, **{name: replace(settings[name], seed=seed) for name in settings}))

    def with_settings(self, settings: dict[str, Any]) -> Plan:
        """This plan with settings replaced by their dotted names, such as {"census.pretrain.epochs": 100}.

        >>> Plan("quick").with_settings({"training.epochs": 3}).training.epochs
        3
        """
        plan = self
        known = [*flatten(self.as_dict())][1:]  # without the recipe
        for name, value in settings.items():
            group, _, rest = name.partition(".")
            if not any(f"{each}.".startswith(f"{name}.") for each in known) or name == self.recipe:
                raise InputError(f"recipe {self.recipe} has no setting {name}: {_suggest(name, known)}")
            plan = with_setting(plan, f"own.{rest}" if group == self.recipe else name, value, name)
        return plan


def _suggest(name: str, known: Sequence[str]) -> str:
    """What may be meant by a setting that does not exist: one whose last part is similar, or all that there are."""
    inside = [each for each in known if each.startswith(f"{name.partition('.')[0]}.")]
    by_end = {each.rpartition(".")[2]: each for each in reversed(inside or known)}
    similar = by_end.get(closest(name.rpartition(".")[2], by_end) or "")
    return f"did you mean {similar}?" if similar else f"it has {', '.join(known)}"


def settings_by_name(plan: dict[str, Any]) -> dict[str, Any]:
    """The settings of a plan by dotted name, as they read back from a file."""
    return flatten(json.loads(json.dumps(plan)))
