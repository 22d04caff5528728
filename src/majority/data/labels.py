"""BagLabels: what the labels of bags say about their most common classes.

A label names the winner, the most common class of the bag. It may also say less or more:

- nothing (an empty cell),
- one of several classes, `a|b`: a tie, or a doubtful report,
- the winner and the runner-up, the second most common class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import InputError, count_noun
from .instance_labels import UNKNOWN, find_known
from .validation import Column, as_array, as_label_column, as_sortable, encode_labels

SEPARATOR = "|"  # between the names of classes one of which has won
WINNER, SEVERAL, RUNNER_UP = "winner", "several", "runner-up"  # what a label may name
KINDS = (WINNER, SEVERAL, RUNNER_UP)


@dataclass(frozen=True, eq=False)
class BagLabels:
    """The labels of b bags, as class numbers. The arrays that few bags need are None if no bag needs them.

    >>> labels = BagLabels(np.array([0, 2, -1]), seconds=np.array([1, -1, -1]))
    >>> labels.known.tolist(), labels.kinds
    ([True, True, False], {'runner-up'})
    """

    winners: np.ndarray  # (b,) UNKNOWN if the label does not name exactly one class
    seconds: np.ndarray | None = None  # (b,) the runner-up; UNKNOWN if it is not given
    allowed: np.ndarray | None = None  # (b, C) the classes that may have won; all False in a bag without a label

    @classmethod
    def of(cls, winners: np.ndarray, seconds: np.ndarray | None, allowed: np.ndarray | None) -> BagLabels:
        """The labels, without the arrays that no bag needs."""
        if seconds is not None and (seconds == UNKNOWN).all():
            seconds = None
        if allowed is not None and not allowed[winners == UNKNOWN].any():
            allowed = None
        return cls(winners, seconds, allowed)

    def __len__(self) -> int:
        return len(self.winners)

    def take(self, bags: np.ndarray) -> BagLabels:
        """The labels of these bags (numbers or a mask)."""
        winners = self.winners[bags]
        seconds = None if self.seconds is None else self.seconds[bags]
        allowed = None if self.allowed is None else self.allowed[bags]
        return BagLabels.of(winners, seconds, allowed)

    def masked(self, bags: np.ndarray) -> BagLabels:
        """The same labels, but only of the bags of this mask; the others have none."""
        seconds = None if self.seconds is None else np.where(bags, self.seconds, UNKNOWN)
        allowed = None if self.allowed is None else self.allowed & bags[:, None]
        return BagLabels.of(np.where(bags, self.winners, UNKNOWN), seconds, allowed)

    @property
    def named(self) -> np.ndarray:  # (b,) whether the label names exactly one class
        return self.winners != UNKNOWN

    @property
    def known(self) -> np.ndarray:  # (b,) whether the bag has a label
        return self.named if self.allowed is None else np.asarray(self.allowed.any(axis=1))

    @property
    def kinds(self) -> set[str]:
        """What labels say other than the winner alone: SEVERAL, RUNNER_UP."""
        found = {SEVERAL: self.allowed, RUNNER_UP: self.seconds}
        return {kind for kind, array in found.items() if array is not None}

    def first_of(self, kind: str) -> int:
        """The number of the first bag whose label is of this kind."""
        which = self.seconds != UNKNOWN if kind == RUNNER_UP else self.known & ~self.named
        return int(np.argmax(which))

    def counts(self, n_classes: int) -> np.ndarray:  # (C,) bags whose label names this class alone
        return np.bincount(self.winners[self.named], minlength=n_classes)

    def second_counts(self, n_classes: int) -> np.ndarray:  # (C,) bags whose label names this class as the runner-up
        seconds = np.array([], np.int64) if self.seconds is None else self.seconds[self.seconds != UNKNOWN]
        return np.bincount(seconds, minlength=n_classes)

    def strata(self, n_classes: int) -> np.ndarray:  # (b,)
        """One number per bag, by which bags are divided evenly: the first class that its label allows, or C."""
        first = self.winners if self.allowed is None else np.where(self.known, self.allowed.argmax(axis=1), UNKNOWN)
        return np.where(first == UNKNOWN, n_classes, first)

    def allowed_classes(self, n_classes: int) -> np.ndarray:  # (b, C)
        """Whether each label allows each class to have won; False in bags without a label."""
        return np.eye(n_classes + 1, n_classes, dtype=bool)[self.winners] if self.allowed is None else self.allowed

    def allows(self, predicted: np.ndarray) -> np.ndarray:  # (b,) -> (b,)
        """Whether each label allows the predicted winner; False in bags without a label."""
        if self.allowed is None:
            right: np.ndarray = self.winners == predicted
            return right
        return self.allowed[np.arange(len(self)), predicted]

    def most_frequent(self) -> float:
        """The share of labelled bags that is right if one class is always predicted."""
        known = self.known
        counts = np.bincount(self.winners[known]) if self.allowed is None else self.allowed[known].sum(axis=0)
        return float(counts.max() / known.sum())

    def log_probs(self, log_probs: np.ndarray) -> np.ndarray:  # (b, C) -> (b,)
        """The log-probability of what each label says of the winner; every bag needs a label."""
        if self.allowed is None:
            picked: np.ndarray = log_probs[np.arange(len(self)), self.winners]
            return picked
        return np.logaddexp.reduce(np.where(self.allowed, log_probs, -np.inf), axis=1)

    def without_class(self, number: int) -> BagLabels:
        """The same labels if this class, which no label names, is left out."""
        seconds = None if self.seconds is None else self.seconds - (self.seconds > number)
        allowed = None if self.allowed is None else np.delete(self.allowed, number, axis=1)
        return BagLabels(self.winners - (self.winners > number), seconds, allowed)

    def with_classes(self, n_classes: int) -> BagLabels:
        """The same labels if there are more classes, after those that there are."""
        if self.allowed is None:
            return self
        more = n_classes - self.allowed.shape[1]
        return BagLabels(self.winners, self.seconds, np.pad(self.allowed, ((0, 0), (0, more))))

    def with_allowed(self, allowed: np.ndarray, n_classes: int) -> BagLabels:
        """The same labels with an array (b, C) of the classes that may have won, which was read from a file."""
        shape = (len(self), n_classes)
        named = np.eye(n_classes + 1, n_classes, dtype=bool)[self.winners][self.named]  # one class per row
        if allowed.shape != shape or allowed.dtype != bool or not np.array_equal(allowed[self.named], named):
            raise InputError(f"allowed has shape {allowed.shape} and dtype {allowed.dtype}, or contradicts the labels")
        return BagLabels(self.winners, self.seconds, allowed)

    def with_others(self, bags: np.ndarray, others: BagLabels, n_classes: int) -> BagLabels:
        """The same labels, with those of the bags with these numbers replaced by others, which name no runner-up."""
        winners, seconds = self.winners.copy(), None if self.seconds is None else self.seconds.copy()
        winners[bags] = others.winners
        if seconds is not None:
            seconds[bags] = UNKNOWN
        allowed = None
        if self.allowed is not None or others.allowed is not None:
            allowed = self.allowed_classes(n_classes).copy()
            allowed[bags] = others.allowed_classes(n_classes)
        return BagLabels.of(winners, seconds, allowed)

    def names_class(self, number: int) -> np.ndarray:  # (b,) whether the label names this class
        named = self.ranks(number)
        if self.allowed is not None and number < self.allowed.shape[1]:
            named = named | self.allowed[:, number]
        return named

    def ranks(self, number: int) -> np.ndarray:  # (b,)
        """Whether this class is the winner by the label, or the runner-up."""
        first: np.ndarray = self.winners == number
        return first if self.seconds is None else first | (self.seconds == number)

    def named_classes(self) -> set[int]:
        """The classes that are the only winner, or the runner-up, of some bag."""
        named = self.winners if self.seconds is None else np.concatenate([self.winners, self.seconds])
        return set(named.tolist()) - {UNKNOWN}

    def classes_only_together(self) -> list[int]:
        """The classes that are only named together with others."""
        mentioned = set() if self.allowed is None else set(np.flatnonzero(self.allowed.any(axis=0)).tolist())
        return sorted(mentioned - self.named_classes())

    def texts(self, classes: Sequence[str]) -> list[str]:
        """The labels as they are written in a table."""
        names = np.array([*classes, ""], object)  # the last one stands for UNKNOWN
        texts: list[str] = names[self.winners].tolist()
        for bag in np.flatnonzero(self.known & ~self.named).tolist():
            assert self.allowed is not None
            texts[bag] = SEPARATOR.join(names[:-1][self.allowed[bag, : len(classes)]])
        return texts

    def second_texts(self, classes: Sequence[str]) -> list[str]:
        """The runners-up as they are written in a table."""
        names = np.array([*classes, ""], object)
        return [""] * len(self) if self.seconds is None else list(names[self.seconds].tolist())

    def describe_other_kinds(self) -> str:
        """How many bags have a label that says less or more than the winner; empty if none has, or no bag has a label.

        >>> BagLabels(np.array([0, 2, -1]), seconds=np.array([1, -1, -1])).describe_other_kinds()
        '1 bag with a runner-up, 1 bag without a label'
        """
        if not self.known.any():
            return ""
        ranked = 0 if self.seconds is None else int((self.seconds != UNKNOWN).sum())
        return describe_kinds(int((self.known & ~self.named).sum()), ranked, int((~self.known).sum()))

    def arrays(self) -> list[np.ndarray]:
        """All that there are, the winners first."""
        return [array for array in (self.winners, self.seconds, self.allowed) if array is not None]


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


def label_column(labels: Column, numbers: bool = False) -> np.ndarray:
    """Text or integers; a missing label is an empty text or, if integers are class `numbers`, UNKNOWN."""
    column = as_array(labels)
    if column.dtype.kind in "iu" or (column.dtype.kind == "f" and not np.isnan(column).any()):
        return as_label_column(column)  # which refuses floating-point numbers
    known, values = find_known(labels)
    if numbers and (values.dtype.kind in "iu" or not known.any()):
        return np.where(known, values, UNKNOWN).astype(np.int64)
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
    names = None if classes is None else tuple(str(name) for name in classes)
    if names is not None:
        column = label_column(labels, numbers=True)
        seconds = None if second_labels is None else label_column(second_labels, numbers=True)
        if column.dtype.kind in "iu" and (seconds is None or seconds.dtype.kind in "iu"):
            return _encode_class_numbers(column, seconds, names, sizes, describe), names
    column, seconds = label_column(labels), None if second_labels is None else label_column(second_labels)
    return _encode_names(column, seconds, names, sizes, describe)


def _encode_class_numbers(
    column: np.ndarray,
    seconds: np.ndarray | None,
    classes: tuple[str, ...],
    sizes: np.ndarray,
    describe: Callable[[int], str],
) -> BagLabels:
    winners = _encode_numbers(column, classes, describe)
    if seconds is None:
        return BagLabels(winners)
    encoded = BagLabels(winners, _encode_numbers(seconds, classes, describe))
    _check_texts(encoded.texts(classes), encoded.second_texts(classes), classes, sizes, describe)
    return BagLabels.of(winners, encoded.seconds, None)


def _encode_names(
    column: np.ndarray,
    seconds: np.ndarray | None,
    classes: tuple[str, ...] | None,
    sizes: np.ndarray,
    describe: Callable[[int], str],
) -> tuple[BagLabels, tuple[str, ...]]:
    """The labels that are names, and the classes: if none are given, those that the labels name."""
    texts = [str(label) for label in column.tolist()]
    second_texts = [""] * len(texts) if seconds is None else [str(label) for label in seconds.tolist()]
    has_several = any(SEPARATOR in text for text in texts)
    if has_several or seconds is not None:
        _check_texts(texts, second_texts, classes or (), sizes, describe)
    if classes is None:
        classes = _name_classes([column] if seconds is None else [column, seconds])
    if has_several and any(SEPARATOR in text for text in {*texts} - {*classes}):
        winners, allowed = _encode_several(texts, classes, describe)
    else:
        winners, allowed = _encode_known(texts, classes, describe), None
    runners_up = None if seconds is None else _encode_known(second_texts, classes, describe)
    return BagLabels.of(winners, runners_up, allowed), classes


def _encode_several(
    texts: list[str], classes: tuple[str, ...], describe: Callable[[int], str]
) -> tuple[np.ndarray, np.ndarray]:  # (b,) and (b, C)
    """The winners and the allowed classes of labels some of which name several classes."""
    parts = [split_label(text, classes) for text in texts]
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    codes = _encode_texts([name for part in parts for name in part], classes, lambda i: describe(int(owner[i])))
    allowed = np.zeros((len(texts), len(classes)), bool)
    allowed[owner, codes] = True
    return np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), UNKNOWN), allowed


def _encode_numbers(column: np.ndarray, classes: tuple[str, ...], describe: Callable[[int], str]) -> np.ndarray:
    known = np.flatnonzero(column != UNKNOWN)
    codes = np.full(len(column), UNKNOWN, np.int64)
    codes[known] = encode_labels(column[known], classes, lambda i: describe(int(known[i])))
    return codes


def _encode_known(texts: list[str], classes: tuple[str, ...], describe: Callable[[int], str]) -> np.ndarray:
    places = np.flatnonzero([text != "" for text in texts])
    codes = np.full(len(texts), UNKNOWN, np.int64)
    codes[places] = _encode_texts([texts[i] for i in places.tolist()], classes, lambda i: describe(int(places[i])))
    return codes


def _encode_texts(texts: list[str], classes: tuple[str, ...], describe: Callable[[int], str]) -> np.ndarray:
    return encode_labels(np.array(texts, object), classes, describe)


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


def _name_classes(columns: list[np.ndarray]) -> tuple[str, ...]:
    """The names in sorted order: by value if all are integers."""
    values = [value for column in columns for value in column.tolist() if value != ""]
    if any(isinstance(value, str) and SEPARATOR in value for value in values):
        values = [part for value in values for part in split_label(str(value))]
    if not values:
        raise InputError("no bag has a label: give at least one")
    return tuple(str(name) for name in np.unique(as_sortable(np.array(values, object))))
