"""The report of a study as a user gets it: the command, its files, and the page in a real browser."""

import csv
import json
import math
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from majority.recipes import RECIPES, TaskInfo
from majority.run.study import page as study_page
from majority.run.study import tables
from majority.run.study.comparison import Gap
from majority.run.study.figures import interval_plot, small_curves
from majority.run.study.page import write_study

FILES = ["report.html", "tables.md", "tables.csv", "tables.tex"]
METHODS = ("count", "soft-count", "count-only", "log-mean", "vote", "supervised")


def curve(epochs=20):
    loss, right = [2 * math.exp(-e / 9) for e in range(epochs)], [e / epochs for e in range(epochs)]
    return {"epoch": list(range(epochs))} | {"train_loss": loss, "val_loss": loss} | {
        "train_bag_accuracy": right, "val_bag_accuracy": right,
    }  # fmt: skip


def cell(method, source="cifar10", scenario="large", fold=0, accuracy=0.5):
    plan = (
        RECIPES["paper"]
        .plan_for(TaskInfo(source))
        .with_settings({"training.epochs": 150, "training.patience": 100})
        .as_dict()
    )
    quantiles = [-9.0, -3.0, 0.0, 2.0, 8.0 + fold]
    test = {"instance_accuracy": accuracy, "consistency_rate": 0.75, "overestimation_quantiles": quantiles}
    names = {"source": source, "scenario": scenario, "method": method, "recipe": "paper", "fold": fold, "seed": 0}
    more = {"seconds": 3.0, "epochs": 20, "best_epoch": 7, "plan": plan, "data": {"source": source}, "curve": curve()}
    return names | {"test": test, "val": {"bag_accuracy": 0.9}} | more


def cells(sources=("cifar10", "/x/svhn28.npz"), folds=range(3), methods=METHODS):
    return [
        cell(method, source, scenario, fold, 0.4 + 0.01 * number + 0.02 * fold * (number % 2))
        for source in sources
        for scenario in ("small", "large")
        for number, method in enumerate(methods)
        for fold in folds
    ]


def write_cells(folder, results, name="results.jsonl"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(json.dumps(result) + "\n" for result in results))
    return folder


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = write_cells(tmp_path_factory.mktemp("studies") / "my study", cells())
    request = {"sources": ["cifar10", "/x/svhn28.npz", "pathmnist"], "scenarios": ["small", "large"]}
    request |= {
        "methods": list(METHODS),
        "folds": [0, 1, 2],
        "options": {"recipe": "paper", "epochs": 150},
    }
    (folder / "study.json").write_text(json.dumps(request))
    write_study(folder)
    return folder


# ---------------------------------------------------------------------- the command and its files


def test_the_command_writes_four_files_and_names_them(majority, tmp_path):
    folder = write_cells(tmp_path / "study", cells())
    code, out, _ = majority("report", folder)
    assert code == 0
    assert out.split("\n")[:-1] == [str(folder / name) for name in FILES]
    with (folder / "tables.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == "Table 1: instance accuracy"]
    assert len(rows) == 2 * 2 * len(METHODS)
    (row,) = [r for r in rows if (r["source"], r["scenario"], r["method"]) == ("cifar10", "large", "soft-count")]
    assert (float(row["mean"]), float(row["sd"]), row["n"]) == (pytest.approx(0.43), pytest.approx(0.02), "3")
    assert "150 of 1,500 epochs, patience 100" in (folder / "tables.md").read_text()


def test_the_report_of_a_file_of_results_is_written_into_its_folder(majority, tmp_path):
    folder = write_cells(tmp_path / "lines", cells(folds=[0]), "mine.jsonl")
    write_cells(folder, cells(methods=["naive"]), "other.jsonl")
    code, _, _ = majority("report", folder / "mine.jsonl")
    assert code == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted([*FILES, "mine.jsonl", "other.jsonl"])
    assert "naive" not in (folder / "tables.csv").read_text()


def test_run_folders_below_are_a_study(majority, tmp_path):
    words = ["--recipe", "quick", "--bags", 20, "--bag-size", 8, "--epochs", 2, "--device", "cpu"]
    for method in ("count", "log-mean"):
        assert majority("train", "digits", "--method", method, *words, "--out", tmp_path / "s" / method)[0] == 0
    code, out, _ = majority("report", tmp_path / "s")
    assert code == 0, out
    page = (tmp_path / "s" / "report.html").read_text()
    assert "2 of 40 epochs, bags 20, bag size 8" in page
    assert "learning curves of log-mean, 1 run" in page


def test_missing_cells_are_counted_with_the_command_that_trains_them(majority, study):
    code, out, _ = majority("report", study)
    assert code == 0
    first = out.splitlines()[0]
    assert f"{2 * len(METHODS) * 3} cells" in first
    assert "missing" in first
    assert "majority study cifar10" in first


@pytest.mark.parametrize("make", [lambda path: None, Path.mkdir, lambda path: write_cells(path, [])])
def test_nothing_to_report_is_one_message(majority, tmp_path, make):
    make(tmp_path / "study")
    code, out, error = majority("report", tmp_path / "study")
    assert (code, out) == (2, "")
    assert "holds no finished runs" in error
    assert error.count("\n") == 1


# ---------------------------------------------------------------------- the page


def test_the_page_has_tables_differences_choices_and_missing_cells(study):
    page = (study / "report.html").read_text()
    for fact in ("Table 1", "Table 2", "Table 3", "svhn28", "no T2"):
        assert fact in page
    assert "The mean cost over 4 rows is" in page
    assert f"Missing: {2 * len(METHODS) * 3} cells" in page
    methods = ",".join(METHODS)
    command = f"majority study cifar10 /x/svhn28.npz pathmnist --methods {methods} --scenarios small,large"
    assert f"{command} --folds 0,1,2 --recipe paper --epochs 150 --out " in page
    assert not re.search(r"(src|href)=\"(?!data:|#)", page)


def test_the_page_names_the_method_to_choose_for_each_source_and_scenario(study):
    page = (study / "report.html").read_text()
    line = r"<li>(.*), recipe .*: .*<code>(.*)</code>.* 0.900 \(n=3\); equal: (.*)\.</li>"
    places = [f"{source}, {scenario}" for scenario in ("small", "large") for source in ("cifar10", "svhn28")]
    tied = "count, soft-count, count-only, vote"
    assert re.findall(line, page) == [(place, "log-mean", tied) for place in places]
    assert "Test bag accuracy" not in page
    assert "<th>cost</th>" in page


def test_without_instance_labels_bag_accuracy_comes_first_and_no_column_is_empty(tmp_path):
    results = [cell("count", "bags", None), cell("vote", "bags", None), cell("vote", "bags", None, fold=1)]
    for result, right in zip(results, (0.6, 0.7, 0.9), strict=True):
        result["test"] = {"bag_accuracy": right, "consistency_rate": 0.75}
    page = write_study(write_cells(tmp_path, results))[0].read_text()
    assert page.index("<h2>Test bag accuracy</h2>") < page.index("<h2>Table 3")
    assert '<a href="#bags">' in page
    assert "0.800 ± 0.141 (n=2)" in page
    assert "<td>-</td><td>-</td>" not in page
    assert "<th>cost</th>" not in page


def test_boxes_are_the_mean_of_each_quantile(study):
    assert "count: lowest -9, quartiles -3, 0, 2, highest 9" in (study / "report.html").read_text()


def test_the_label_of_a_difference_names_its_reference_and_source(study):
    page = (study / "report.html").read_text()
    for reference in ("count", "log-mean"):
        label = f'aria-label="Instance accuracy minus that of {reference}, by method, svhn28"'
        assert page.count(label) == 2, "one per scenario"


def test_hostile_names_are_escaped(tmp_path):
    write_cells(tmp_path, [cell("count", "<script>alert(1)<&.npz"), cell("vote", "<script>alert(1)<&.npz")])
    page = write_study(tmp_path)[0].read_text()
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;&amp;" in page


def test_curves_left_out_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(study_page, "MAX_CURVES", 5)
    page = write_study(write_cells(tmp_path, cells()))[0].read_text()
    assert page.count("learning curves of") == 5
    assert f"</b> to keep the page small: {4 * len(METHODS) - 5} drawings." in page


def test_differences_are_drawn_with_an_interval_where_there_is_one():
    gaps = [Gap("s", "vote", 0.1, 0.02, 0.05, 0.15, 5), Gap("s", "<naive>", -0.1, n=1)]
    drawn = ElementTree.fromstring(interval_plot(gaps, "vote against count"))
    assert len(drawn.findall("{*}circle")) == 2
    assert len(drawn.findall("{*}line[@stroke-width]")) == 1
    assert "+0.100 [+0.050, +0.150] (n=5)" in "".join(drawn.itertext())


def test_small_curves_reach_their_last_epoch():
    """With 74 epochs every second one is drawn, and the last one."""
    drawn = ElementTree.fromstring(small_curves("count", [cell("count") | {"curve": curve(74)}]))
    lines = [path.get("d")[1:].split("L") for path in drawn.findall("{*}path")]
    assert [len(line) for line in lines] == [38] * 4
    assert {line[-1].split()[0] for line in lines} == {"310", "620"}, "the right edge of each plot"


@pytest.mark.parametrize("epochs", [1, 2, 100])
def test_small_curves_have_four_lines_per_run(epochs):
    runs = [{"curve": curve(epochs), "best_epoch": 0, "fold": fold} for fold in (0, 1)]
    drawn = ElementTree.fromstring(small_curves("count", runs))
    routes = [path.get("d") for path in drawn.findall("{*}path")]
    assert len(routes) == 2 * 4
    assert all(len(route.split("L")) <= 51 for route in routes)


def test_the_page_of_a_large_study_is_small_and_compares_each_result_with_its_recipe_once(tmp_path, monkeypatch):
    compared = []
    setting_of = tables.setting_of
    monkeypatch.setattr(tables, "setting_of", lambda result: compared.append(result) or setting_of(result))
    monkeypatch.setattr(study_page, "MAX_CURVES", 50)
    sources = ("cifar10", "svhn", "pathmnist")
    results = cells(sources, range(5), (*METHODS, "naive", "attention", "additive", "output-mean"))
    page = write_study(write_cells(tmp_path, results))[0]
    assert len(compared) == len(results), "most of the work: the plan of the recipe is made for each result"
    assert page.read_text().count("learning curves of") == 50
    assert page.stat().st_size < 3_000_000


# ---------------------------------------------------------------------- in a browser


def test_the_page_opens_without_complaint_network_or_sideways_scrolling(opened, study):
    page = opened(study / "report.html")
    assert page.title() == "my study · majority study"
    for width in (320, 390, 1280):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    row = page.locator("#table1 tbody tr").filter(has_text="log-mean").first
    assert row.locator("td").first.inner_text().startswith("0.450 ± 0.020 (n=3)")
    folded = page.locator("#curves details").nth(1)
    assert not folded.locator("svg").first.is_visible()
    folded.locator("summary").click()
    assert folded.locator("svg").first.is_visible()
