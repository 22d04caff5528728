"""The numbers printed in the paper, by our names of methods and sets."""

from __future__ import annotations

import csv
from functools import cache
from importlib.resources import files

SETS = ("cifar10", "svhn", "pathmnist", "octmnist")
STAND_INS = {"svhn28": "svhn"}  # other versions of a printed set: compared with its printed figures
NOT_STATED = "not stated"  # the scenario of a row that is commented out in the paper's LaTeX

COMPARED = (
    "Below each value are the paper's value and our difference from it. An average states how many of the paper's four "
    "data sets it covers. It is compared with the mean of the paper's values of these sets. "
    "Consistency rates are printed only as means of all four sets, so only an average of four sets has a difference."
)
PROTOCOL = "Printed figures are means of five folds with one seed: ResNet-18, Adam 3e-4, 1,500 epochs."
MISPRINT = (
    "The printed average of Output+Mean, Various, is 0.422, but the mean of its four printed figures is 0.528. "
    "Printed averages in these tables are means of the printed figures of the same sets."
)
NOT_PRINTED = (
    "'Ours w/o Max class' (count-only) was not printed: it is commented out in the paper's LaTeX, for a scenario that "
    "is not stated, with {}. log-mean has no printed row."
)
STAND_IN_NOTES = {
    "svhn28": "svhn28 (SVHN at 28x28, 50,000 images) is not the printed SVHN. Where SVHN itself is missing, svhn28 is "
    "compared with its printed figures and takes its place in the averages."
}
OTHER_OCT = "{} is not OCTMNIST: it has no printed figures and is in no average."


def printed_set(source: str) -> str | None:
    """The printed set whose figures a source is compared with.

    >>> printed_set("svhn28"), printed_set("oct_kermany_7801")
    ('svhn', None)
    """
    return source if source in SETS else STAND_INS.get(source)


def printed_accuracy(method: str, scenario: str | None, source: str) -> float | None:
    """Instance accuracy (Tables 1 and 2). The source `average` gives the printed average.

    >>> printed_accuracy("count", "large", "cifar10"), printed_accuracy("log-mean", "large", "cifar10")
    (0.614, None)
    """
    return _accuracies().get((method, scenario, source if source == "average" else printed_set(source)))


def printed_consistency(method: str, scenario: str | None) -> float | None:
    """Consistency rate, the mean over the four sets (Table 3).

    >>> printed_consistency("count", "small")
    0.963
    """
    return _rates().get((method, scenario))


def printed_notes(sources: list[str]) -> list[str]:
    """What readers need to know about the printed figures of these sources."""
    found = []
    if any(map(printed_set, sources)):
        unstated = ", ".join(f"{_accuracies()['count-only', NOT_STATED, name]:.3f} ({name})" for name in SETS)
        found = [COMPARED, PROTOCOL, MISPRINT, NOT_PRINTED.format(unstated)]
    found += [STAND_IN_NOTES[name] for name in sources if name in STAND_INS]
    return found + [OTHER_OCT.format(name) for name in sources if name.startswith("oct") and name not in SETS]


@cache
def _accuracies() -> dict[tuple[str, str | None, str | None], float]:
    rows = _rows("instance_accuracy.csv")
    return {(row["method"], row["scenario"], row["source"]): float(row["accuracy"]) for row in rows}


@cache
def _rates() -> dict[tuple[str, str | None], float]:
    return {(row["method"], row["scenario"]): float(row["rate"]) for row in _rows("consistency_rate.csv")}


def _rows(name: str) -> list[dict[str, str]]:
    with (files(__package__) / "paper" / name).open(encoding="utf-8") as file:
        return list(csv.DictReader(file))
