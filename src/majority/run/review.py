"""Which labels the counts of a classifier contradict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ..errors import count_noun
from ..io import Source
from ..io.predictions import Columns, write_rows
from ..log import Log, no_log
from ..predict.evaluate import predict
from ..predict.label_likelihood import label_evidence
from ..predict.predictions import Predictions
from .folder import finished_file, fold_folders
from .record import RESULT
from .reopen import open_bags, reopen

LEAST_WRONG = 0.01  # share of wrong labels that is assumed if no label seems to be wrong
WRONG_SHARES = np.geomspace(LEAST_WRONG, 0.45, 24)  # that are tried
COLUMNS = (
    *("part", "bag", "bag_label", "suggested_label", "p(wrong)", "p(suggested)"),
    *("instances", "n(label)", "n(suggested)"),
)
WEIGHTS = ("weight(label)", "weight(suggested)")


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
    parts: dict[str, Predictions]
    suspicions: list[Suspicion]  # the most certain first
    labelled: int  # bags
    wrong_share: float  # of the labels, estimated
    source: Source | None  # of the bags, if it is known


def review_run(
    folder: Path,
    source: str | None = None,
    *,
    columns: dict[str, Any] | None = None,
    device: str = "auto",
    log: Log = no_log,
) -> Review:
    """Compare the labels of all bags of a run with the counts of its classifier; or those of another source.

    In the folder of a cross-validation, each bag is judged by the classifier that has not seen it. Otherwise the
    classifier of the run has learned from the labels of its training bags.
    """
    folds = fold_folders(folder) if source is None else []
    for fold in folds or [folder]:
        finished_file(fold, RESULT)
    if source is not None:
        classifier, bags, opened = open_bags(
            folder, source, labels=True, review=True, columns=columns, device=device, log=log
        )
        model, chosen = classifier.model, classifier.device
        return review_labels({part: predict(model, of_part, chosen) for part, of_part in bags.items()}, opened)
    if folds:
        log(f"each bag is classified by the one of {count_noun(len(folds), 'classifier')} that has not seen its label")
    found = {}
    for fold in folds or [folder]:
        classifier, parts, opened = reopen(fold, device=device)
        for part, of_part in parts.present().items():
            if part == "test" or not folds:
                found[fold.name if folds else part] = predict(classifier.model, of_part, classifier.device)
    return review_labels(found, opened)


def review_labels(parts: Mapping[str, Predictions], source: Source | None = None) -> Review:
    """The bags in which another class than the label has the largest count, or whose label is probably wrong.

    How likely each class is to have won follows from the counts; the share of wrong labels is the one that makes all
    labels together most likely: see `LabelEvidence`. If many bags are wrong in the same way, or the classifier has
    memorised wrong labels, that share is too low. So every contradiction is listed, the most certain ones first.
    """
    known = {part: np.flatnonzero(of.bags.bag_labels.known) for part, of in parts.items()}
    places = [(part, bag) for part, numbers in known.items() for bag in numbers.tolist()]
    if not places:
        return Review(dict(parts), [], 0, 0.0, source)
    labelled = [(of.votes[known[part]], of.bags.subset(known[part])) for part, of in parts.items() if len(known[part])]
    evidence = label_evidence(labelled)
    shares, voting = evidence.shares, labelled[0][1].voting_classes
    wrong = float(WRONG_SHARES[int(np.argmax(evidence.mean_log_likelihoods(WRONG_SHARES.tolist())))])
    judged = evidence.judge(wrong)
    outvoted = shares.max(axis=1) > np.max(shares, axis=1, where=evidence.labels.allowed, initial=0)
    suggested = np.where(judged.contradicted, judged.winner, shares.argmax(axis=1))
    table = pd.DataFrame(places, columns=["part", "bag"]).assign(
        suggested=voting[suggested],
        probability=judged.wrong,
        is_probable=judged.contradicted,
        suggested_probability=judged.probabilities[np.arange(len(places)), suggested],
    )
    listed = table[judged.contradicted | outvoted].sort_values("probability", ascending=False, kind="stable")
    suspicions = [Suspicion(*row) for row in listed.itertuples(index=False, name=None)]
    return Review(dict(parts), suspicions, len(places), 0.0 if wrong == WRONG_SHARES[0] else wrong, source)


# ---------------------------------------------------------------------- files


def write_review(path: Path, review: Review) -> None:
    write_rows(path, [suspicious_bags(review)])


def suspicious_bags(review: Review) -> Columns:
    """One row per bag whose label the counts contradict, the most certain first; `corrected_label` is empty."""
    labels = {part: of.bags.bag_labels.texts(of.classes) for part, of in review.parts.items()}
    rows = []
    for part, bag, suggested, wrong, _, of_suggested in review.suspicions:
        of, classes = review.parts[part], [review.parts[part].framed[bag], suggested]
        about = (part, of.bag_name(bag), labels[part][bag], of.classes[suggested], wrong, of_suggested)
        rows.append((*about, of.bags.sizes[bag], *of.counts[bag, classes], *of.votes[bag, classes], ""))
    table = pd.DataFrame(rows, columns=[*COLUMNS, *WEIGHTS, "corrected_label"])
    if all(of.bags.weights is None for of in review.parts.values()):
        table = table.drop(columns=[*WEIGHTS])
    return {str(name): table[name].to_numpy() for name in table}
