"""How far annotators agree on the instances that several of them have labelled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np


@dataclass(frozen=True)
class Agreement:
    instances: int  # that two or more annotators have labelled
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
    ids = sorted({id for of in answers.values() for id in of})
    given = [{who: of[id] for who, of in answers.items() if id in of} for id in ids]
    several = {id: one for id, one in zip(ids, given, strict=True) if len(one) > 1}
    differing = {id: one for id, one in several.items() if len(set(one.values())) > 1}
    kappas = [_kappa(one, other) for one, other in combinations(answers.values(), 2)]
    defined = [kappa for kappa in kappas if kappa is not None]
    kappa = float(np.mean(defined)) if defined else None
    return Agreement(len(several), len(several) - len(differing), kappa, differing)


def _kappa(one: Mapping[str, str], other: Mapping[str, str]) -> float | None:
    from sklearn.metrics import cohen_kappa_score

    both = sorted(one.keys() & other.keys())
    first, second = [one[id] for id in both], [other[id] for id in both]
    return float(cohen_kappa_score(first, second)) if len({*first, *second}) > 1 else None
