"""BagLabels: what the labels of bags say about their most common classes.

A label names the winner, the most common class of the bag. It may also say less or more:

- nothing (an empty cell),
- one of several classes, `a|b`: a tie, or a doubtful report,
- the winner and the runner-up, the second most common class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError, count_noun
from .columns import Column
from .instance_labels import UNKNOWN, encode_labels, read_labels

SEPARATOR = "|"  # between the names of classes one of which has won
WINNER, SEVERAL, RUNNER_UP = "winner", "several", "runner-up"  # what a label may name
KINDS = (WINNER, SEVERAL, RUNNER_UP)


class BagLabels:
    """The labels of b bags: which classes each allows to have won, and which it names as the runner-up.

    >>> labels = BagLabels.of([0, 2, -1], 3, seconds=[1, -1, -1])
    >>> labels.known.tolist(), labels.kinds, labels.runner_up[0].tolist()
    ([True, True, False], {'runner-up'}, [False, True, False])
    """

    def __init__(self, allowed: np.ndarray, seconds: ArrayLike | None = None):
        self.allowed = allowed  # (b, C) the classes that may have won: one, several, or none in a bag without a label
        self.seconds = np.full(len(allowed), UNKNOWN) if seconds is None else np.asarray(seconds)  # (b,) runners-up

    @classmethod
    def of(cls, winners: ArrayLike, n_classes: int, seconds: ArrayLike | None = None) -> BagLabels:
        """(b,) winners and (b,) runners-up, UNKNOWN where there is none."""
        return cls(_masks(np.asarray(winners), n_classes), seconds)

    def __len__(self) -> int:
        return len(self.allowed)

    # ------------------------------------------------------------------ other labels

    def take(self, bags: np.ndarray) -> BagLabels:
        """The labels of these bags (numbers or a mask)."""
        return BagLabels(self.allowed[bags], self.seconds[bags])

    def masked(self, bags: np.ndarray) -> BagLabels:
        """The same labels, but only of the bags of this mask; the others have none."""
        return BagLabels(self.allowed & bags[:, None], np.where(bags, self.seconds, UNKNOWN))

    def without_classes(self, numbers: Sequence[int]) -> BagLabels:
        """The same labels without these classes: a bag whose label names one has none, and no runner-up."""
        left = self.masked(~np.asarray(self.allowed[:, numbers].any(axis=1)))
        kept = np.delete(np.arange(self.allowed.shape[1]), numbers)
        after = np.full(self.allowed.shape[1] + 1, UNKNOWN)  # the last one stands for UNKNOWN
        after[kept] = np.arange(len(kept))
        return BagLabels(left.allowed[:, kept], after[left.seconds])

    def with_classes(self, n_classes: int) -> BagLabels:
        """The same labels if there are more classes, after those that there are."""
        return BagLabels(np.pad(self.allowed, ((0, 0), (0, n_classes - self.allowed.shape[1]))), self.seconds)

    def with_others(self, bags: np.ndarray, others: BagLabels) -> BagLabels:
        """The same labels, with those of the bags with these numbers replaced by others."""
        allowed, seconds = self.allowed.copy(), self.seconds.copy()
        allowed[bags], seconds[bags] = others.allowed, others.seconds
        return BagLabels(allowed, seconds)

    # ------------------------------------------------------------------ what they say of each bag

    @cached_property
    def winners(self) -> np.ndarray:  # (b,) UNKNOWN if the label does not name exactly one class
        return np.where(self.allowed.sum(axis=1) == 1, self.allowed.argmax(axis=1), UNKNOWN)

    @cached_property
    def runner_up(self) -> np.ndarray | None:  # (b, C) at most one class per bag; None: no label names a runner-up
        ranked = (self.seconds != UNKNOWN).any()
        return _masks(self.seconds, self.allowed.shape[1]) if ranked else None

    @property
    def named(self) -> np.ndarray:  # (b,) whether the label names exactly one class
        return self.winners != UNKNOWN

    @property
    def known(self) -> np.ndarray:  # (b,) whether the bag has a label
        return np.asarray(self.allowed.any(axis=1))

    @property
    def several(self) -> np.ndarray:  # (b,) whether the label names several classes
        return self.known & ~self.named

    @property
    def strata(self) -> np.ndarray:  # (b,)
        """One number per bag, by which bags are divided evenly: the first class that its label allows, or C."""
        return np.where(self.known, self.allowed.argmax(axis=1), self.allowed.shape[1])

    def allows(self, predicted: np.ndarray) -> np.ndarray:  # (b,) -> (b,)
        """Whether each label allows the predicted winner; False in bags without a label."""
        return np.asarray(self.allowed[np.arange(len(self)), predicted])

    def names_class(self, number: int) -> np.ndarray:  # (b,) whether the label names this class
        return np.asarray(self.allowed[:, number : number + 1].any(axis=1) | (self.seconds == number))

    def ranks(self, number: int) -> np.ndarray:  # (b,)
        """Whether this class is the only winner by the label, or the runner-up."""
        return np.asarray((self.winners == number) | (self.seconds == number))

    def log_probs(self, log_probs: np.ndarray) -> np.ndarray:  # (b, C) -> (b,)
        """The log-probability of what each label says of the winner; every bag needs a label."""
        return np.asarray(np.logaddexp.reduce(np.where(self.allowed, log_probs, -np.inf), axis=1))

    def texts(self, classes: Sequence[str]) -> list[str]:
        """The labels as they are written in a table."""
        return [
            SEPARATOR.join(classes[number] for number in np.flatnonzero(allowed).tolist()) for allowed in self.allowed
        ]

    def second_texts(self, classes: Sequence[str]) -> list[str]:
        """The runners-up as they are written in a table."""
        return ["" if number == UNKNOWN else classes[number] for number in self.seconds.tolist()]

    # ------------------------------------------------------------------ what they say together

    @property
    def kinds(self) -> set[str]:
        """What labels say other than the winner alone: SEVERAL, RUNNER_UP."""
        found = {SEVERAL: self.several.any(), RUNNER_UP: self.runner_up is not None}
        return {kind for kind, is_found in found.items() if is_found}

    def first_of(self, kind: str) -> int:
        """The number of the first bag whose label is of this kind."""
        return int(np.argmax(self.seconds != UNKNOWN if kind == RUNNER_UP else self.several))

    @property
    def counts(self) -> np.ndarray:  # (C,) bags whose label names this class alone
        return np.asarray(self.allowed[self.named].sum(axis=0))

    @property
    def second_counts(self) -> np.ndarray:  # (C,) bags whose label names this class as the runner-up
        return np.bincount(self.seconds[self.seconds != UNKNOWN], minlength=self.allowed.shape[1])

    def most_frequent(self) -> float:
        """The share of labelled bags that is right if one class is always predicted."""
        known = self.known
        return float(self.allowed[known].sum(axis=0).max() / known.sum())

    def named_classes(self) -> set[int]:
        """The classes that are the only winner, or the runner-up, of some bag."""
        return {*self.winners.tolist(), *self.seconds.tolist()} - {UNKNOWN}

    def describe_other_kinds(self) -> str:
        """How many bags have a label that says less or more than the winner; empty if none has, or no bag has a label.

        >>> BagLabels.of([0, 2, -1], 3, seconds=[1, -1, -1]).describe_other_kinds()
        '1 bag with a runner-up, 1 bag without a label'
        """
        found = {f"with one of several labels (a{SEPARATOR}b)": self.several, "with a runner-up": self.seconds >= 0}
        counts = {what: int(marked.sum()) for what, marked in (found | {"without a label": ~self.known}).items()}
        shown = [f"{count_noun(count, 'bag')} {what}" for what, count in counts.items() if count]
        return ", ".join(shown) if self.known.any() else ""

    def arrays(self) -> list[np.ndarray]:
        """All that there are."""
        return [self.allowed] if self.runner_up is None else [self.allowed, self.runner_up]


def _masks(numbers: np.ndarray, n_classes: int) -> np.ndarray:  # (b,) -> (b, C)
    return np.eye(n_classes + 1, n_classes, dtype=bool)[numbers]  # the last row stands for UNKNOWN


def join_labels(labels: Sequence[BagLabels]) -> BagLabels:
    """The labels of several bags, one after the other."""
    return BagLabels(
        np.concatenate([some.allowed for some in labels]), np.concatenate([some.seconds for some in labels])
    )


def refuse_background(labels: BagLabels, number: int, name: str, describe: Callable[[int], str]) -> None:
    """No label may name the background, which does not vote and cannot win."""
    wrong = labels.names_class(number)
    if wrong.any():
        what = f"{describe(int(np.argmax(wrong)))} has the label {name}, the background, as {wrong.sum()} bags do"
        cure = "label them with the most common class of their other instances, or leave out bags that have none"
        raise InputError(f"{what}: {cure}")


# ---------------------------------------------------------------------- labels as they are written


def split_label(text: str, classes: Iterable[str] = ()) -> tuple[str, ...]:
    """The classes that a label names: one, or several with | between them. A class may itself be called so.

    >>> split_label("oak"), split_label("oak | pine"), split_label("oak|pine", ["oak|pine"]), split_label("")
    (('oak',), ('oak', 'pine'), ('oak|pine',), ())
    """
    if SEPARATOR not in text or text in classes:
        return (text,) if text else ()
    return tuple(part.strip() for part in text.split(SEPARATOR))


def encode_bag_labels(
    labels: Column, second_labels: Column | None, classes: Iterable[str] | None, describe: Callable[[int], str]
) -> tuple[BagLabels, tuple[str, ...]]:
    """Return the labels as checked class numbers, and the classes.

    Integers are class numbers if classes are given; then -1 is a bag without a label, too. Otherwise they are names.

    >>> labels, classes = encode_bag_labels(["b", "", "a|b"], None, None, str)
    >>> classes, labels.winners.tolist(), labels.allowed.tolist()
    (('a', 'b'), [1, -1, -1], [[False, True], [False, False], [True, True]])
    """
    columns = [read_labels(column) for column in (labels, second_labels) if column is not None]
    numbered = all(values.dtype != object or not known.any() for known, values in columns)
    if classes is None:
        found = [value for known, values in columns for value in values[known].tolist()]
        if not found:
            raise InputError("no bag has a label: give at least one")
        classes = sorted(set(found if numbered else [part for text in found for part in split_label(str(text))]))
        numbered = False
    names = tuple(map(str, classes))
    allowed, *seconds = (_named_by(*column, names, numbered, describe) for column in columns)
    if not seconds:
        return BagLabels(allowed), names
    second = seconds[0]
    one_of_each = (allowed.sum(axis=1) == 1) & (second.sum(axis=1) == 1) & ~(allowed & second).any(axis=1)
    wrong = second.any(axis=1) & ~one_of_each
    if wrong.any():
        bag = int(np.argmax(wrong))
        label, runner_up = (BagLabels(mask[[bag]]).texts(names)[0] for mask in (allowed, second))
        raise InputError(
            f"{describe(bag)}: its label is {label or 'missing'} and its runner-up {runner_up}: "
            "name the second most common class of a bag with one winner, or none"
        )
    return BagLabels(allowed, BagLabels(second).winners), names


def _named_by(
    known: np.ndarray, values: np.ndarray, classes: tuple[str, ...], numbered: bool, describe: Callable[[int], str]
) -> np.ndarray:  # (b, C)
    """Which classes each label names: its number or, of a text, one or several names."""
    bags = np.flatnonzero(known & (values != UNKNOWN) if numbered else known)
    labels, first, which = np.unique(values[bags], return_index=True, return_inverse=True)  # few, of many bags
    parts = [(label,) if numbered else split_label(str(label), classes) for label in labels.tolist()]
    owner = [i for i, part in enumerate(parts) for _ in part]
    for i, part in enumerate(parts):
        if "" in part or len({*part}) < len(part):
            what = f"{describe(int(bags[first[i]]))}: its label is {labels[i]}"
            raise InputError(f"{what}: write each class once, with {SEPARATOR} between them")
    flat = np.array([name for part in parts for name in part], int if numbered else object)
    named = np.zeros((len(parts), len(classes)), bool)
    named[owner, encode_labels(flat, classes, lambda i: describe(int(bags[first[owner[i]]])))] = True
    allowed = np.zeros((len(known), len(classes)), bool)
    allowed[bags] = named[which]
    return allowed


def check_not_only_together(labels: BagLabels, classes: Sequence[str], describe: Callable[[int], str]) -> None:
    """Each class must be the only label, or the runner-up, of a bag: else nothing tells it from the others."""
    for number in sorted({*np.flatnonzero(labels.allowed.any(axis=0)).tolist()} - labels.named_classes()):
        bag, name = int(np.argmax(labels.names_class(number))), classes[number]
        what = f"{describe(bag)} has label {labels.texts(classes)[bag]}, and class {name} is only named"
        raise InputError(f"{what} together with others: label a training bag with it alone, or leave it out")
