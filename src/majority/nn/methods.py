"""The methods by name. A new method needs the file of a loss or a head, one line below, and a test against a reference.

This module does not import torch, so that `majority list` starts fast: a method of ours is found when it is used.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..registry import Registry, register

if TYPE_CHECKING:
    from ..data.background import Background
    from ..losses import BagLoss
    from .heads import Head

DEFAULT_METHOD = "adjusted-mean"
AUTO = "auto"  # no method is named: the recipe weighs several by the bags, or takes the default


@dataclass(frozen=True)
class Method:
    """A loss or a head under a name. Its options are what its constructor takes by position.

    Args:
        name: By which commands and functions know it.
        module: The class of a loss or of a head.
        about: One line for `majority list`.
        settings: Options with another default.

    >>> from majority.losses import LogMeanLoss
    >>> Method("mine", LogMeanLoss, "a method of my own").kind.__name__
    'LogMeanLoss'
    """

    name: str
    module: type[BagLoss] | type[Head] | str  # the class; for ours also "module:class" below `majority`
    about: str = ""
    settings: dict[str, Any] = field(default_factory=dict)  # options with another default

    @property
    def kind(self) -> type[BagLoss] | type[Head]:
        """The class."""
        from ..losses import BagLoss
        from .heads import Head

        found: Any = self.module
        if isinstance(found, str):
            place, _, name = found.partition(":")
            found = getattr(import_module(f"majority.{place}"), name)
        if not (isinstance(found, type) and issubclass(found, BagLoss | Head)):
            raise InputError(f"method {self.name} is {found!r}: give a subclass of BagLoss or Head")
        return found

    @property
    def needs_bag(self) -> bool:  # the class of an instance depends on the rest of its bag
        return bool(getattr(self.kind, "needs_bag", False))

    @property
    def votes(self) -> bool:  # it can leave a background out of its counts
        from ..losses import VotingLoss

        return issubclass(self.kind, VotingLoss)

    @property
    def options(self) -> list[str]:
        given_by_us = ("self", "in_features", "n_classes")
        parameters = inspect.signature(self.kind.__init__).parameters.values()
        by_position = [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
        return [name for name in by_position if name not in given_by_us]


METHODS: Registry[Method] = Registry("method", Method, reserved=("all", AUTO))
for method in (
    Method(
        "count",
        "losses.counting:CountLoss",
        "the counting network: nearly one-hot instances, counted, nearly one-hot winner",
    ),
    Method(
        "soft-count",
        "losses.counting:SoftCountLoss",
        "the paper's 'w/o Count': confidences summed, nearly one-hot winner",
    ),
    Method(
        "count-only",
        "losses.counting:CountOnlyLoss",
        "the paper's 'w/o Max class': counted; the proportions are the prediction",
    ),
    Method("log-mean", "losses.counting:LogMeanLoss", "log of the mean confidence: a mixture likelihood"),
    Method(
        "adjusted-mean", "losses.adjusted:AdjustedMeanLoss", "log-mean, corrected by how often each class is a label"
    ),
    Method(
        "output-mean",
        "losses.mean:OutputMeanLoss",
        "the paper's Output+Mean: softmax of the mean confidence, then softmax again",
    ),
    Method("feature-mean", "nn.heads:FeaturePool", "one classifier on the mean feature and on each"),
    Method("feature-max", "nn.heads:FeaturePool", "one classifier on the maximal feature and on each", {"pool": "max"}),
    Method(
        "feature-pnorm", "nn.heads:FeaturePool", "one classifier on the features' 4-norm and on each", {"pool": "pnorm"}
    ),
    Method(
        "feature-lse",
        "nn.heads:FeaturePool",
        "one classifier on log-sum-exp of the features and on each",
        {"pool": "lse"},
    ),
    Method("attention", "nn.heads:Attention", "one classifier on the attention-weighted feature and on each"),
    Method(
        "additive",
        "nn.heads:Additive",
        "sum of the attended instances' logits; classifies instances only within their bag",
    ),
    Method(
        "additive-transmil",
        "nn.heads:AdditiveTransMIL",
        "a transformer over the bag, logits summed; classifies instances only within their bag",
    ),
    Method("vote", "losses.vote:VoteLoss", "instances cast random votes by their confidences; the label must win"),
    Method("naive", "losses.mean:NaiveLoss", "every instance gets the label of its bag"),
    Method("proportion", "losses.mean:ProportionLoss", "reference method: sees the true proportions of each bag"),
    Method("supervised", "losses.mean:SupervisedLoss", "reference method: sees the true label of every instance"),
):
    register(method)


def sees_instance_labels(name: str) -> bool:
    """Whether the method is a reference method."""
    return name != AUTO and METHODS.find(name).kind.sees_instance_labels


def check_options(name: str, options: dict[str, Any]) -> None:
    known = [] if name == AUTO else METHODS.find(name, also=(AUTO,)).options
    unknown = sorted(set(options) - set(known))
    if unknown:
        cure = "name the method that has it" if name == AUTO else f"it takes {', '.join(known) or 'none'}"
        raise InputError(f"method {name} has no option {unknown[0]!r}: {cure}")


@contextmanager
def wrap_option_errors(name: str, options: dict[str, Any]) -> Iterator[None]:
    """Report any error as caused by the values of the options, if there are any: the class may not check them."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if not options:
            raise
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        reason = " ".join(f"{type(error).__name__}: {error}".split())  # PyTorch lists what it takes on many lines
        raise InputError(f"method {name} cannot take {given} ({reason}): check each value") from error


def create_head(
    name: str, in_features: int, n_classes: int, background: Background | None = None, **options: Any
) -> Head:
    """Create the head of a method. With a background, that class is left out of its counts.

    >>> create_head("count", 8, 3, of="counts").loss.of
    'counts'
    """
    from .heads import Head, InstanceHead

    method = METHODS.find(name)
    if background is not None and not method.votes:
        voting = ", ".join(other.name for other in METHODS.values() if other.votes)
        raise InputError(f"method {name} cannot leave a background out of its counts: use one of {voting}")
    check_options(name, options)
    kind, given = method.kind, method.settings | options
    with wrap_option_errors(name, options):
        if issubclass(kind, Head):
            return kind(in_features, n_classes, **given)
        common = {"background": background} if method.votes else {}
        return InstanceHead(in_features, n_classes, kind.for_classes(n_classes, **common, **given))
