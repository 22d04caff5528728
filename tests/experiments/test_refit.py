"""Training once more on all bags, and the mean of the classifiers of a cross-validation."""

import csv
import json

import numpy as np
import pytest
import torch

from majority import Bags, Classifier, InputError, train
from majority.data.joining import join
from majority.inference.classifier import REFITTED, AveragedClassifier

QUICK = {"recipe": "quick", "settings": {"training.epochs": 6}, "device": "cpu", "verbose": False}
SMALL_CENSUS = {"training.epochs": 2, "census.head.epochs": 3}


def write_bags(path, bags=30, seed=0):
    rng = np.random.default_rng(seed)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["bag", "bag_label", "a", "b"])
        for bag in range(bags):
            for i in range(6):
                sign = 1 if (bag % 2 == 0) == (i < 4) else -1
                table.writerow([f"b{bag}", "pos" if bag % 2 == 0 else "neg", *(2 * sign + rng.normal(size=2)).round(3)])
    return path


def read_rows(path):
    with path.open(newline="") as file:
        return [*csv.DictReader(file)]


@pytest.fixture(scope="module")
def refitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refit")
    write_bags(folder / "bags.csv")
    write_bags(folder / "new.csv", bags=8, seed=1)
    train(folder / "bags.csv", out=folder / "run", refit=True, **QUICK)
    train(folder / "bags.csv", out=folder / "plain", **QUICK)
    return folder


def test_the_figures_are_those_of_the_split(refitted):
    results = [json.loads((refitted / name / "result.json").read_text()) for name in ("run", "plain")]
    assert results[0]["test"] == results[1]["test"]
    assert results[0]["refit_bags"] == 30
    assert "refit_bags" not in results[1]
    one, two = (Classifier.load(refitted / name, "cpu").model.state_dict() for name in ("run", "plain"))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_other_bags_are_classified_with_all_bags(refitted, majority):
    new = refitted / "new.csv"
    rows = {}
    for run in ("run", "plain"):
        out = refitted / f"{run}.csv"
        code, said, error = majority("predict", refitted / run, new, "--out", out, "--device", "cpu")
        assert code == 0, error
        assert ("trained on all bags" in said) == (run == "run")
        rows[run] = [float(row["p(pos)"]) for row in read_rows(out)]
    assert rows["run"] != rows["plain"]
    classifier = Classifier.load(refitted / "run" / REFITTED, "cpu")
    features = np.array([[row["a"], row["b"]] for row in read_rows(new)], np.float64)
    np.testing.assert_allclose(rows["run"], classifier.predict_proba(features)[:, 1], rtol=1e-4)


def test_own_test_bags_are_classified_without_having_seen_them(refitted, majority):
    for run in ("run", "plain"):
        assert majority("predict", refitted / run, "--out", refitted / f"own-{run}.csv", "--device", "cpu")[0] == 0
    assert (refitted / "own-run.csv").read_text() == (refitted / "own-plain.csv").read_text()


def test_the_epoch_is_the_one_that_the_validation_bags_chose(refitted):
    result = json.loads((refitted / "run/result.json").read_text())
    lines = (refitted / "run/refit/metrics.jsonl").read_text().splitlines()
    assert len(lines) == result["best_epoch"] + 1
    assert not any("val_loss" in json.loads(line) for line in lines)
    assert "on all 30 bags" in (refitted / "run/report.html").read_text()
    assert "--refit" in (refitted / "run/report.html").read_text()
    assert not [*(refitted / "run/refit").rglob("*.safetensors")]


@pytest.mark.parametrize("method", ["auto", "log-mean"])
def test_census_repeats_its_stages_without_validation(tmp_path, method):
    source = write_bags(tmp_path / "bags.csv")
    run = train(
        source, out=tmp_path / "run", refit=True, method=method, settings=SMALL_CENSUS, device="cpu", verbose=False
    )
    stages = {place.name for place in (tmp_path / "run/refit/stages").iterdir()}
    first = {place.name: place for place in (tmp_path / "run/stages").iterdir()}
    assert stages <= first.keys()
    assert "student" in stages
    for name in stages:
        again = json.loads((tmp_path / "run/refit/stages" / name / "outcome.json").read_text())
        assert again["loss_name"] == "train_loss"
        assert again["best_epoch"] == json.loads((first[name] / "outcome.json").read_text())["best_epoch"]
    assert run.classifier.predict(np.array([[3.0, 3.0], [-3.0, -3.0]])).shape == (2,)


@pytest.mark.parametrize(
    ("source", "choices", "message"),
    [
        ("digits", {}, "refit: it is for your own bags"),
        ("bags.csv", {"folds": 5}, "refit with folds"),
        ("bags.csv", {"recipe": "mpem", "method": "count"}, "recipe mpem cannot train once more"),
    ],
)
def test_where_it_has_no_meaning_it_is_refused(tmp_path, monkeypatch, source, choices, message):
    monkeypatch.chdir(tmp_path)
    write_bags(tmp_path / "bags.csv")
    with pytest.raises(InputError, match=message):
        train(source, out=tmp_path / "run", refit=True, verbose=False, **choices)
    assert not (tmp_path / "run").exists()


def test_a_cross_validation_predicts_the_mean_of_its_folds(refitted, majority):
    words = ("train", refitted / "bags.csv", "--recipe", "quick", "--epochs", "3", "--device", "cpu", "--folds", "3")
    assert majority(*words, "--out", refitted / "cv")[0] == 0
    new, out = refitted / "new.csv", refitted / "mean.csv"
    code, said, error = majority("predict", refitted / "cv", new, "--out", out, "--device", "cpu")
    assert code == 0, error
    assert "3 folds" in said
    features = np.array([[row["a"], row["b"]] for row in read_rows(new)], np.float64)
    members = [Classifier.load(refitted / f"cv/fold{fold}", "cpu") for fold in range(3)]
    mean = np.mean([member.predict_proba(features) for member in members], axis=0)
    np.testing.assert_allclose([float(row["p(pos)"]) for row in read_rows(out)], mean[:, 1], rtol=1e-4)
    np.testing.assert_allclose(AveragedClassifier(members).predict_proba(features), mean, rtol=1e-5)
    code, _, error = majority("predict", refitted / "cv", "--out", out)
    assert code == 2
    assert "give the bags to classify as SOURCE" in error
    code, _, error = majority("evaluate", refitted / "cv", new)
    assert code == 2
    assert "give one of them" in error
    (refitted / "cv/fold2").rename(refitted / "elsewhere")
    code, _, error = majority("predict", refitted / "cv", new, "--out", out)
    assert code == 2
    assert "has no fold2" in error


def test_joined_bags_have_all_labels():
    one = Bags.from_lists([np.ones((2, 3)), np.zeros((1, 3))], ["a", "b"], ["a", "b", "c"])
    two = Bags.from_lists([np.full((3, 3), 2.0)], ["a|c"], ["a", "b", "c"])
    both = join([one, two])
    assert both.bag_labels.texts("abc") == ["a", "b", "a|c"]
    assert both.sizes.tolist() == [2, 1, 3]
    assert both.bag(2).tolist() == two.bag(0).tolist()
    parts = one.subset([0]), one.subset([1])
    assert join(parts).store is one.store
    assert join(parts).bag_labels.allowed is None
