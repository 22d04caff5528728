"""The methods by name. A new method needs a file in this folder, a line below and one in `descriptions.py`, and a test
against a reference."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ...arguments import check_arguments
from ...data.background import Background
from ...descriptions import METHODS as ABOUT
from ...errors import InputError
from ...registry import Registry, register
from .additive import Additive
from .additive_transmil import AdditiveTransMIL
from .adjusted_mean import AdjustedMean
from .attention import Attention
from .base import BagOutput, Head
from .count import Count
from .feature_pool import FeaturePool
from .mean import Naive, Proportion, Supervised
from .output_mean import OutputMean
from .vote import Vote
from .voting_head import VotingHead

__all__ = [
    "AUTO",
    "DEFAULT_METHOD",
    "METHODS",
    "BagOutput",
    "Head",
    "Method",
    "check_options",
    "create_head",
    "sees_instance_labels",
]


@dataclass(frozen=True)
class Method:
    """A head and its default settings, under a name."""

    name: str
    head: type[Head]
    about: str = ""
    settings: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not (isinstance(self.head, type) and issubclass(self.head, Head)):
            found = self.head.__name__ if isinstance(self.head, type) else f"an object ({type(self.head).__name__})"
            raise InputError(f"method {self.name}: its head is {found}: give a subclass of majority.Head")


def _counting(name: str, t1: float, t2: float | None) -> Method:
    return Method(name, Count, ABOUT[name], {"instance_temperature": t1, "bag_temperature": t2})


METHODS: Registry[Method] = Registry("method", Method, reserved=("all", "auto"))
for method in (
    _counting("count", 0.1, 0.1),
    _counting("soft-count", 1.0, 0.1),
    _counting("count-only", 0.1, None),
    _counting("log-mean", 1.0, None),
    Method("adjusted-mean", AdjustedMean, ABOUT["adjusted-mean"]),
    Method("output-mean", OutputMean, ABOUT["output-mean"]),
    Method("feature-mean", FeaturePool, ABOUT["feature-mean"], {"pool": "mean"}),
    Method("feature-max", FeaturePool, ABOUT["feature-max"], {"pool": "max"}),
    Method("feature-pnorm", FeaturePool, ABOUT["feature-pnorm"], {"pool": "pnorm"}),
    Method("feature-lse", FeaturePool, ABOUT["feature-lse"], {"pool": "lse"}),
    Method("attention", Attention, ABOUT["attention"]),
    Method("additive", Additive, ABOUT["additive"]),
    Method("additive-transmil", AdditiveTransMIL, ABOUT["additive-transmil"]),
    Method("vote", Vote, ABOUT["vote"]),
    Method("naive", Naive, ABOUT["naive"]),
    Method("proportion", Proportion, ABOUT["proportion"]),
    Method("supervised", Supervised, ABOUT["supervised"]),
):
    register(method)

DEFAULT_METHOD = "adjusted-mean"
AUTO = "auto"  # no method is named: the recipe weighs several by the bags, or takes the default


def sees_instance_labels(name: str) -> bool:
    """Whether the method is a reference method."""
    return name != AUTO and METHODS.find(name).head.sees_instance_labels


def check_options(name: str, options: dict[str, Any]) -> None:
    if name == AUTO:
        if options:
            first = next(iter(options))
            cure = "name the method that it belongs to (--method, method=)"
            raise InputError(f"method {AUTO} has no option {first!r}: {cure}")
        return
    known = list(inspect.signature(METHODS.find(name).head.__init__).parameters)[3:]
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise InputError(f"method {name} has no option {unknown[0]!r}: it takes {', '.join(known) or 'none'}")


@contextmanager
def wrap_option_errors(name: str, options: dict[str, Any]) -> Iterator[None]:
    """Report any error as caused by the values of the options, if there are any: the head may not check them."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if not options:
            raise
        given = ", ".join(f"{key}={value!r}" for key, value in options.items())
        cure = "check each value (`majority --debug` shows the traceback)"
        reason = " ".join(f"{type(error).__name__}: {error}".split())  # PyTorch lists what it takes on many lines
        raise InputError(f"method {name} cannot take {given} ({reason}): {cure}") from error


@check_arguments
def create_head(
    name: str, in_features: int, n_classes: int, background: Background | None = None, **options: Any
) -> Head:
    """Create the head of a method. With a background, that class is left out of its counts.

    >>> create_head("count", 8, 3, of="counts").of
    'counts'
    """
    method = METHODS.find(name)
    if in_features < 1 or n_classes < 1:
        raise InputError(f"a head of {in_features} features and {n_classes} classes: give at least 1 of each")
    if background is not None and not issubclass(method.head, VotingHead):
        voting = ", ".join(other.name for other in METHODS.values() if issubclass(other.head, VotingHead))
        raise InputError(f"method {name} cannot leave a background out of its counts: use one of {voting}")
    check_options(name, options)
    with wrap_option_errors(name, options):
        try:
            head = method.head(in_features, n_classes, **method.settings | options)
        except ValueError as error:
            raise InputError(f"method {name}: {error}") from None
    if isinstance(head, VotingHead):
        head.background = background
    return head
