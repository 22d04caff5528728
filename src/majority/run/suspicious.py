"""Which labels the counts of a classifier contradict, and which instances it is least sure of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..io.predictions import instance_ids, write_rows
from ..predict.label_likelihood import label_evidence
from .classified_bags import ClassifiedBags

LEAST_WRONG = 0.01  # share of wrong labels that is assumed if no label seems to be wrong
WRONG_SHARES = np.geomspace(LEAST_WRONG, 0.45, 24)  # that are tried
MOST_INSTANCES = 1_000  # that are listed


class Suspicion(NamedTuple):
    """A bag whose label the counts contradict."""

    part: str
    bag: int  # its number in the part
    suggested: int  # class
    probability: float  # that the label is wrong
    is_probable: bool  # whether it is probably wrong
    suggested_probability: float  # that the suggested class has won


@dataclass(frozen=True)
class Review:
    parts: dict[str, ClassifiedBags]
    suspicions: list[Suspicion]  # the most certain first
    labelled: int  # bags
    wrong_share: float  # of the labels, estimated

    def __len__(self) -> int:
        return len(self.suspicions)


def review_labels(parts: Mapping[str, ClassifiedBags]) -> Review:
    """The bags in which another class than the label has the largest count, or whose label is probably wrong.

    How likely each class is to have won follows from the counts; the share of wrong labels is the one that makes all
    labels together most likely: see `LabelEvidence`. If many bags are wrong in the same way, or the classifier has
    memorised wrong labels, that share is too low. So every contradiction is listed, the most certain ones first.
    """
    known = {part: np.flatnonzero(of.bags.bag_labels.known) for part, of in parts.items()}
    places = [(part, bag) for part, numbers in known.items() for bag in numbers.tolist()]
    if not places:
        return Review(dict(parts), [], 0, 0.0)
    labelled = [(of.votes[known[part]], of.bags.subset(known[part])) for part, of in parts.items() if len(known[part])]
    evidence = label_evidence(labelled)
    shares = evidence.shares
    wrong = float(WRONG_SHARES[int(np.argmax(evidence.mean_log_likelihoods(WRONG_SHARES.tolist())))])
    judged = evidence.judge(wrong)
    most = shares.argmax(axis=1)
    outvoted = shares.max(axis=1) > np.max(shares, axis=1, where=evidence.labels.allowed, initial=0)
    suggested = np.where(judged.contradicted, judged.winner, most)
    doubtful = np.flatnonzero(judged.contradicted | outvoted)
    voting = labelled[0][1].voting_classes
    suspicions = [
        Suspicion(
            part=places[i][0],
            bag=places[i][1],
            suggested=int(voting[suggested[i]]),
            probability=float(judged.wrong[i]),
            is_probable=bool(judged.contradicted[i]),
            suggested_probability=float(judged.probabilities[i, suggested[i]]),
        )
        for i in doubtful[np.argsort(-judged.wrong[doubtful], kind="stable")].tolist()
    ]
    return Review(dict(parts), suspicions, len(places), 0.0 if wrong == WRONG_SHARES[0] else wrong)


def write_suspicious_bags(path: Path, review: Review) -> None:
    """One row per bag whose label the counts contradict, the most certain first; `corrected_label` is empty."""
    rows = [(review.parts[one.part], one) for one in review.suspicions]
    texts = {part: of.bags.bag_labels.texts(of.classes) for part, of in review.parts.items()}
    columns = {
        "part": [one.part for _, one in rows],
        "bag": [of.bag_name(one.bag) for of, one in rows],
        "bag_label": [texts[one.part][one.bag] for _, one in rows],
        "suggested_label": [of.classes[one.suggested] for of, one in rows],
        "p(wrong)": [one.probability for _, one in rows],
        "p(suggested)": [one.suggested_probability for _, one in rows],
        "instances": [int(of.bags.sizes[one.bag]) for of, one in rows],
        "n(label)": [int(of.counts[one.bag, of.framed[one.bag]]) for of, one in rows],
        "n(suggested)": [int(of.counts[one.bag, one.suggested]) for of, one in rows],
        "corrected_label": ["" for _ in rows],
    }
    numbers = {"p(wrong)": float, "p(suggested)": float, "instances": int, "n(label)": int, "n(suggested)": int}
    if any(of.bags.weights is not None for of in review.parts.values()):
        sums = {
            "weight(label)": [float(of.votes[one.bag, of.framed[one.bag]]) for of, one in rows],
            "weight(suggested)": [float(of.votes[one.bag, one.suggested]) for of, one in rows],
        }
        columns, numbers = columns | sums, numbers | dict.fromkeys(sums, float)
        columns["corrected_label"] = columns.pop("corrected_label")  # the last one
    write_rows(path, [{name: np.array(values, numbers.get(name, object)) for name, values in columns.items()}])


def write_doubtful_instances(path: Path, review: Review) -> int:
    """One row per instance that is nearest to the border between classes: those with the lowest probability of their
    predicted class first, 1,000 at most. Returns their number."""
    confidence = np.concatenate([of.confidence for of in review.parts.values()])
    chosen = np.argsort(confidence, kind="stable")[:MOST_INSTANCES]
    ends = np.cumsum([len(of.confidence) for of in review.parts.values()])
    owner = np.searchsorted(ends, chosen, side="right")
    parts = [*review.parts.items()]
    rows = []
    for number, position in zip(owner.tolist(), chosen.tolist(), strict=True):
        part, of = parts[number]
        i = position - (int(ends[number]) - len(of.confidence))
        kind, (name,) = instance_ids(of.bags, np.array([i]), of.source)
        rows.append((part, of.bag_name(of.bags.bag_of(i)), name, of.classes[of.guess[i]], float(of.confidence[i])))
    names = ("part", "bag", kind, "class", "probability")
    columns = [*zip(*rows, strict=True)]
    dtypes = (object, object, object, object, float)
    cells = (np.array(values, dtype) for values, dtype in zip(columns, dtypes, strict=True))
    return write_rows(path, [dict(zip(names, cells, strict=True))])
