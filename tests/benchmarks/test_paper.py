"""The paper's cells and its printed values. The figures of trainings are not judged."""

import importlib
import json
import sys
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest

from majority import Bags
from majority.files import write_lines
from majority.nn.methods import METHODS
from majority.run.study import FinishedCell

ROOT = Path(__file__).parents[2]
TINY = ("--tiny", "--jobs", "1", "--device", "cpu", "--commit", "abc")
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
"""  # a second transcription of the paper's table


@pytest.fixture
def paper(helpers):
    return importlib.import_module("paper")


@pytest.fixture
def run(paper, monkeypatch):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["paper.py", *map(str, words)])
        paper.main()

    return run


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


@pytest.mark.usefixtures("one_process")
def test_a_line_has_metrics_of_training_bags_and_a_cell_with_a_line_is_not_run_again(run, tmp_path):
    out, work = tmp_path / "study/paper.jsonl", tmp_path / "work"
    command = [*TINY, "--out", out, "--work", work]
    run(*command, "--limit", 1)
    first = out.read_text()
    out.write_text(first + '{"cell": "digits/var')  # a line cut short by a kill
    run(*command, "--limit", 2)
    assert out.read_text().startswith(first)
    lines = lines_of(out)
    assert [line["cell"] for line in lines] == [f"digits/{s}/count/fold0" for s in ("small", "various", "large")]
    for line in lines:
        surplus = line["overestimation_per_bag"]
        for part, bags in (("train", 8), ("test", 2)):
            assert line[part]["bags"] == len(surplus[part]) == bags
            assert line[part]["overestimation"] == pytest.approx(sum(surplus[part]) / bags)
        assert (line["side_by_side"], line["commit"]) == (1, "abc")
    assert "## Table 1: instance accuracy, small, paper" in (out.parent / "tables.md").read_text()
    run(*TINY, "--blocks", "d", "--only", "small/count-mpem", "--out", out, "--work", work)
    found = lines_of(out)[-1]
    assert found["left_out"]["instances"] == round(found["mpem"]["left_out"] * 64) > 0, "8 bags of 8"


def test_a_failed_cell_is_named_and_stops_no_other(helpers, monkeypatch, tmp_path):
    def one_fails(cells, out, device, jobs, watch):
        return [FinishedCell(cells[0][0], failure="no reason"), FinishedCell(cells[1][0], {"epochs": 2})]

    monkeypatch.setattr(helpers, "run_cells", one_fails)
    parser = helpers.make_parser("")
    helpers.add_training_options(parser, str(tmp_path / "work"))
    options = parser.parse_args(["--out", str(tmp_path / "out.jsonl"), "--commit", "abc"])
    with pytest.raises(SystemExit, match="failed: a/fold0"):
        helpers.train(dict.fromkeys(("a/fold0", "b/fold0")), options, lambda cell: cell.result)
    assert [line["cell"] for line in lines_of(tmp_path / "out.jsonl")] == ["b/fold0"]


def test_instances_that_were_left_out_are_compared_with_the_label_of_their_bag(paper):
    bags = Bags.from_lists([np.zeros((3, 1)), np.zeros((2, 1))], ["a", "b"], ["a", "b"])
    bags = bags._with(instance_labels=np.array([0, 0, 1, 1, 0]))
    candidates, left_out = np.array([[0, 1, 1, 0, 1], [0, 0, 1, 0, 0]], dtype=bool)
    assert paper.count_left_out(bags, candidates, left_out) == {
        "instances": 1,
        "share_not_of_label": 1.0,
        "share_not_of_label_candidates": pytest.approx(2 / 3),
        "share_not_of_label_all": pytest.approx(2 / 5),
    }
    assert paper.count_left_out(bags, candidates, np.zeros(5, dtype=bool))["share_not_of_label"] is None


def test_the_queue_of_the_published_runs(paper):
    finished = {line["cell"] for line in lines_of(ROOT / "results/paper/paper-1500-epochs.jsonl")}
    every = {block: paper.cells_of(block) for block in paper.BLOCKS}
    assert {block: len(cells) for block, cells in every.items()} == {
        "a": 60,
        "b": 72,
        "c": 28,
        "d": 6,
        "f": 54,
        "e": 48,
    }
    names = set().union(*every.values())
    assert len(names) == 268, "no two cells share a folder"
    assert finished <= names, "cells are named as those that were run before"


def test_methods_are_compared_on_the_folds_that_all_of_them_have(paper, tmp_path):
    out = tmp_path / "paper.jsonl"
    folds = {"count": (3, 2), "log-mean": (2, 1, 3), "count-seed-1": (0,)}
    lines = [
        {"cell": f"digits/small/{name}/fold{fold}", "source": "digits", "scenario": "small", "fold": fold}
        | {"overestimation_per_bag": {"train": [fold, fold], "test": [-fold]}}
        for name, some in folds.items()
        for fold in some
    ]
    write_lines(out, lines)
    paper.write_overestimation(out)
    rows = [line.split(",") for line in (tmp_path / "overestimation.csv").read_text().splitlines()[1:]]
    assert {(row[2], row[4]): (row[3], row[6]) for row in rows} == {
        ("count", "train"): ("2 3", "2.50"),
        ("count", "test"): ("2 3", "-2.50"),
        ("log-mean", "train"): ("2 3", "2.50"),
        ("log-mean", "test"): ("2 3", "-2.50"),
        ("count-seed-1", "train"): ("0", "0.00"),
        ("count-seed-1", "test"): ("0", "0.00"),
    }
    assert not (tmp_path / "overestimation.svg").exists(), "some of its cells are missing"


# ---------------------------------------------------------------------- printed values


def test_the_large_columns_are_as_in_the_paper(paper):
    for line in LARGE.strip().split("\n"):
        method, *printed = line.split()
        found = [paper.printed_accuracy(method, "large", name) for name in (*paper.PRINTED_SETS, "average")]
        assert found == [float(value) for value in printed]


def test_every_printed_average_except_the_misprint_is_the_mean_of_its_row(paper):
    wrong = []
    for method in [line.split()[0] for line in LARGE.strip().split("\n")]:
        assert method in METHODS
        for scenario in ("small", "various", "large"):
            mean = fmean(paper.printed_accuracy(method, scenario, name) for name in paper.PRINTED_SETS)
            if abs(mean - paper.printed_accuracy(method, scenario, "average")) > 0.0011:
                wrong.append((method, scenario, round(mean, 3)))
    assert wrong == [("output-mean", "various", 0.528)]
    assert paper.printed_consistency("count", "large") == 1.0
    assert paper.printed_consistency("log-mean", "large") is None


def test_a_figure_and_an_average_stand_beside_the_printed_values_of_the_same_sets(paper, tmp_path):
    def line(source, accuracy, fold):
        about = {"source": source, "scenario": "large", "method": "count", "cell": f"x/large/count/fold{fold}"}
        return about | {"test": {"instance_accuracy": accuracy}}

    lines = [line("cifar10", 0.6, fold) for fold in (0, 1)] + [line("svhn28.npz", 0.8, 0), line("digits", 0.9, 0)]
    write_lines(tmp_path / "paper.jsonl", lines)
    paper.write_tables(tmp_path)
    (row,) = [line for line in (tmp_path / "tables.md").read_text().splitlines() if "printed 0.614" in line]
    assert [cell.strip() for cell in row.split("|")[1:-1]] == [
        "count",
        "0.600 ± 0.000 (n=2)<br>printed 0.614, -0.014",
        "0.900 (n=1)",
        "0.800 (n=1)<br>printed 0.847, -0.047",
        "0.700 (2 of 4 sets)<br>printed 0.730, -0.030",
    ]
