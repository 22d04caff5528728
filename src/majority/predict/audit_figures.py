"""What the answers of an audit say: estimates with 95 % intervals, and how far annotators agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from ..errors import count_noun

OTHER = "another class"  # than those of the classifier
TARGET = 0.03  # half-width of an interval that is thought good enough


@dataclass(frozen=True)
class Estimate:
    """
    >>> print(Estimate(0.9, 0.85, 0.934, 50))
    0.900 (0.850 to 0.934)
    """

    value: float
    low: float
    high: float
    labels: int  # answers that it is from

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class ClassFigures:
    name: str
    share: Estimate  # of all instances
    naive_share: float  # that the classifier counts
    recall: Estimate | None  # None: no answer says anything
    precision: Estimate | None


@dataclass(frozen=True)
class Confusion:
    true: str
    predicted: str
    share: Estimate  # of all instances


@dataclass(frozen=True)
class Agreement:
    """Of annotators, on the instances that several of them have labelled."""

    instances: int
    agreed: int  # of these, labelled alike by all
    kappa: float | None  # Cohen's, the mean over pairs of annotators (Light, 1971); None: not defined
    disagreements: dict[str, dict[str, str]]  # the answer of each annotator, by instance

    def __str__(self) -> str:
        kappa = "not defined" if self.kappa is None else f"{self.kappa:.2f}"
        lines = [f"annotators agree on {self.agreed} of {self.instances} instances (Cohen's kappa {kappa})"]
        for id, answers in self.disagreements.items():
            lines.append(f"left out: {id} ({', '.join(f'{who}: {answer}' for who, answer in answers.items())})")
        return "\n".join(lines)


def agreement_of(answers: Mapping[str, Mapping[str, str]]) -> Agreement:
    """Compare answers by annotator and instance.

    >>> print(agreement_of({"anna": {"1": "cat", "2": "dog", "3": "cat"}, "ben": {"1": "cat", "2": "cat"}}))
    annotators agree on 1 of 2 instances (Cohen's kappa 0.00)
    left out: 2 (anna: dog, ben: cat)
    """
    from sklearn.metrics import cohen_kappa_score

    several, differing, kappas = 0, {}, []
    for id in sorted({id for given in answers.values() for id in given}):
        given = {who: of[id] for who, of in answers.items() if id in of}
        several += len(given) > 1
        if len({*given.values()}) > 1:
            differing[id] = given
    for one, other in combinations(answers.values(), 2):
        both = one.keys() & other.keys()
        first, second = [one[id] for id in both], [other[id] for id in both]
        if len({*first, *second}) > 1:
            kappas.append(cohen_kappa_score(first, second))
    kappa = float(np.mean(kappas)) if kappas else None
    return Agreement(several, several - len(differing), kappa, differing)


@dataclass(frozen=True)
class AuditFigures:
    labels: int
    accuracy: Estimate
    overconfidence: Estimate  # mean confidence minus accuracy
    temperature: float
    further_labels: int  # that bring the interval of the accuracy to +-.03
    classes: tuple[ClassFigures, ...]
    other_share: Estimate  # of all other classes
    confusions: tuple[Confusion, ...]  # that occur at least twice among the answers
    cannot_tell: int = 0  # instances that are left out of all figures, as are
    without_answer: int = 0
    agreement: Agreement | None = None  # of several annotators; where they differ, an instance is left out

    def __str__(self) -> str:
        lines = [] if self.agreement is None else [str(self.agreement)]
        lines.append(f"instance accuracy {self.accuracy}, from {count_noun(self.labels, 'answer')}")
        for what, number in {"cannot tell": self.cannot_tell, "without an answer": self.without_answer}.items():
            lines += [f"{what}: {count_noun(number, 'instance')}, left out of all figures"] if number else []
        if self.further_labels:
            lines.append(f"about {self.further_labels:,} more answers bring the interval to +-{TARGET} (--more)")
        lines.append(f"mean confidence minus accuracy {self.overconfidence}")
        lines.append(f"temperature that fits the answers: {self.temperature:.2f} (--calibrate keeps it)")
        for of in self.classes:
            rates = f"recall {of.recall or '-'}, precision {of.precision or '-'}"
            lines.append(f"{of.name}: share {of.share}, {of.naive_share:.3f} by count; {rates}")
        if self.other_share.value > 0:
            lines.append(f"{OTHER}: share {self.other_share}")
        lines += [f"{one.true} taken for {one.predicted}: {one.share} of all instances" for one in self.confusions]
        return "\n".join(lines)
