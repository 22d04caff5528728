"""Training once more on all bags, and the mean of the classifiers of a cross-validation."""

import json

import numpy as np
import pandas as pd
import pytest
import torch

from majority import Bags, Callback, Classifier, InputError, load_source, train
from majority.predict.classifier import CLASSIFIER, REFITTED, mean_of

QUICK = {"recipe": "quick", "method": "log-mean", "settings": {"training.epochs": 6}, "device": "cpu", "verbose": False}
SMALL_CENSUS = {"training.epochs": 2, "census.head.epochs": 3}
CENSUS = {"method": "log-mean", "settings": SMALL_CENSUS, "device": "cpu", "verbose": False}
WORDS = ("--method", "log-mean", "--epochs", "2", "--set", "census.head.epochs=3", "--device", "cpu")


def write_bags(path, bags=30, seed=0, split=()):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"bag": [f"b{bag}" for bag in range(bags) for _ in range(6)]})
    positive = np.arange(bags) % 2 == 0
    table["bag_label"] = np.where(positive, "pos", "neg").repeat(6)
    signs = np.where(positive.repeat(6) == (np.arange(6 * bags) % 6 < 4), 1, -1)
    table[["a", "b"]] = (2 * signs[:, None] + rng.normal(size=(6 * bags, 2))).round(3)
    if split:
        table["split"] = np.resize(split, bags).repeat(6)
    table.to_csv(path, index=False)
    return path


def weights_of(path):
    return Classifier.load(path, "cpu").model.state_dict()


def are_equal(one, two):
    return all(torch.equal(one[name], two[name]) for name in one)


@pytest.fixture(scope="module")
def refitted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refit")
    write_bags(folder / "bags.csv")
    write_bags(folder / "new.csv", bags=8, seed=1)
    train(folder / "bags.csv", out=folder / "run", refit=True, **QUICK)
    train(folder / "bags.csv", out=folder / "plain", **QUICK)
    return folder


def test_the_figures_and_the_predictions_of_own_bags_are_those_of_the_split(refitted, succeeds):
    results, predictions = [], []
    for name in ("run", "plain"):
        results.append(json.loads((refitted / name / "result.json").read_text()))
        out = refitted / f"own-{name}.csv"
        succeeds("predict", refitted / name, "--out", out, "--device", "cpu")
        predictions.append(out.read_text())
    assert results[0]["test"] == results[1]["test"]
    assert [result.get("refit_bags") for result in results] == [30, None]
    assert predictions[0] == predictions[1]
    assert are_equal(*(weights_of(refitted / name / CLASSIFIER) for name in ("run", "plain")))


def test_other_bags_are_classified_with_all_bags(refitted, majority):
    new, found = refitted / "new.csv", {}
    for run in ("run", "plain"):
        out = refitted / f"{run}.csv"
        code, said, error = majority("predict", refitted / run, new, "--out", out, "--device", "cpu")
        assert (code, "trained on all bags" in said) == (0, run == "run"), error
        found[run] = pd.read_csv(out)["p(pos)"].to_numpy()
    assert not np.array_equal(found["run"], found["plain"])
    classifier = Classifier.load(refitted / "run" / REFITTED, "cpu")
    np.testing.assert_allclose(found["run"], classifier.predict_proba(pd.read_csv(new))[:, 1], rtol=1e-4)


def test_the_epoch_is_the_one_that_the_validation_bags_chose(refitted):
    result = json.loads((refitted / "run/result.json").read_text())
    lines = (refitted / "run/refit/metrics.jsonl").read_text().splitlines()
    assert len(lines) == result["best_epoch"] + 1
    assert not any("val_loss" in json.loads(line) for line in lines)
    page = (refitted / "run/report.html").read_text()
    assert "on all 30 bags" in page
    assert "--refit" in page
    assert not [*(refitted / "run/refit").rglob("*.safetensors")]


# ---------------------------------------------------------------- by default


@pytest.fixture(scope="module")
def by_default(tmp_path_factory, succeeds):
    """A run of the default recipe on bags of your own, and what the command printed."""
    folder = tmp_path_factory.mktemp("default")
    write_bags(folder / "bags.csv")
    write_bags(folder / "new.csv", bags=8, seed=1)
    printed = succeeds("train", folder / "bags.csv", *WORDS, "--out", folder / "run")
    return folder, printed


def test_own_bags_are_trained_on_once_more_by_default(by_default, succeeds):
    folder, printed = by_default
    (line,) = (line for line in printed.splitlines() if "once more" in line)
    assert all(fact in line for fact in ("all 30 bags", "--no-refit", "figures"))
    assert json.loads((folder / "run/config.json").read_text())["refit"] is True
    result = json.loads((folder / "run/result.json").read_text())
    assert result["refit_bags"] == 30
    assert result["refit_seconds"] > 0
    assert "is finished" in succeeds("train", folder / "bags.csv", *WORDS, "--out", folder / "run")


def test_census_repeats_its_stages_without_validation(by_default):
    run = by_default[0] / "run"
    again = {place.parent.name: json.loads(place.read_text()) for place in run.glob("refit/stages/*/outcome.json")}
    assert "student" in again
    for name, outcome in again.items():
        first = json.loads((run / "stages" / name / "outcome.json").read_text())
        if "chosen" not in outcome:
            assert (outcome["loss_name"], outcome["best_epoch"]) == ("train_loss", first["best_epoch"])


def test_pages_say_which_classifier_the_figures_are_of(by_default, succeeds):
    folder, _ = by_default
    succeeds("report", folder / "run", folder / "new.csv")
    pages = [(folder / "run" / name).read_text() for name in ("report.html", "report-new.html")]
    assert ["These figures are those of a first classifier" in page for page in pages] == [True, False]
    for text in (*pages, (folder / "run/model-card.md").read_text()):
        assert "on all 30 bags" in text


def test_there_is_no_second_training_if_it_is_refused(tmp_path, succeeds):
    source = write_bags(tmp_path / "bags.csv")
    assert "once more" not in succeeds("train", source, *WORDS, "--no-refit", "--out", tmp_path / "run")
    assert "refit_bags" not in json.loads((tmp_path / "run/result.json").read_text())
    assert not [*tmp_path.rglob("refit*")]
    assert "--no-refit" in (tmp_path / "run/report.html").read_text()


def test_test_bags_that_cannot_be_trained_on_do_not_stop_a_run(tmp_path, majority):
    """naive takes labels of one class only; the label of one test bag names two."""
    source = write_bags(tmp_path / "bags.csv", split=("train", "train", "val", "val", "test", "test"))
    source.write_text(source.read_text().replace("b4,pos", "b4,pos|neg"))
    words = ("train", source, "--recipe", "census", *WORDS, "--method", "naive")
    code, said, error = majority(*words, "--out", tmp_path / "run")
    assert (code, "note:" in said + error) == (0, True), error
    assert not (tmp_path / "run" / REFITTED).exists()
    assert json.loads((tmp_path / "run/config.json").read_text())["refit"] is False
    code, _, error = majority(*words, "--refit", "--out", tmp_path / "asked")
    assert (code, (tmp_path / "asked").exists()) == (2, False), error


def test_python_returns_the_classifier_of_all_bags(tmp_path):
    rng = np.random.default_rng(0)
    bags = [rng.normal(size=(5, 2)) + 2 * (bag % 2) for bag in range(30)]
    run = train(Bags.from_lists(bags, ["a", "b"] * 15), **CENSUS, out=tmp_path / "run")
    found = run.classifier.model.state_dict()
    equal = [are_equal(found, weights_of(run.folder / name)) for name in ("", REFITTED, CLASSIFIER)]
    assert equal == [True, True, False]


# ---------------------------------------------------------------- interrupted, and of earlier versions


class StopInSecondTraining(Callback):
    def __init__(self):
        self.stages = []

    def on_stage_start(self, stage):
        self.stages.append(stage)

    def on_epoch_end(self, record):
        if self.stages[-1] == "refit/student" and record["epoch"] == 0:
            raise KeyboardInterrupt


@pytest.fixture
def interrupted(by_default, tmp_path):
    """The same run as that of `by_default`, stopped in the last stage of its second training."""
    stop = StopInSecondTraining()
    with pytest.raises(KeyboardInterrupt):
        train(by_default[0] / "bags.csv", **CENSUS, out=tmp_path / "run", callbacks=[stop])
    assert (tmp_path / "run/refit/stages/student/metrics.jsonl").exists()
    assert stop.stages.index("student") < stop.stages.index("refit/student"), "callbacks can tell them apart"
    assert len({*stop.stages}) == len(stop.stages)
    return tmp_path / "run"


def test_an_interrupted_second_training_continues(by_default, interrupted):
    folder, _ = by_default
    train(folder / "bags.csv", **CENSUS, out=interrupted)
    for name in (CLASSIFIER, REFITTED):
        assert are_equal(weights_of(folder / "run" / name), weights_of(interrupted / name))


# ---------------------------------------------------------------- what is refused, and folds


def test_where_it_has_no_meaning_it_is_refused_and_left_out(tmp_path):
    for bags, choices in (("digits", {}), (write_bags(tmp_path / "bags.csv"), {"folds": 5})):
        with pytest.raises(InputError, match="refit is for your own bags without folds"):
            train(bags, out=tmp_path / "run", refit=True, verbose=False, **choices)
        assert not (tmp_path / "run").exists()
    census = CENSUS | {"settings": {"training.epochs": 1}}
    train(load_source("digits").make_parts(bags=8, bag_size=4, scenario="large"), **census, out=tmp_path / "parts")
    assert not [*tmp_path.rglob("refit*")]


def test_a_cross_validation_predicts_the_mean_of_its_folds(refitted, refused, succeeds):
    words = ("--recipe", "quick", "--method=log-mean", "--epochs", "3", "--device", "cpu", "--folds", "3")
    succeeds("train", refitted / "bags.csv", *words, "--out", refitted / "cv")
    new, out = refitted / "new.csv", refitted / "mean.csv"
    assert "3 folds" in succeeds("predict", refitted / "cv", new, "--out", out, "--device", "cpu")
    table = pd.read_csv(new)
    members = [Classifier.load(refitted / f"cv/fold{fold}", "cpu") for fold in range(3)]
    mean = np.mean([member.predict_proba(table) for member in members], axis=0)
    np.testing.assert_allclose(pd.read_csv(out)["p(pos)"], mean[:, 1], rtol=1e-4)
    np.testing.assert_allclose(mean_of(members).predict_proba(table), mean, rtol=1e-5)
    for command, fact in (
        (("predict", refitted / "cv", "--out", out), "give the bags to classify as SOURCE"),
        (("evaluate", refitted / "cv", new), "give one of them"),
        (("predict", refitted / "cv", new, "--out", out), "cv has no fold2"),
    ):
        if "fold2" in fact:
            (refitted / "cv/fold2").rename(refitted / "elsewhere")
        assert fact in refused(*command)
