"""Prediction files as a user reads them: one row per instance or per bag, CSV or Parquet, written in pieces."""

import sys

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from majority import Bags, Classifier, InputError, build_model
from majority.io import predictions as prediction_files
from majority.io.predictions import check_output_path, write_predictions


def bags_of(sizes, **more):
    rng = np.random.default_rng(0)
    instances = [rng.normal(size=(size, 2)).astype(np.float32) for size in sizes]
    return Bags.from_lists(instances, ["cat", "dog"] * (len(sizes) // 2), **more)


@pytest.fixture
def classifier():
    return Classifier(build_model(bags_of([3, 4])), device="cpu")


def test_parquet_holds_the_same_in_row_groups(tmp_path, classifier, monkeypatch):
    bags = bags_of([3_000] * 8, coordinates=[np.zeros((3_000, 2), int)] * 8)
    monkeypatch.setattr(prediction_files, "ROWS_PER_GROUP", 10_000)
    for name in ("p.csv", "p.parquet"):
        write_predictions(tmp_path / name, classifier, {"test": bags})
    left, right = pd.read_csv(tmp_path / "p.csv"), pd.read_parquet(tmp_path / "p.parquet")
    pd.testing.assert_frame_equal(left, right, check_dtype=False, atol=1e-5)
    assert right.columns.tolist() == ["part", "bag", "instance", "x", "y", "class", "p(cat)", "p(dog)"]
    assert pq.ParquetFile(tmp_path / "p.parquet").num_row_groups == 2


def test_coordinates_keep_all_their_digits(tmp_path, classifier):
    places = np.array([[4649776.25, 500000.5], [4649777.25, 500000.75], [0.1, -3.0]])
    write_predictions(tmp_path / "p.csv", classifier, {"test": bags_of([1, 2], coordinates=[places[:1], places[1:]])})
    assert (pd.read_csv(tmp_path / "p.csv")[["x", "y"]].to_numpy() == places).all()


def test_rows_are_written_while_others_are_predicted(tmp_path, classifier, monkeypatch):
    """Never more than one batch of probabilities is in memory."""
    held = []
    true = Classifier.stream

    def watched(self, bags):
        for which, probabilities in true(self, bags):
            held.append(len(probabilities))
            yield which, probabilities

    monkeypatch.setattr(Classifier, "stream", watched)
    write_predictions(tmp_path / "p.csv", classifier, {"test": bags_of([1_000] * 40)})
    assert sum(held) == 40_000
    assert max(held) <= 8_192


def test_an_unfinished_file_is_removed(tmp_path, classifier, monkeypatch):
    def broken(self, bags):
        yield np.array([0]), np.full((bags.sizes[0], 2), 0.5, np.float32)
        raise RuntimeError("out of power")

    monkeypatch.setattr(Classifier, "stream", broken)
    for name in ("p.csv", "p.parquet"):
        with pytest.raises(RuntimeError):
            write_predictions(tmp_path / name, classifier, {"test": bags_of([2, 2])})
    assert list(tmp_path.iterdir()) == []


GROWTH = """
import sys
from pathlib import Path
from majority import Classifier
from majority.data import device, stores
from majority.io.predictions import write_predictions
from majority.io.custom.load import load_custom
from majority.io.custom import ReadOptions

def resident(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":")) / 1024

folder, run = Path(sys.argv[1]), Path(sys.argv[2])
stores.CHUNK_VALUES, device.BATCH_INSTANCES = 2**22, 1024
classifier = Classifier.load(run, "cpu")
before = resident("VmRSS")
for stores.IN_MEMORY_BYTES in (0, 2**30):
    source = load_custom(folder, ReadOptions(labels=False, training=False, classes=tuple(classifier.classes)))
    rows = write_predictions(folder / "p.csv", classifier, {"all": source.bags}, source)
    print(rows, resident("VmHWM") - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_features_on_disk(run_program, tmp_path):
    """192 MiB of features, 12 batches: within a bound where they are read in place, beyond it where held."""
    few = Bags.from_lists([np.ones((2, 4096), np.float32), np.zeros((2, 4096), np.float32)], ["cat", "dog"])
    place = Classifier(build_model(few, backbone="linear"), device="cpu").save(tmp_path / "classifier.safetensors")
    folder = tmp_path / "slides"
    folder.mkdir()
    for bag in range(24):
        np.lib.format.open_memmap(folder / f"{bag}.npy", "w+", np.float32, (512, 4096))  # zeros: no place on disk

    in_place, held = (line.split() for line in run_program(GROWTH, folder, place).splitlines())
    assert int(in_place[0]) == int(held[0]) == 24 * 512
    assert float(in_place[1]) < 230
    assert float(held[1]) > float(in_place[1]) + 30  # the measurement shows it


def table(bags, seed=0):
    rng = np.random.default_rng(seed)
    centre = np.repeat([[2.0, 0.0], [-2.0, 0.0]], 4, axis=0)
    pieces = []
    for bag in range(0, bags, 2):
        values = centre + rng.normal(size=(8, 2))
        ids, labels = np.repeat([bag, bag + 1], 4), np.repeat(["left", "right"], 4)
        pieces.append(
            pd.DataFrame({"bag": ids, "bag_label": labels, "a": values[:, 0], "b": values[:, 1], "x": 1.5, "y": 2})
        )
    return pd.concat(pieces)


@pytest.fixture
def run(tmp_path, succeeds):
    table(30).to_csv(tmp_path / "bags.csv", index=False)
    words = ("--recipe", "quick", "--method=log-mean", "--epochs", 8, "--device", "cpu", "--out", tmp_path / "run")
    succeeds("train", tmp_path / "bags.csv", *words)
    return tmp_path / "run"


def test_predict_from_the_command(tmp_path, majority, succeeds, run):
    succeeds("predict", run, "--out", tmp_path / "p.csv")
    rows = pd.read_csv(tmp_path / "p.csv")
    assert set(rows["part"]) == {"test"}
    assert rows.columns.tolist() == ["part", "bag", "instance", "x", "y", "class", "p(left)", "p(right)"]
    assert rows["bag"].nunique() == 6
    assert (rows["x"] == 1.5).all()
    # A manifest with other columns, in another order, without labels: columns are found by name.
    other = table(4, seed=1)[["b", "a", "bag", "x", "y"]].assign(extra=5.0)
    other.to_csv(tmp_path / "new.csv", index=False)
    code, _, err = majority("predict", run, tmp_path / "new.csv", "--out", tmp_path / "p.parquet")
    assert (code, err) == (0, "")
    rows = pd.read_parquet(tmp_path / "p.parquet")
    assert len(rows) == 16
    assert rows["instance"].tolist() == list(range(16))
    assert (rows["class"] == np.where(other["a"] > 0, "left", "right")).mean() > 0.8
    succeeds("predict", run, tmp_path / "new.csv", "--bags", "--out", tmp_path / "b.csv")
    rows = pd.read_csv(tmp_path / "b.csv")
    assert rows.columns.tolist() == ["part", "bag", "n(left)", "n(right)", "majority", "share", "margin"]
    assert rows["majority"].tolist() == ["left", "right"] * 2
    assert np.allclose(rows["margin"], abs(rows["n(left)"] - rows["n(right)"]) / 4)


def test_evaluate_on_another_source(tmp_path, refused, succeeds, run):
    table(6, seed=1).to_csv(tmp_path / "new.csv", index=False)
    assert "all bags" in succeeds("evaluate", run, tmp_path / "new.csv")
    table(6).assign(bag_label="up").to_csv(tmp_path / "new.csv", index=False)
    err = refused("evaluate", run, tmp_path / "new.csv")
    assert "no bag has a label that the run knows" in err
    assert "left, right" in err


def test_columns_of_a_frame_are_found_by_name(run):
    classifier, rows = Classifier.load(run / "best.safetensors"), table(4)
    there = classifier.predict(rows[["a", "b"]])
    assert len({*there}) == 2
    assert (classifier.predict(rows[["b", "bag", "a"]]) == there).all()
    assert (classifier.predict(rows[["a", "b"]].to_numpy("float32")) == there).all()
    with pytest.raises(InputError, match="there is no column b: this classifier was trained on a, b"):
        classifier.predict(rows[["a"]])


def test_wrong_use(tmp_path, refused, run):
    for out in ("p.txt", "absent/p.csv"):
        err = refused("predict", run, "--out", tmp_path / out)
        assert "give a file that ends in .csv or .parquet, in a folder that exists" in err
    table(4).drop(columns="a").to_csv(tmp_path / "new.csv", index=False)
    err = refused("predict", run, tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert "there is no column a: the run was trained on a, b; add the column" in err
    np.save(tmp_path / "s.npy", np.ones((2, 5), np.float32))
    err = refused("predict", run, tmp_path, "--out", tmp_path.parent / "p.csv")
    assert "this model is for float vectors of shape (2,)" in err


def test_a_csv_would_be_read_as_labels_in_a_folder_of_feature_files_and_parquet_would_not(tmp_path):
    check_output_path(tmp_path / "found.parquet", [str(tmp_path)])
    with pytest.raises(InputError, match="where tables are read: choose another folder"):
        check_output_path(tmp_path / "found.csv", [str(tmp_path)])
