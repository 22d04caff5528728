"""Wrong bag labels: a first training shows which labels its counts contradict, a second one learns without them.

Labels are judged by the classes that the classifier of the first training predicts in all training and validation bags.
How large a share of them is wrong is chosen by the likelihood of the labels, which takes into account that labels are
wrong. If none are, which is the usual case, there is no second training. Instance labels are not used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.bags import Bags
from ..errors import count_noun
from ..nn.model import Model
from ..predict.label_likelihood import label_evidence
from .losses import predicted_shares
from .running import ROBUST, Trained, merge, run_stages
from .stages import Run, Stage

SHARES = (0.0, 0.1, 0.2, 0.4)  # of wrong labels that are tried
LEAST_EVIDENCE, LEAST_PER_BAG = 3.0, 0.01  # difference of log-likelihoods from which labels are thought to be wrong
REMAINING = 0.5  # labels that are assumed to be wrong after corrections, per wrong label before them
SURE = 0.8  # probability from which the class that seems to have won becomes the label; below, the bag has none
NAME = "wrong-labels"  # the stage that looks for them


def train_without_wrong_labels(run: Run, stages_for: Callable[[Run], list[Stage]]) -> Trained:
    """Run the stages; if labels seem to be wrong, run them again without these, but for those that need no labels."""
    listed = stages_for(run)
    first = run_stages([*listed, Stage(NAME, inputs=(listed[-1].name,), choose=_find)], run)
    found = first.about["wrong_labels"]
    if not found["corrections"]:
        return first
    run.log("training again without the wrong labels (majority review lists such bags)")
    folder, title = run.folder and run.folder / ROBUST, run.title and f"{run.title}, again"
    again = corrected(replace(run, phase=ROBUST, folder=folder, title=title, shared={}), found)
    given = {stage.name: first.results[stage.name] for stage in first.stages if stage.once}
    second = run_stages(stages_for(again), again, given)
    about = {name: value for name, value in first.results[NAME].about.items() if name != "kept"}
    return replace(second, first=first, about=merge([second.about, about]))


def _find(run: Run) -> dict[str, Any]:
    last = run.stage.inputs[0]
    found = find_wrong_labels(run.network(last), run.train, run.val, run.plan.assumed_wrong, run.device)
    return {"wrong_labels": found, "kept": last, "lines": {"wrong labels": describe_wrong_labels(found)}}


def corrected(run: Run, about: Mapping[str, Any]) -> Run:
    """The run with the corrections that `find_wrong_labels` names, which new heads see. Some wrong labels are not
    found, and some corrections are wrong. Validation bags are numbered after the training bags."""
    if not about.get("corrections"):
        return run

    def relabel(bags: Bags, first: int) -> Bags:
        numbers = {int(bag) - first: label for bag, label in about["corrections"].items()}
        known = {bag: label for bag, label in numbers.items() if 0 <= bag < len(bags)}
        return bags.with_other_labels(known) if known else bags

    train = relabel(run.train, 0)
    val = train if run.val is run.train else relabel(run.val, len(run.train))
    if not val.bag_labels.known.any():  # labels of which some are wrong choose better than none
        val = run.val

    def build(seed: int = 0, method: str | None = None) -> Model:
        model = run.build(seed, method)
        model.see_labels(train.bag_labels)
        return model

    remaining = REMAINING * about["share"]
    return replace(run, train=train, val=val, task=run.task.with_bags(train), build=build, remaining_wrong=remaining)


def find_wrong_labels(
    model: Model, train: Bags, val: Bags, share: float | None = None, device: str = "auto"
) -> dict[str, Any]:
    """What the counts of a model say about the labels: the recipe's entry in result.json.

    `corrections` has the bags whose label is probably wrong, by their number, with validation bags after the training
    bags: the label that they get, or an empty text. The last training bag of a class keeps its label.
    """
    parts = (train,) if val is train else (train, val)
    labelled = [bags.subset(bags.bag_labels.known) for bags in parts if bags.labelled]
    evidence = label_evidence((predicted_shares(model, bags, device, hard=True), bags) for bags in labelled)
    numbers = np.flatnonzero(np.concatenate([bags.bag_labels.known for bags in parts]))
    means = evidence.mean_log_likelihoods(SHARES)
    tried = {one: mean * len(numbers) for one, mean in zip(SHARES, means, strict=True)}
    if share is None:
        share = max(tried, key=lambda one: tried[one])
        least = max(LEAST_EVIDENCE, LEAST_PER_BAG * len(numbers))
        share = share if tried[share] - tried[0.0] >= least else 0.0
    corrections: dict[str, str] = {}
    if share:
        judged = evidence.judge(share)
        contradicted = judged.contradicted.copy()
        training = evidence.labels.take(np.flatnonzero(numbers < len(train)))
        for number in training.named_classes():
            bags = np.flatnonzero(training.ranks(number))
            if judged.contradicted[bags].all():  # no training bag would be left: the least doubtful one stays
                contradicted[bags[judged.wrong[bags].argmin()]] = False
        names = [train.classes[number] for number in train.voting_classes.tolist()]
        for i in np.flatnonzero(contradicted).tolist():
            winner = int(judged.winner[i])
            corrections[str(numbers[i])] = names[winner] if judged.probabilities[i, winner] >= SURE else ""
    log_likelihoods = {f"{one:g}": value for one, value in tried.items()}
    return {"share": share, "log_likelihoods": log_likelihoods, "bags": len(numbers), "corrections": corrections}


def describe_wrong_labels(found: Mapping[str, Any]) -> str:
    """For the report page.

    >>> describe_wrong_labels({"share": 0.2, "bags": 250, "corrections": {"3": "oak", "7": ""}})
    'about 20 % of 250: the last training had other labels of 1 bag, and left out those of 1'
    >>> describe_wrong_labels({"share": 0.0, "bags": 250, "corrections": {}})
    'none of 250 are contradicted'
    """
    if not found["corrections"]:
        return f"none of {found['bags']:,} are contradicted"
    left_out = sum(label == "" for label in found["corrections"].values())
    other = count_noun(len(found["corrections"]) - left_out, "bag")
    share = f"about {100 * found['share']:.0f} % of {found['bags']:,}"
    return f"{share}: the last training had other labels of {other}, and left out those of {left_out:,}"
