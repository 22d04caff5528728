"""BagLabels: what the labels of bags say about their most common classes.

A label names the winner, the most common class of the bag. It may also say less or more:

- nothing (an empty cell),
- one of several classes, `a|b`: a tie, or a doubtful report,
- the winner and the runner-up, the second most common class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError, count_noun
from .instance_labels import UNKNOWN, find_known
from .validation import Column, as_sortable, encode_labels

SEPARATOR = "|"  # between the names of classes one of which has won
WINNER, SEVERAL, RUNNER_UP = "winner", "several", "runner-up"  # what a label may name
KINDS = (WINNER, SEVERAL, RUNNER_UP)


@dataclass(frozen=True, eq=False)
class BagLabels:
    """The labels of b bags: which classes each allows to have won, and which it names as the runner-up.

    >>> labels = BagLabels.of([0, 2, -1], 3, seconds=[1, -1, -1])
    >>> labels.known.tolist(), labels.kinds, labels.runner_up[0].tolist()
    ([True, True, False], {'runner-up'}, [False, True, False])
    """

    allowed: np.ndarray  # (b, C) the classes that may have won: one, several, or none in a bag without a label
    runner_up: np.ndarray | None = None  # (b, C) at most one class per bag; None: no label names a runner-up

    @classmethod
    def of(cls, winners: ArrayLike, n_classes: int, seconds: ArrayLike | None = None) -> BagLabels:
        """(b,) winners and (b,) runners-up, UNKNOWN where there is none."""
        masks = np.eye(n_classes + 1, n_classes, dtype=bool)  # the last row stands for UNKNOWN
        return cls(masks[np.asarray(winners)], None if seconds is None else masks[np.asarray(seconds)])._reduced()

    def _reduced(self) -> BagLabels:
        """The same labels; without the runners-up if no label names one."""
        empty = self.runner_up is not None and not self.runner_up.any()
        return BagLabels(self.allowed) if empty else self

    def _each(self, change: Callable[[np.ndarray], np.ndarray]) -> BagLabels:
        return BagLabels(change(self.allowed), None if self.runner_up is None else change(self.runner_up))._reduced()

    @classmethod
    def from_file(cls, allowed: np.ndarray, runner_up: np.ndarray | None, shape: tuple[int, int]) -> BagLabels:
        """The masks as they were read: a label with a runner-up names one winner, another class."""
        for mask in (allowed, *(() if runner_up is None else (runner_up,))):
            if mask.shape != shape or mask.dtype != bool:
                raise InputError(
                    f"a mask of labels has shape {mask.shape} and dtype {mask.dtype}, not {shape} and bool"
                )
        labels = cls(allowed, runner_up)
        if runner_up is not None:
            ranked = runner_up.any(axis=1)
            if (runner_up & allowed).any() or runner_up.sum(axis=1).max() > 1 or not labels.named[ranked].all():
                raise InputError("a runner-up contradicts its label")
        return labels._reduced()

    def __len__(self) -> int:
        return len(self.allowed)

    def take(self, bags: np.ndarray) -> BagLabels:
        """The labels of these bags (numbers or a mask)."""
        return self._each(lambda mask: mask[bags])

    def masked(self, bags: np.ndarray) -> BagLabels:
        """The same labels, but only of the bags of this mask; the others have none."""
        return self._each(lambda mask: mask & bags[:, None])

    def without_class(self, number: int) -> BagLabels:
        """The same labels if this class, which no label names, is left out."""
        return self._each(lambda mask: np.delete(mask, number, axis=1))

    def with_classes(self, n_classes: int) -> BagLabels:
        """The same labels if there are more classes, after those that there are."""
        return self._each(lambda mask: np.pad(mask, ((0, 0), (0, n_classes - mask.shape[1]))))

    def with_others(self, bags: np.ndarray, others: BagLabels) -> BagLabels:
        """The same labels, with those of the bags with these numbers replaced by others, which name no runner-up."""
        allowed, runner_up = self.allowed.copy(), None if self.runner_up is None else self.runner_up.copy()
        allowed[bags] = others.allowed
        if runner_up is not None:
            runner_up[bags] = False
        return BagLabels(allowed, runner_up)._reduced()

    @cached_property
    def winners(self) -> np.ndarray:  # (b,) UNKNOWN if the label does not name exactly one class
        return np.where(self.allowed.sum(axis=1) == 1, self.allowed.argmax(axis=1), UNKNOWN)

    @cached_property
    def seconds(self) -> np.ndarray:  # (b,) the runner-up; UNKNOWN if it is not given
        if self.runner_up is None:
            return np.full(len(self), UNKNOWN)
        return np.where(self.runner_up.any(axis=1), self.runner_up.argmax(axis=1), UNKNOWN)

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
        return np.zeros(self.allowed.shape[1], np.int64) if self.runner_up is None else self.runner_up.sum(axis=0)

    @property
    def strata(self) -> np.ndarray:  # (b,)
        """One number per bag, by which bags are divided evenly: the first class that its label allows, or C."""
        return np.where(self.known, self.allowed.argmax(axis=1), self.allowed.shape[1])

    def allows(self, predicted: np.ndarray) -> np.ndarray:  # (b,) -> (b,)
        """Whether each label allows the predicted winner; False in bags without a label."""
        return np.asarray(self.allowed[np.arange(len(self)), predicted])

    def most_frequent(self) -> float:
        """The share of labelled bags that is right if one class is always predicted."""
        known = self.known
        return float(self.allowed[known].sum(axis=0).max() / known.sum())

    def log_probs(self, log_probs: np.ndarray) -> np.ndarray:  # (b, C) -> (b,)
        """The log-probability of what each label says of the winner; every bag needs a label."""
        return np.asarray(np.logaddexp.reduce(np.where(self.allowed, log_probs, -np.inf), axis=1))

    def names_class(self, number: int) -> np.ndarray:  # (b,) whether the label names this class
        if number >= self.allowed.shape[1]:
            return np.zeros(len(self), bool)
        return np.asarray(self.allowed[:, number] | (self.seconds == number))

    def ranks(self, number: int) -> np.ndarray:  # (b,)
        """Whether this class is the only winner by the label, or the runner-up."""
        return np.asarray((self.winners == number) | (self.seconds == number))

    def named_classes(self) -> set[int]:
        """The classes that are the only winner, or the runner-up, of some bag."""
        return {*self.winners.tolist(), *self.seconds.tolist()} - {UNKNOWN}

    def classes_only_together(self) -> list[int]:
        """The classes that are only named together with others."""
        return sorted({*np.flatnonzero(self.allowed.any(axis=0)).tolist()} - self.named_classes())

    def texts(self, classes: Sequence[str]) -> list[str]:
        """The labels as they are written in a table."""
        texts = _names_of(self.winners, classes)
        for bag in np.flatnonzero(self.several).tolist():
            texts[bag] = SEPARATOR.join(classes[number] for number in np.flatnonzero(self.allowed[bag]).tolist())
        return texts

    def second_texts(self, classes: Sequence[str]) -> list[str]:
        """The runners-up as they are written in a table."""
        return _names_of(self.seconds, classes)

    def describe_other_kinds(self) -> str:
        """How many bags have a label that says less or more than the winner; empty if none has, or no bag has a label.

        >>> BagLabels.of([0, 2, -1], 3, seconds=[1, -1, -1]).describe_other_kinds()
        '1 bag with a runner-up, 1 bag without a label'
        """
        if not self.known.any():
            return ""
        ranked = int((self.seconds != UNKNOWN).sum())
        return describe_kinds(int(self.several.sum()), ranked, int((~self.known).sum()))

    def arrays(self) -> list[np.ndarray]:
        """All that there are."""
        return [self.allowed] if self.runner_up is None else [self.allowed, self.runner_up]


def join_labels(labels: Sequence[BagLabels]) -> BagLabels:
    """The labels of several bags, one after the other."""
    none = [np.zeros_like(some.allowed) if some.runner_up is None else some.runner_up for some in labels]
    return BagLabels(np.concatenate([some.allowed for some in labels]), np.concatenate(none))._reduced()


def _names_of(numbers: np.ndarray, classes: Sequence[str]) -> list[str]:
    names: list[str] = np.array([*classes, ""], object)[numbers].tolist()  # the last one stands for UNKNOWN
    return names


def describe_kinds(several: int, ranked: int, without: int) -> str:
    """Numbers of bags with such labels in words; those of 0 are left out."""
    counts = {f"with one of several labels (a{SEPARATOR}b)": several, "with a runner-up": ranked}
    counts["without a label"] = without
    return ", ".join(f"{count_noun(count, 'bag')} {what}" for what, count in counts.items() if count)


def split_label(text: str, classes: Iterable[str] = ()) -> tuple[str, ...]:
    """The classes that a label names: one, or several with | between them. A class may itself be called so.

    >>> split_label("oak"), split_label("oak | pine"), split_label("oak|pine", ["oak|pine"]), split_label("")
    (('oak',), ('oak', 'pine'), ('oak|pine',), ())
    """
    if SEPARATOR not in text or text in classes:
        return (text,) if text else ()
    return tuple(part.strip() for part in text.split(SEPARATOR))


def find_wrong_label(text: str, second: str, size: int, classes: Iterable[str] = ()) -> tuple[str, str] | None:
    """What is impossible about the label of a bag of this size and its runner-up, and the cure; None if nothing is.

    >>> find_wrong_label("oak", "oak", 20)
    ('the runner-up is the winner (oak)', 'name the second most common class, or none')
    """
    names = split_label(text, classes)
    if "" in names or len(set(names)) < len(names):
        what = "has an empty name" if "" in names else "names a class twice"
        return f"label {text} {what}", f"write each class once, with {SEPARATOR} between them"
    if not second:
        return None
    if not names:
        return f"it has a runner-up ({second}) but no winner", "name the most common class too"
    if len(names) > 1:
        return f"it has several labels ({text}) and a runner-up ({second})", "name one winner, or no runner-up"
    if second == text:
        return f"the runner-up is the winner ({text})", "name the second most common class, or none"
    if size < 2:
        return f"it has one instance and two labels ({text}, {second})", "name no runner-up"
    return None


def text_or_numbers(known: np.ndarray, values: np.ndarray) -> np.ndarray:
    """What `find_known` gives as one column, in which a missing label is an empty text."""
    return values if known.all() else np.where(known, values.astype(object), "")


def encode_bag_labels(
    labels: Column,
    second_labels: Column | None,
    classes: Iterable[str] | None,
    sizes: np.ndarray,
    describe: Callable[[int], str],
) -> tuple[BagLabels, tuple[str, ...]]:
    """Return the labels as checked class numbers, and the classes.

    Integers are class numbers if classes are given; then -1 is a bag without a label, too. Otherwise they are names.

    >>> labels, classes = encode_bag_labels(["b", "", "a|b"], None, None, np.array([3, 3, 3]), str)
    >>> classes, labels.winners.tolist(), labels.allowed.tolist()
    (('a', 'b'), [1, -1, -1], [[False, True], [False, False], [True, True]])
    """
    found = [find_known(column) for column in (labels, second_labels) if column is not None]
    names = None if classes is None else tuple(str(name) for name in classes)
    if names is not None and all(values.dtype.kind in "iu" or not known.any() for known, values in found):
        encoded = BagLabels.of(_encode_numbers(*found[0], names, describe), len(names))
        if second_labels is not None:
            encoded = BagLabels.of(encoded.winners, len(names), _encode_numbers(*found[1], names, describe))
            _check_texts(encoded.texts(names), encoded.second_texts(names), names, sizes, describe)
        return encoded, names
    return _encode_names([text_or_numbers(*column) for column in found], names, sizes, describe)


def _encode_numbers(
    known: np.ndarray, values: np.ndarray, classes: tuple[str, ...], describe: Callable[[int], str]
) -> np.ndarray:  # (b,) class numbers, UNKNOWN if missing
    codes = np.where(known, values, UNKNOWN).astype(np.int64)
    named = np.flatnonzero(codes != UNKNOWN)
    encode_labels(codes[named], classes, lambda i: describe(int(named[i])))  # refuses others
    return codes


def _encode_names(
    columns: Sequence[np.ndarray], classes: tuple[str, ...] | None, sizes: np.ndarray, describe: Callable[[int], str]
) -> tuple[BagLabels, tuple[str, ...]]:
    """Labels that are names, and the runners-up if there is a second column; the classes are those that are named,
    unless they are given."""
    texts, *seconds = ([str(label) for label in column.tolist()] for column in columns)
    if seconds or any(SEPARATOR in text for text in texts):
        _check_texts(texts, seconds[0] if seconds else [""] * len(texts), classes or (), sizes, describe)
    if classes is None:
        classes = _name_classes(columns)
    allowed = _encode_parts([split_label(text, classes) for text in texts], classes, describe)
    runners_up = [_encode_parts([(text,) if text else () for text in of], classes, describe) for of in seconds]
    return BagLabels(allowed, *runners_up)._reduced(), classes


def _encode_parts(
    parts: Sequence[Sequence[str]], classes: tuple[str, ...], describe: Callable[[int], str]
) -> np.ndarray:  # (b, C) the classes that each label names
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    names = np.array([name for part in parts for name in part], object)
    allowed = np.zeros((len(parts), len(classes)), bool)
    allowed[owner, encode_labels(names, classes, lambda i: describe(int(owner[i])))] = True
    return allowed


def _check_texts(
    texts: list[str],
    second_texts: list[str],
    classes: tuple[str, ...],
    sizes: np.ndarray,
    describe: Callable[[int], str],
) -> None:
    for bag, (text, second, size) in enumerate(zip(texts, second_texts, sizes.tolist(), strict=True)):
        wrong = find_wrong_label(text, second, size, classes)
        if wrong is not None:
            raise InputError(f"{describe(bag)}: {wrong[0]}: {wrong[1]}")


def _name_classes(columns: Sequence[np.ndarray]) -> tuple[str, ...]:
    """The names in sorted order: by value if all are integers."""
    values = [value for column in columns for value in column.tolist() if value != ""]
    if any(isinstance(value, str) and SEPARATOR in value for value in values):
        values = [part for value in values for part in split_label(str(value))]
    if not values:
        raise InputError("no bag has a label: give at least one")
    return tuple(str(name) for name in np.unique(as_sortable(np.array(values, object))))
