"""Weighted instances through the commands, on fields whose winner by area is not the one by number."""

import json

import numpy as np
import pandas as pd
import pytest

from majority import MajorityLabelClassifier, bag_accuracy, train

CROPS = ("barley", "maize", "oats")
SETTINGS = {"training.epochs": 30}


def make_fields(path=None, bags=90, seed=0):
    """Districts of one large field and four small ones of another crop: the label is the crop of the large one."""
    rng, rows = np.random.default_rng(seed), []
    for bag in range(bags):
        large, small = CROPS[bag % 3], CROPS[(bag + 1 + bag // 3 % 2) % 3]
        fields = [(large, rng.uniform(20, 40)), *((small, rng.uniform(1, 4)) for _ in range(4))]
        for crop, area in fields:
            features = 2 * np.eye(3)[CROPS.index(crop)] + 0.6 * rng.normal(size=3)
            rows.append((f"d{bag}", large, crop, round(area, 2), *features.round(3)))
    table = pd.DataFrame(rows, columns=["bag", "bag_label", "label", "weight", "red", "green", "blue"])
    if path is not None:
        table.to_csv(path, index=False)
    return table


def train_quick(source, **options):
    return train(source, recipe="quick", method="log-mean", settings=SETTINGS, device="cpu", verbose=False, **options)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    table = make_fields(folder / "fields.csv")
    table.drop(columns="weight").to_csv(folder / "unweighted.csv", index=False)
    return folder, train_quick(folder / "fields.csv", out=folder / "run")


def test_training_with_areas_is_right_where_ignoring_them_is_not(trained):
    folder, run = trained
    ignoring = train_quick(folder / "unweighted.csv")
    assert run.metrics["instance_accuracy"] > 0.9
    assert ignoring.metrics["instance_accuracy"] < 0.5  # four of five fields are not of the label's crop
    assert run.metrics["bag_accuracy"] > 0.9
    assert run.metrics["weighted_accuracy"] != run.metrics["instance_accuracy"]
    assert run.classifier.columns == ("red", "green", "blue"), "the weight is no feature"


def test_the_default_recipe_follows_weights(trained):
    folder, _ = trained
    settings = {"training.epochs": 5, "census.head.epochs": 20, "census.teachers": 1}
    run = train(folder / "fields.csv", settings=settings, refit=False, device="cpu", verbose=False)
    assert run.result["recipe"] == "census"
    assert run.metrics["instance_accuracy"] > 0.9


def test_check_evaluate_report_and_predict_follow_them(trained, majority, succeeds):
    folder, _ = trained
    source = folder / "fields.csv"
    out = succeeds("check", source)
    assert "rename the column if it is a feature" in out
    assert "most common true class" not in out, "by area every label is right"
    _, plain, _ = majority("check", folder / "unweighted.csv")
    assert "bags with a label other than the most common true class: 90" in plain
    succeeds("evaluate", folder / "run", source, "--out", folder / "figures.json", "--device", "cpu")
    figures = json.loads((folder / "figures.json").read_text())["parts"]["all"]["figures"]
    assert figures["bag_accuracy"] > 0.9
    assert figures["weighted_accuracy"] > 0.9
    succeeds("predict", folder / "run", source, "--bags", "--out", folder / "bags.csv")
    found, table = pd.read_csv(folder / "bags.csv").set_index("bag"), make_fields()
    expected = table.groupby("bag")["bag_label"].first().reindex(found.index)
    assert (found["majority"] == expected).mean() > 0.9
    total = found[[f"weight({crop})" for crop in CROPS]].sum(axis=1)
    assert np.allclose(total, table.groupby("bag")["weight"].sum().reindex(found.index), rtol=1e-4)
    assert (found[[f"n({crop})" for crop in CROPS]].sum(axis=1) == 5).all()
    share = found[[f"weight({crop})" for crop in CROPS]].max(axis=1) / total
    assert np.allclose(found["share"], share, atol=1e-4)
    assert "Instances have weights" in (folder / "run/report.html").read_text()
    assert "largest sum of the weights" in (folder / "run/model-card.md").read_text()


def test_parts_of_a_parquet_table_add_up(trained, succeeds, tmp_path):
    folder, _ = trained
    make_fields().to_parquet(tmp_path / "fields.parquet", row_group_size=33)
    words = ("predict", folder / "run", tmp_path / "fields.parquet", "--bags")
    succeeds(*words, "--out", tmp_path / "whole.parquet")
    succeeds(*words, "--out", tmp_path / "parts", "--block-rows", "33")
    whole, parts = (pd.read_parquet(tmp_path / name) for name in ("whole.parquet", "parts/bags.parquet"))
    pd.testing.assert_frame_equal(whole, parts)


def test_a_wrong_weight_is_named_with_its_row(tmp_path, refused):
    table = make_fields(bags=30).astype({"weight": object})
    for cell in ("-2", "", "large"):
        table.loc[3, "weight"] = cell
        table.to_csv(tmp_path / "fields.csv", index=False)
        error = refused("train", tmp_path / "fields.csv", "--out", tmp_path / "run")
        assert "row 5" in error
        assert f"weight is {cell or 'empty'}" in error
        assert "above 0" in error
        assert not (tmp_path / "run").exists()


def test_a_method_that_cannot_follow_them_says_so_before_it_starts(trained, refused, tmp_path):
    folder, _ = trained
    words = ("train", folder / "fields.csv", "--recipe", "quick", "--method", "attention", "--out", tmp_path / "run")
    assert "method attention cannot follow" in refused(*words)
    assert not (tmp_path / "run/config.json").exists()


def test_the_estimator_takes_them():
    table = make_fields()
    X, y, groups, weights = table[["red", "green", "blue"]], table["bag_label"], table["bag"], table["weight"]
    model = MajorityLabelClassifier(recipe="quick", method="log-mean", epochs=30, random_state=0)
    model.fit(X, y, groups, instance_weights=weights)
    assert (model.predict(X) == table["label"]).mean() > 0.9
    assert model.score(X, y, groups, weights) > 0.9 > model.score(X, y, groups)
    assert bag_accuracy(model, X, y, groups, weights) == model.score(X, y, groups, weights)
    with pytest.raises(ValueError, match="instance 0 has weight 0"):
        model.fit(X, y, groups, instance_weights=np.where(np.arange(len(X)) == 0, 0, weights))
