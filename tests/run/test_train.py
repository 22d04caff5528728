"""majority.train: from Python all that the command can."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from majority import Bags, Callback, Classifier, InputError, LabelledSet, load_source, train

SMALL = {"scenario": "large", "bags": 20, "bag_size": 8}
QUICK = {"method": "count", "recipe": "quick", "settings": {"training.epochs": 2}, "verbose": False, "device": "cpu"}


def make_bags(n=30, size=5, seed=0):
    """Vectors of three classes; four of five instances are of the bag's class."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % 3
    truth = np.repeat(labels[:, None], size, axis=1)
    truth[:, 0] = (labels + 1) % 3
    instances = (4 * np.eye(3)[truth] + rng.normal(size=(n, size, 3))).astype(np.float32)
    names = np.array(["ant", "bee", "owl"])
    return Bags.from_lists(list(instances), names[labels], instance_labels=list(names[truth]))


def write_rows(bags, path):
    pd.DataFrame(bags.instances(), columns=["a", "b", "c"]).assign(bag=bags.ids).to_csv(path, index=False)


def test_the_result_is_that_of_the_command(tmp_path, succeeds):
    run, out = train("digits", **QUICK, **SMALL), tmp_path / "run"
    words = "train digits --method count --recipe quick --epochs 2 --scenario large --bags 20 --bag-size 8 --device cpu"
    succeeds(*words.split(), "--out", out)
    result = json.loads((out / "result.json").read_text())
    assert run.metrics == result["test"]
    assert [record["val_loss"] for record in run.history] == [
        json.loads(line)["val_loss"] for line in (out / "metrics.jsonl").read_text().splitlines()
    ]
    assert "instance_accuracy" in run.metrics
    assert "count" in repr(run)
    assert run.report.read_text().startswith("<!DOCTYPE html>")


def test_without_out_the_folder_is_removed_with_the_object(capsys):
    run = train("digits", **QUICK, **SMALL)
    folder = run.folder
    assert (folder / "result.json").exists()
    del run
    assert not folder.exists()
    assert capsys.readouterr() == ("", "")  # verbose=False


def test_bags_in_memory_are_divided_and_a_run_folder_is_reopened(tmp_path):
    bags, out, epochs = make_bags(), tmp_path / "run", []

    class Count(Callback):
        def on_epoch_end(self, record):
            epochs.append(record["epoch"])

    run = train(bags, **QUICK, out=out, callbacks=[Count()])
    assert epochs == [0, 1]
    assert run.folder == out
    assert run.result["test"]["bags"] == 6
    again = train(bags, **QUICK, out=out, callbacks=[Count()])
    assert epochs == [0, 1]
    assert again.result == run.result
    with pytest.raises(InputError, match="have changed"):
        train(make_bags(seed=1), **QUICK, out=out)
    assert "majority train" not in run.report.read_text()  # there is no such command for these bags


def test_folds_are_all_trained_unless_one_is_named(tmp_path):
    bags = make_bags()
    found = train(bags, **QUICK, folds=3, out=tmp_path / "folds")
    assert [run.folder.name for run in found.runs] == ["fold0", "fold1", "fold2"]
    assert found.metrics["bags"] == 30, "each bag is tested once"
    accuracies = [run.metrics["instance_accuracy"] for run in found.runs]
    assert found.metrics["instance_accuracy"] == pytest.approx(np.mean(accuracies))
    X = bags.instances()
    mean = np.mean([run.classifier.predict_proba(X) for run in found.runs], axis=0)
    np.testing.assert_allclose(found.classifier.predict_proba(X), mean, rtol=1e-5)
    alone = train(bags, **QUICK, folds=3, fold=1)
    assert alone.metrics == found.runs[1].metrics


def test_the_commands_on_a_run_of_bags_in_memory(tmp_path, refused, succeeds):
    bags, out, written = make_bags(), tmp_path / "run", tmp_path / "classes.csv"
    train(bags, **QUICK, out=out)
    assert "give the bags to use as SOURCE" in refused("evaluate", out)
    write_rows(bags, tmp_path / "new.csv")
    succeeds("predict", out, tmp_path / "new.csv", "--out", written)
    assert len(pd.read_csv(written)) == len(bags.index)


def test_given_parts_are_used_as_they_are():
    parts = load_source("digits").make_parts(**SMALL)
    run = train(parts, **QUICK)
    assert run.metrics == train("digits", **QUICK, **SMALL).metrics
    without_test = train((parts.train, parts.val), **QUICK)
    assert without_test.result["test"] == {}
    assert without_test.metrics == without_test.result["val"]
    with pytest.raises(InputError, match="scenario"):
        train(parts, scenario="small", **QUICK)


def test_a_labelled_set_of_one_s_own():
    rng = np.random.default_rng(0)
    labels = np.arange(300) % 3
    rows = (4 * np.eye(3)[labels] + rng.normal(size=(300, 3))).astype(np.float32)
    source = LabelledSet("clouds", rows, labels, ("ant", "bee", "owl"))
    run = train(source, **QUICK, bags=12, bag_size=6, scenario="large")
    assert run.metrics["bags"] == 3


@pytest.mark.parametrize(
    ("source", "reason"),
    [(3, "give a name"), ((1, 2), "tuple of Bags"), ("nothing.csv", "nothing.csv"), (make_bags()._with, "give a name")],
)
def test_other_objects_are_refused(source, reason, tmp_path):
    with pytest.raises(InputError, match=reason):
        train(source, **QUICK, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_bags_without_labels_are_read_and_classified_but_not_trained_on(tmp_path):
    bags = make_bags()
    write_rows(bags, tmp_path / "new.csv")
    source = load_source(tmp_path / "new.csv", labels=False)
    assert "without a label" in repr(source)
    classifier = train(bags, **QUICK).classifier
    assert classifier.predict_bags(source.bags).counts.sum() == len(bags.index)
    with pytest.raises(InputError, match="no labels"):
        train(source, **QUICK)
    with pytest.raises(InputError, match="labelled set"):
        load_source("digits", labels=False)


def test_a_classifier_is_loaded_from_its_run_folder(tmp_path):
    bags = make_bags()
    run = train(bags, **QUICK, out=tmp_path / "run")
    loaded = Classifier.load(tmp_path / "run")
    assert np.array_equal(loaded.predict_proba(bags.instances()), run.classifier.predict_proba(bags.instances()))
    assert all(word in repr(loaded) for word in ("count", "ant, bee, owl", "(3,)"))
    with pytest.raises(InputError, match="finished run folder"):
        Classifier.load(Path(tmp_path))
