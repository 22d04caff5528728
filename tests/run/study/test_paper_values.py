"""The printed numbers against a second transcription of the paper's tables."""

import csv
from importlib.resources import files
from statistics import fmean

import pytest

from majority.nn.methods import METHODS
from majority.run.study.paper_values import SETS, printed_accuracy, printed_consistency, printed_notes, printed_set

LARGE = """
output-mean .532 .808 .732 .675 .687
feature-mean .460 .667 .616 .656 .600
feature-max .340 .276 .512 .370 .375
feature-pnorm .402 .399 .568 .490 .465
feature-lse .341 .229 .518 .346 .359
attention .406 .500 .591 .561 .515
additive .406 .524 .599 .411 .485
additive-transmil .390 .478 .520 .536 .481
soft-count .589 .852 .782 .719 .736
count .614 .847 .805 .699 .741
"""
PRINTED = [line.split()[0] for line in LARGE.split("\n") if line]


def test_the_large_columns_are_as_in_the_paper():
    for line in LARGE.strip().split("\n"):
        method, *values = line.split()
        assert [printed_accuracy(method, "large", name) for name in (*SETS, "average")] == [float(v) for v in values]


def test_every_printed_average_except_the_misprint_is_the_mean_of_its_row():
    wrong = []
    for method in PRINTED:
        for scenario in ("small", "various", "large"):
            mean = fmean(printed_accuracy(method, scenario, name) for name in SETS)
            if abs(mean - printed_accuracy(method, scenario, "average")) > 0.0011:
                wrong.append((method, scenario, round(mean, 3), printed_accuracy(method, scenario, "average")))
    assert wrong == [("output-mean", "various", 0.528, 0.422)]
    assert any("0.422" in note and "0.528" in note for note in printed_notes(["cifar10"]))


def test_consistency_rates():
    rates = [printed_consistency(method, "small") for method in PRINTED]
    assert rates == [0.957, 0.690, 0.523, 0.458, 0.290, 0.831, 0.526, 0.494, 0.914, 0.963]
    assert printed_consistency("count", "large") == 1.0
    assert printed_consistency("log-mean", "large") is None


def test_figures_that_were_not_printed_belong_to_no_scenario():
    assert all(printed_accuracy("count-only", s, name) is None for s in ("small", "various", "large") for name in SETS)
    assert printed_accuracy("count-only", "not stated", "pathmnist") == 0.646
    assert any(
        "scenario that is not stated" in note and "0.646 (pathmnist)" in note for note in printed_notes(["cifar10"])
    )


def test_a_stand_in_is_named_and_another_oct_set_has_no_printed_figure():
    assert printed_accuracy("count", "small", "svhn28") == printed_accuracy("count", "small", "svhn") == 0.479
    assert printed_set("oct_kermany_7801") is None
    assert printed_accuracy("count", "small", "oct_kermany_7801") is None
    found = printed_notes(["svhn28", "oct_kermany_7801"])
    assert any(note.startswith("svhn28") for note in found)
    assert any(note.startswith("oct_kermany_7801 is not OCTMNIST") for note in found)
    assert not any("OCTMNIST" in note for note in printed_notes(["octmnist"]))


@pytest.mark.parametrize("name", ["instance_accuracy.csv", "consistency_rate.csv"])
def test_the_files_ship_with_the_package_under_our_names(name):
    with (files("majority.run.study") / "paper" / name).open() as file:
        rows = list(csv.DictReader(file))
    assert {row["method"] for row in rows} <= set(METHODS)
    assert len(rows) == {"instance_accuracy.csv": 10 * 3 * 5 + 4, "consistency_rate.csv": 10 * 3}[name]


def test_sources_without_printed_figures_have_no_notes():
    assert printed_notes(["digits", "bags"]) == []
    assert len(printed_notes(["digits", "octmnist"])) == 4
