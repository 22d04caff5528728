"""Figures with intervals: `evaluate --out`, the table of folds, the page; `predict --abstain-below`."""

import json

import numpy as np
import pandas as pd
import pytest

from majority.cli.printing import print_folds


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """60 bags of 6 rows; class a is at 0, class b at 1, with so much noise that some rows are not certain."""
    rng = np.random.default_rng(0)
    label = np.repeat(np.arange(60) % 2, 6)
    truth = np.where(np.arange(360) % 6 < 4, label, 1 - label)
    place = tmp_path_factory.mktemp("data") / "bags.csv"
    columns = {"bag": np.repeat(np.arange(60), 6), "bag_label": label, "label": truth}
    features = {"f": truth + rng.normal(0, 0.5, 360), "g": rng.normal(size=360)}
    pd.DataFrame(columns | features).replace({"bag_label": {0: "a", 1: "b"}, "label": {0: "a", 1: "b"}}).to_csv(
        place, index=False
    )
    return place


@pytest.fixture(scope="module")
def run(table, succeeds, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    out = succeeds(
        "train", table, "--recipe", "quick", "--method=log-mean", "--epochs", 5, "--device", "cpu", "--out", folder
    )
    assert "95 % interval" in out
    return folder


def test_evaluate_writes_every_figure(run, succeeds, tmp_path):
    out = succeeds("evaluate", run, "--out", tmp_path / "figures.json")
    assert str(tmp_path / "figures.json") in out
    content = json.loads((tmp_path / "figures.json").read_text())
    test = content["parts"]["test"]
    low, high = test["intervals"]["instance_accuracy"]
    assert low < test["figures"]["instance_accuracy"] < high
    assert test["figures"] | {"intervals": test["intervals"]} == json.loads((run / "result.json").read_text())["test"]
    assert [row["class"] for row in test["classes"]["rows"]] == ["a", "b"]
    assert np.sum(test["confusion"]["rows"]) == test["figures"]["instances"]


def test_the_file_of_figures_is_refused_before_anything_is_read(refused, tmp_path):
    assert ".json" in refused("evaluate", tmp_path / "no-run", "--out", tmp_path / "figures.txt")


def test_the_page_shows_the_intervals(run, opened):
    page = opened(run / "report.html")
    card = page.locator(".card", has_text="instances classified correctly").first
    low, high = json.loads((run / "result.json").read_text())["test"]["intervals"]["instance_accuracy"]
    assert card.locator(".interval").inner_text() == f"{100 * low:.1f} % to {100 * high:.1f} %"


def test_the_table_of_folds_has_intervals(table, succeeds, tmp_path):
    words = ("--recipe", "quick", "--method=log-mean", "--epochs", 2, "--folds", 3, "--device", "cpu")
    out = succeeds("train", table, *words, "--out", tmp_path / "cv")
    for fold in range(3):
        test = json.loads((tmp_path / "cv" / f"fold{fold}" / "result.json").read_text())["test"]
        low, high = test["intervals"]["instance_accuracy"]
        assert f"{test['instance_accuracy']:.3f} ({low:.3f} to {high:.3f})" in out


def test_a_figure_that_some_folds_do_not_have(capsys):
    sizes = {"bags": 3, "instances": 9}
    tested = [{"bag_accuracy": 0.5}, {"instance_accuracy": 0.75, "macro_f1": None, "bag_accuracy": None}]
    for order in (tested, tested[::-1]):
        print_folds([{"fold": i, "test": sizes | figures} for i, figures in enumerate(order)])
        out = capsys.readouterr().out
        assert "0.750 " in out
        assert "- (no interval)" in out
        assert "macro" not in out


def test_uncertain_instances_have_no_class(run, table, succeeds, tmp_path):
    files = {threshold: tmp_path / f"{threshold}.csv" for threshold in ("all", 0.9, 1)}
    for threshold, place in files.items():
        words = () if threshold == "all" else ("--abstain-below", threshold)
        succeeds("predict", run, table, *words, "--out", place)
    plain, some, none = (pd.read_csv(place, keep_default_na=False) for place in files.values())
    highest = plain[["p(a)", "p(b)"]].max(axis=1)
    assert 0 < (highest < 0.9).sum() < len(plain)
    assert (some["class"] == plain["class"].where(highest >= 0.9, "")).all()
    assert (none["class"] == "").all()


def test_bags_do_not_count_uncertain_instances(run, table, succeeds, tmp_path):
    succeeds("predict", run, table, "--bags", "--abstain-below", 0.9, "--out", tmp_path / "bags.csv")
    succeeds("predict", run, table, "--abstain-below", 0.9, "--out", tmp_path / "rows.csv")
    bags = pd.read_csv(tmp_path / "bags.csv", keep_default_na=False).set_index("bag")
    rows = pd.read_csv(tmp_path / "rows.csv", keep_default_na=False)
    counts = pd.crosstab(rows["bag"], rows["class"])
    assert (bags["abstained"] == counts[""]).all()
    assert (bags["n(a)"] == counts["a"]).all()
    assert (bags["majority"][bags["abstained"] == 6] == "").all()


@pytest.mark.parametrize("threshold", [-0.1, 1.5, "nan"])
def test_a_threshold_that_is_no_probability_is_refused(run, refused, tmp_path, threshold):
    err = refused("predict", run, "--abstain-below", threshold, "--out", tmp_path / "rows.csv")
    assert "from 0 to 1" in err
    assert not (tmp_path / "rows.csv").exists()
