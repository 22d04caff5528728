"""Which columns of a table become features, what each becomes, and that prediction does the same."""

import json

import numpy as np
import pandas as pd
import pytest

from majority import Classifier, load_source

TRAIN = ("--recipe", "quick", "--method", "adjusted-mean", "--epochs", 1, "--device", "cpu")
SITES = ["north", "south", "west"]


def mixed(make, bags=30):
    """A table with a category, missing numbers, true and false, a constant and a text with many values."""
    table = make.table(bags=bags)
    rows = np.arange(len(table))
    return table.assign(
        site=np.resize(SITES, len(table)),
        age=np.where(rows % 7 == 0, np.nan, rows % 11),
        stained=np.where(rows % 3 == 0, "True", "False"),
        version=3,
        remark=[f"seen on day {row}" for row in rows],
    )


def test_what_each_column_becomes(tmp_path, make, finds):
    table = mixed(make)
    table.to_csv(tmp_path / "bags.csv", index=False)
    source = load_source(tmp_path / "bags.csv")
    names = ("a", "b", "site=north", "site=south", "site=west", "age", "age is missing", "stained")
    assert source.encoder.features == names
    store, median = source.bags.store, table["age"].median()
    assert np.array_equal(store[:, 2:5].argmax(axis=1), np.arange(150) % 3)
    assert (store[:, 2:5].sum(axis=1) == 1).all()
    np.testing.assert_array_equal(store[:, 5], table["age"].fillna(median))
    np.testing.assert_array_equal(store[:, 6], table["age"].isna())
    np.testing.assert_array_equal(store[:, 7], np.arange(150) % 3 == 0)
    facts = [("site is text", "3 values (north, south, west)"), ("age (22)", "median"), ("version ", "one value")]
    for some in (*facts, ("remark ", "not used", "text with more than")):
        assert finds(table, *some, kind="warning")


def test_prediction_does_the_same_as_training(tmp_path, majority, refused, succeeds, make, says):
    table, run = mixed(make), tmp_path / "run"
    table.to_csv(tmp_path / "bags.csv", index=False)
    succeeds("train", tmp_path / "bags.csv", *TRAIN, "--out", run)
    encoder = json.loads((run / "config.json").read_text())["encoder"]
    assert [column["name"] for column in encoder["columns"]] == ["a", "b", "site", "age", "stained"]
    new = table.sample(frac=1, axis=1, random_state=0).drop(columns=["version", "remark"])
    new.to_csv(tmp_path / "new.csv", index=False)
    for name in ("bags", "new"):
        succeeds("predict", run, tmp_path / f"{name}.csv", "--out", tmp_path / f"{name}-out.csv")
    assert (tmp_path / "bags-out.csv").read_text() == (tmp_path / "new-out.csv").read_text()
    classifier = Classifier.load(run / "best.safetensors", "cpu")
    of_frame = classifier.predict_proba(pd.read_csv(tmp_path / "new.csv"))
    of_store = classifier.predict_proba(load_source(tmp_path / "bags.csv").bags.store)
    np.testing.assert_allclose(of_frame, of_store, atol=1e-6)
    new.assign(site="east", age=np.nan).to_csv(tmp_path / "new.csv", index=False)
    code, *texts = majority("predict", run, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert code == 0
    assert says("".join(texts), "warning: ", "column site ", "training did not have (east)")
    others = {
        "row 5: feature a is empty": new.assign(a=new["a"].where(new.index != 3)),
        "no column age (did you mean Age?)": new.rename(columns={"age": "Age"}),
        "feature b is 'old' (150 times)": new.assign(b="old"),
    }
    for fact, other in others.items():
        other.to_csv(tmp_path / "new.csv", index=False)
        err = refused("predict", run, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
        assert says(err, str(tmp_path / "new.csv"), fact)


UNUSED = {  # a further column -> facts of the warning that it is not used, or should not be
    "dates": (
        lambda t, m: pd.Timestamp("2020-01-01") + pd.to_timedelta(t.index**2, "h"),
        ("not used: datetime64",),
    ),
    "lists": (lambda t, m: [np.ones(3)] * len(t), ("not used: ndarray",)),
    "nothing": (lambda t, m: None, ("not used: nothing",)),
    "labels under another name": (
        lambda t, m: t["label"].map({"7": "oak", "12": "elm"}),
        ("names of classes", "rename it to label"),
    ),
    "sites": (lambda t, m: m.column(t, SITES), ("text that is the same in all rows of each bag",)),
    "row numbers": (lambda t, m: np.random.default_rng(0).permutation(len(t)), ("number the rows", "--features")),
    "ids with gaps": (lambda t, m: 5000 + np.cumsum(1 + t.index % 5), ("number the rows", "--features")),
}


@pytest.mark.parametrize("kind", UNUSED)
def test_a_column_that_is_no_feature_is_warned_of(tmp_path, make, finds, kind):
    values, facts = UNUSED[kind]
    table = make.table()
    table["further"] = values(table, make)
    if "labels" in kind:
        table["bag_label"] = table["bag_label"].map({"7": "oak", "12": "elm"})
        table = table.drop(columns="label")
    table.to_parquet(tmp_path / "bags.parquet")
    assert finds(tmp_path / "bags.parquet", "further", *facts, kind="warning")
    assert finds(tmp_path / "bags.parquet", kind="warning", features=("a", "b"))


@pytest.mark.parametrize(
    "numbers",
    [
        lambda t: np.random.default_rng(0).permutation(np.cumsum(1 + t.index % 5) * 1000),
        lambda t: (t["bag"] == "slide3") & (t.index == 15),
    ],
    ids=["sums", "rare, and not constant"],
)
def test_columns_like_ids_by_chance_are_features(make, finds, numbers):
    assert finds(make.table().assign(further=lambda t: numbers(t)), kind="warning")


def test_features_are_chosen_by_name(tmp_path, make, finds):
    table = make.table(site="north").rename(columns={"a": "Age", "b": "height, cm"})
    assert finds(table, "column age ", "did you mean Age?", "--features", features=("age",))
    assert finds(
        table.assign(notes=[f"n {i}" for i in range(150)]),
        "column notes of --features contains text",
        features=("notes",),
    )
    assert load_source(tmp_path / "bags.csv", features=["height, cm"]).encoder.names == ("height, cm",)
    leak = table.assign(Label=table["label"]).drop(columns="label")
    assert finds(leak, "column Label is not used", "like the column label", kind="warning")
    assert "Label" not in load_source(tmp_path / "bags.csv").encoder.names
    assert finds(leak, features=("Age", "Label"))


def test_names_like_reserved_ones_may_be_features(make, finds):
    names = ["x1", "X", "group_size", "weights2", "weight_kg", "path_length", "patch", "label2", "bag_x"]
    table, rng = make.table(), np.random.default_rng(0)
    assert finds(table.assign(**{name: rng.normal(size=len(table)) for name in names}), kind="warning")


def test_numbered_columns_are_shown_as_a_range(tmp_path, majority, make):
    table, rng = make.table().drop(columns=["a", "b"]), np.random.default_rng(0)
    many = pd.DataFrame(rng.normal(size=(len(table), 64)), columns=[f"f{i:02}" for i in range(64)])
    pd.concat([table, many.assign(age=rng.normal(size=len(table)))], axis=1).to_csv(tmp_path / "a.csv")
    assert "66 columns: unnamed1, f00 to f63, age" in majority("check", tmp_path / "a.csv")[1]


def test_images_for_a_run_of_vectors_and_vice_versa(tmp_path, refused, succeeds, make, says):
    make.table().to_csv(tmp_path / "vectors.csv", index=False)
    make.images(tmp_path, bags=20).to_csv(tmp_path / "images.csv", index=False)
    for kind in ("vectors", "images"):
        succeeds("train", tmp_path / f"{kind}.csv", *TRAIN, "--out", tmp_path / f"run-{kind}")
    for run, source, cure in [("vectors", "images.csv", "columns a, b"), ("images", "vectors.csv", "column path")]:
        err = refused("predict", tmp_path / f"run-{run}", tmp_path / source, "--out", tmp_path / "p.csv")
        assert says(err, f"the run classifies {run}", str(tmp_path / source), cure)
