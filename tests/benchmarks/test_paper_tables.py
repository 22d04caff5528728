"""benchmarks/paper_tables.py: the queue's order, what a kill leaves, and its time limit. Its figures are not judged."""

import csv
import importlib
import itertools
import json
import re
import shutil
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from majority import Bags
from majority.errors import InputError
from majority.run.folder import LOCK, run_lock
from majority.run.study import FinishedCell

ROOT = Path(__file__).parents[2]
FORKED = Path(__file__).parents[1] / "forked_process.py"
PROGRAM = """
import runpy, sys, types
from majority.run.study import workers
workers.subprocess = types.SimpleNamespace(Popen=runpy.run_path({forked!r})["ForkedWorker"], PIPE=None)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
TINY = ("--tiny", "--jobs", "1", "--device", "cpu", "--commit", "abc")


@pytest.fixture
def tables(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    return importlib.import_module("paper_tables")


@pytest.fixture
def run(tables, monkeypatch, capsys):
    """The command, with every cell trained in this process: starting Python takes seconds."""

    def in_this_process(cells, out, device, jobs, watch):
        watch(None, None)
        return [FinishedCell(folder, experiment.run(folder, device)) for folder, experiment in cells]

    monkeypatch.setattr(tables, "run_cells", in_this_process)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["paper_tables.py", *map(str, words)])
        tables.main()
        return capsys.readouterr().out

    return run


def lines_of(file):
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_a_killed_queue_continues_where_it_was(run, processes, tmp_path, monkeypatch, majority):
    out, work = tmp_path / "study/paper.jsonl", tmp_path / "work"
    command = [*TINY, "--out", out, "--work", work]
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks/paper_tables.py"), *map(str, command)])
    killed = processes.Process(target=exec, args=(PROGRAM.format(forked=str(FORKED)), {}))
    killed.start()
    while not (out.exists() and out.read_text().endswith("\n")):
        assert killed.is_alive()
        time.sleep(0.05)
    killed.kill()
    killed.join()
    wait_for_workers(work)
    first = out.read_text()
    out.write_text(first + '{"cell": "digits/var')  # a line cut short
    there = first.count("\n")
    run(*command, "--limit", 3 - there)
    assert out.read_text().startswith(first)
    lines = lines_of(out)
    assert [line["cell"] for line in lines] == [f"digits/{s}/count/fold0" for s in ("small", "various", "large")]
    for line in lines:
        surplus = line["overestimation_per_bag"]
        for part, bags in (("train", 8), ("test", 2)):
            assert line[part]["bags"] == len(surplus[part]) == bags
            assert line[part]["overestimation"] == pytest.approx(sum(surplus[part]) / bags)
        assert line["curve"]["epoch"] == [0, 1]
        assert (line["side_by_side"], line["commit"]) == (1, "abc")
    assert majority("report", out.parent)[0] == 0


def wait_for_workers(work):
    """A worker ends when its queue is gone; until then it holds its run folder."""
    for lock in work.rglob(LOCK):
        while True:
            try:
                with run_lock(lock.parent):
                    break
            except InputError:
                time.sleep(0.05)


def test_a_finished_cell_is_not_run_again_and_a_failure_stops_no_other(tables, run, tmp_path, monkeypatch):
    out = tmp_path / "paper.jsonl"
    command = [*TINY, "--blocks", "d", "--out", out, "--work", tmp_path / "work"]
    run(*command, "--limit", 1)
    first, trained, train = out.read_text(), [], tables.run_cells

    def the_second_fails(cells, *more):
        trained.append(cells[0][1].data.scenario)
        return [FinishedCell(cells[0][0], failure="no reason")] if len(trained) == 1 else train(cells, *more)

    monkeypatch.setattr(tables, "run_cells", the_second_fails)
    with pytest.raises(SystemExit, match="failed: digits/various/count-of-counts/fold0"):
        run(*command, "--limit", 2)
    assert trained == ["various", "large"]
    assert out.read_text().startswith(first)
    assert [line["scenario"] for line in lines_of(out)] == ["small", "large"]


def test_a_line_of_mpem_says_how_many_instances_were_left_out_rightly(run, tmp_path):
    out = tmp_path / "paper.jsonl"
    run(*TINY, "--blocks", "d", "--only", "small/count-mpem", "--out", out, "--work", tmp_path / "work")
    (line,) = lines_of(out)
    found = line["left_out"]
    assert found["instances"] == round(line["mpem"]["left_out"] * 64) > 0, "8 bags of 8"
    assert None not in found.values()


def test_instances_that_were_left_out_are_compared_with_the_label_of_their_bag(tables):
    bags = Bags.from_lists([np.zeros((3, 1)), np.zeros((2, 1))], ["a", "b"], ["a", "b"])
    bags = bags._with(instance_labels=np.array([0, 0, 1, 1, 0]))
    candidates, left_out = np.array([[0, 1, 1, 0, 1], [0, 0, 1, 0, 0]], dtype=bool)
    assert tables.count_left_out(bags, candidates, left_out) == {
        "instances": 1,
        "share_not_of_label": 1.0,
        "share_not_of_label_candidates": pytest.approx(2 / 3),
        "share_not_of_label_all": pytest.approx(2 / 5),
    }
    assert tables.count_left_out(bags, candidates, np.zeros(5, dtype=bool))["share_not_of_label"] is None


def test_the_queue_of_the_published_runs(tables):
    finished = {cell for cell, _ in tables.finished_cells(ROOT / "results/paper/paper-1500-epochs.jsonl")}
    every = {block: tables.cells_of(block) for block in tables.BLOCKS}
    assert {block: len(cells) for block, cells in every.items()} == {"a": 60, "b": 72, "c": 28, "d": 6, "e": 48}
    names = set().union(*every.values())
    assert len(names) == 214, "no two cells share a folder"
    assert finished <= names, "cells are named as those that were run before"
    first = list(every["a"])[:12]
    assert {name.rpartition("/")[2] for name in first} == {"fold0"}
    assert list(every["d"])[2:4] == ["cifar10/large/count-of-counts/fold0", "cifar10/small/count-mpem/fold0"]
    assert [name.split("/")[2] for name in first[::3]] == ["count", "log-mean", "output-mean", "soft-count"]


def test_some_cells_by_name(run, tmp_path):
    words = ("--blocks", "c", "--only", "additive/", "--minutes", 0, "--out", tmp_path / "out.jsonl")
    printed = run(*words).splitlines()
    assert printed[0].endswith("3 of 3 cells to run")
    assert printed[1:] == [f"cifar10/{scenario}/additive/fold0" for scenario in ("small", "various", "large")]


def test_the_table_and_the_plot_of_overestimation_are_those_of_the_runs(tables, tmp_path):
    there, copy = ROOT / "results/paper", tmp_path / "paper-1500-epochs.jsonl"
    shutil.copy(there / copy.name, copy)
    tables.write_overestimation(copy)
    for name in ("overestimation.csv", "overestimation.svg"):
        assert (tmp_path / name).read_text() == (there / name).read_text(), name


def test_the_plot_of_overestimation_has_training_and_test_bags_of_the_same_folds():
    file = ROOT / "results/paper/paper-1500-epochs.jsonl"
    methods, scenarios = ("count", "soft-count", "output-mean", "log-mean"), ("small", "various", "large")
    boxes = {}
    for method, scenario in itertools.product(methods, scenarios):
        wanted = {f"cifar10/{scenario}/{method}/fold{fold}" for fold in (2, 3, 4)}
        lines = [line["overestimation_per_bag"] for line in lines_of(file) if line["cell"] in wanted]
        for part, name in (("train", "training"), ("test", "test")):
            values = np.quantile(np.concatenate([line[part] for line in lines]), [0, 0.25, 0.5, 0.75, 1])
            boxes[scenario, method, part] = "{}: lowest {:g}, quartiles {:g}, {:g}, {:g}, highest {:g}".format(
                name, *values
            )
    drawing = (file.parent / "overestimation.svg").read_text()
    shown = re.findall("<title>([^<]+lowest[^<]+)</title>", drawing)
    assert shown == [boxes[key] for key in itertools.product(scenarios, methods, ("train", "test"))]
    assert drawing.count(">n=1200<") == drawing.count(">n=300<") == 12


def test_methods_are_compared_on_the_folds_that_all_of_them_have(tables, tmp_path):
    out = tmp_path / "paper.jsonl"
    folds = {"count": (3, 2), "log-mean": (2, 1, 3), "count-seed-1": (0,)}
    lines = [
        {"cell": f"digits/small/{name}/fold{fold}", "source": "digits", "scenario": "small", "fold": fold}
        | {"overestimation_per_bag": {"train": [fold, fold], "test": [-fold]}}
        for name, some in folds.items()
        for fold in some
    ]
    without = {"cell": "digits/small/count/fold1", "source": "digits", "scenario": "small", "fold": 1}
    lines.append(without)
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    tables.write_overestimation(out)
    with (tmp_path / "overestimation.csv").open() as file:
        rows = {(row["cell"], row["part"]): (row["folds"], row["mean"]) for row in csv.DictReader(file)}
    assert rows == {
        ("count", "train"): ("2 3", "2.50"),
        ("count", "test"): ("2 3", "-2.50"),
        ("log-mean", "train"): ("2 3", "2.50"),
        ("log-mean", "test"): ("2 3", "-2.50"),
        ("count-seed-1", "train"): ("0", "0.00"),
        ("count-seed-1", "test"): ("0", "0.00"),
    }
    assert not (tmp_path / "overestimation.svg").exists(), "some of its cells are missing"


def test_no_cell_is_started_that_would_not_end_in_time(tables, tmp_path):
    cells = tables.cells_of("a")
    queue = tables.Queue(cells, tmp_path / "out.jsonl", tmp_path, "cpu", {})
    name, *others = cells
    queue.epochs.extend([(0.0, 0), (10.0, 100)])  # 10 epochs per second
    alone = tables.START_SECONDS + tables.SLOWER_ALONE * 150
    queue.deadline = time.monotonic() + alone + 1_000
    assert queue._fits(name)
    queue.running = dict.fromkeys(others[:10], 0.0)
    assert not queue._fits(name), "those that run share the device with it"
    queue.running = {}
    queue.deadline = time.monotonic() + alone - 1
    assert not queue._fits(name)
    queue.stop()
    assert queue._take_apart() is None


def test_cells_start_one_after_the_other(tables, tmp_path):
    queue = tables.Queue(tables.cells_of("a"), tmp_path / "out.jsonl", tmp_path, "cpu", {})
    assert not queue._is_starting()
    first = queue._take()
    assert queue._is_starting()
    (tmp_path / first).mkdir(parents=True)
    (tmp_path / first / "metrics.jsonl").write_text('{"epoch": 0}\n')
    assert not queue._is_starting(), "it trains"
    second = queue._take()
    assert queue._is_starting()
    del queue.running[second]
    assert not queue._is_starting(), "it failed"
