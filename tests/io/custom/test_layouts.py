"""Bags as they come: other column names, tabs, a folder of images per bag, no labels."""

import builtins

import numpy as np
import pandas as pd
import pytest

from majority import load_source
from majority.io import check_source

TRAIN = ("--recipe", "quick", "--epochs", 1, "--device", "cpu")


def test_columns_of_other_names(tmp_path, majority, make, says):
    """The names are given once; predict and evaluate know them from the run."""
    names = {"bag": "case id", "bag_label": "Diagnosis"}
    table = make.table()
    table.to_csv(tmp_path / "usual.csv", index=False)
    table.rename(columns=names).to_csv(tmp_path / "own.csv", index=False)
    words = ("--bag-column", "case id", "--label-column", "Diagnosis")
    assert majority("check", tmp_path / "own.csv")[0] == 1
    code, out, _ = majority("check", tmp_path / "own.csv", *words)
    assert code == 0, out
    run = tmp_path / "run"
    code, _, err = majority("train", tmp_path / "own.csv", *words, *TRAIN, "--out", run)
    assert code == 0, err
    for source in ("own.csv", "usual.csv"):
        assert majority("predict", run, tmp_path / source, "--out", tmp_path / f"p-{source}")[0] == 0
        assert majority("evaluate", run, tmp_path / source)[0] == 0
    assert (tmp_path / "p-own.csv").read_text() == (tmp_path / "p-usual.csv").read_text()
    code, out, _ = majority("check", tmp_path / "own.csv", "--bag-column", "case_id", "--label-column", "Diagnosis")
    assert code == 1
    assert says(out, "no column case_id", "mean case id?", "--bag-column")


def test_new_bags_of_other_names(tmp_path, majority, make):
    table, run = make.table(), tmp_path / "run"
    table.to_csv(tmp_path / "usual.csv", index=False)
    assert majority("train", tmp_path / "usual.csv", *TRAIN, "--out", run)[0] == 0
    table.rename(columns={"bag": "case"}).drop(columns="bag_label").to_csv(tmp_path / "new.csv", index=False)
    out = tmp_path / "p.csv"
    assert majority("predict", run, tmp_path / "new.csv", "--out", out)[0] == 2
    assert majority("predict", run, tmp_path / "new.csv", "--bag-column", "case", "--out", out)[0] == 0


def test_a_name_takes_the_place_of_the_usual_one(tmp_path, make):
    """The column named by the option is used, also where another one has the usual name."""
    table = make.table().drop(columns="label")
    table["second_reader"] = np.where(table["bag_label"] == "7", "yes", "no")
    table.to_csv(tmp_path / "bags.csv", index=False)
    bags = load_source(tmp_path / "bags.csv", label_column="second_reader", features=["a", "b"]).bags
    assert bags.classes == ("no", "yes")


def test_path_column(tmp_path, make):
    table = make.images(tmp_path).rename(columns={"path": "tile"})
    table.to_csv(tmp_path / "bags.csv", index=False)
    assert load_source(tmp_path / "bags.csv", path_column="tile").bags.store.ndim == 4


def test_names_of_columns_are_refused_for_a_labelled_set(majority):
    code, _, err = majority("check", "digits", "--bag-column", "b")
    assert code == 2
    assert "digits" in err


@pytest.mark.parametrize("name", ["bags.tsv", "bags.csv"])
def test_tabs(tmp_path, make, name):
    table = make.table().rename(columns={"a": "length, cm"})
    table.to_csv(tmp_path / "commas.csv", index=False)
    table.to_csv(tmp_path / name, index=False, sep="\t")
    expected, found = (load_source(tmp_path / file).bags for file in ("commas.csv", name))
    assert expected.fingerprint() == found.fingerprint()


def image_folder(folder, make):
    """The images of `make.images` in one folder per bag, with a table of labels."""
    table = make.images(folder)
    for row in table.itertuples():
        (folder / "bags" / row.bag).mkdir(parents=True, exist_ok=True)
        (folder / row.path).rename(folder / "bags" / row.bag / row.path.split("/")[-1])
    labels = table.drop_duplicates("bag")[["bag", "bag_label"]].rename(columns={"bag_label": "label"})
    labels.to_csv(folder / "bags" / "labels.csv", index=False)
    return folder / "bags"


def test_a_folder_of_images_per_bag(tmp_path, majority, make, says):
    folder = image_folder(tmp_path, make)
    (folder / "notes").mkdir()  # a folder without images is no bag
    (folder / "b0" / "about.txt").write_text("not an image")
    code, out, _ = majority("check", folder)
    assert code == 0, out
    assert says(out, "instances", "36 images of 8x8x3")
    assert says(out, "warning", "left out: notes")
    assert says(out, "warning", "left out: b0/about.txt")
    code, _, err = majority("train", folder, *TRAIN, "--out", tmp_path / "run")
    assert code == 0, err
    (folder / "labels.csv").unlink()
    code, _, err = majority("predict", tmp_path / "run", folder, "--out", tmp_path / "p.csv")
    assert code == 0, err
    rows = pd.read_csv(tmp_path / "p.csv")
    assert rows["path"][0] == "b0/0-0.png"
    assert rows["bag"].nunique() == 12


def test_problems_of_a_folder_of_images(tmp_path, majority, make, says):
    folder = image_folder(tmp_path, make)
    (folder / "b3").rename(folder / "b33")
    (folder / "b5" / "5-1.png").write_bytes(b"no image")
    code, out, _ = majority("check", folder)
    assert code == 1
    assert says(out, "labels.csv, row ", "bag b3 has no folder")
    assert says(out, "b33", "no row in labels.csv")
    assert says(out, "5-1.png", "not a PNG")
    (folder / "labels.csv").unlink()
    code, out, _ = majority("check", folder)
    assert code == 1
    assert says(out, "no table of labels", "labels.csv")


def test_bags_of_a_folder_of_images_may_have_no_label(tmp_path, majority, make, says):
    folder = image_folder(tmp_path, make)
    labels = pd.read_csv(folder / "labels.csv", dtype=str)
    labels.loc[3, "label"] = ""
    labels.to_csv(folder / "labels.csv", index=False)
    code, out, _ = majority("check", folder)
    assert code == 0
    assert "1 bag without a label" in out
    assert says(out, "1 bag has no label", f"(e.g. {labels['bag'][3]})")
    assert "\n0 problems" in out


def test_check_for_predict(tmp_path, majority, make, says):
    """Bags without labels have no problem, and few bags of a class no warning, unless one trains."""
    table, place = make.table(bags=6), tmp_path / "bags.csv"
    table.to_csv(place, index=False)
    assert says(majority("check", place)[1], "warning", "only 3 bags")
    code, out, _ = majority("check", place, "--for", "predict")
    assert code == 0
    assert says(out, "0 problems, 0 warnings")
    table.assign(bag_label=table["bag_label"].where(table["bag"] != "slide1", "")).to_csv(place, index=False)
    assert majority("check", place)[0] == 0
    assert majority("check", place, "--for", "predict")[0] == 0
    table.drop(columns=["bag_label", "label"]).to_csv(place, index=False)
    assert majority("check", place)[0] == 1
    code, out, _ = majority("check", place, "--for", "predict")
    assert code == 0, out
    assert says(out, "0 problems, 0 warnings")
    assert majority("check", place, "--for", "both")[0] == 2


def test_bags_with_a_label_on_some_rows_only_are_one_problem_each(tmp_path, majority, make, says):
    table, place = make.table(bags=30, size=5), tmp_path / "bags.csv"
    table.loc[~table["bag"].duplicated() & table["bag"].isin([f"slide{i}" for i in range(20)]), "bag_label"] = ""
    table.to_csv(place, index=False)
    assert len(check_source(place).problems) == 20
    code, out, _ = majority("check", place)
    assert code == 1
    assert out.count("problem: ") == 1
    assert says(out, "rows 3, 8, 13", "bag slide0 has two bag_labels ('' in its first row", "the same value")


def test_a_missing_package_is_one_problem(tmp_path, majority, make, monkeypatch, says):
    def write(path, features):
        path.write_bytes(b"")

    make.folder(tmp_path / "slides", suffix=".h5", write=write)
    found = builtins.__import__

    def without_h5py(name, *rest):
        if name == "h5py":
            raise ImportError(name)
        return found(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without_h5py)
    code, out, _ = majority("check", tmp_path / "slides")
    assert code == 1
    assert says(out, "1 problem, ")
    assert says(out, "pip install h5py")


def test_many_classes_with_few_bags_are_one_warning(tmp_path, majority, says):
    rows = pd.DataFrame({"bag": range(60), "bag_label": [f"c{i // 2:02}" for i in range(60)], "a": range(60)})
    rows["a"] = rows["a"] * 0.37 % 1
    rows.to_csv(tmp_path / "bags.csv", index=False)
    out = majority("check", tmp_path / "bags.csv")[1]
    assert says(out, "warning: 30 classes are the label of fewer than ten bags each (c00 to c29)")
    assert says(out, "0 problems, 1 warning")


def test_a_folder_with_the_name_of_a_data_set(tmp_path, majority, make, says, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make.folder(tmp_path / "digits")
    code, out, _ = majority("check", "digits")
    assert code == 0
    assert "1,797 of 8x8x1" in out
    assert says(out, "note: digits is the built-in data set", "folder", "./digits")
    code, out, _ = majority("check", "./digits")
    assert code == 0
    assert "tumour" in out
    assert "note: " not in out
    train = ("--recipe", "quick", "--epochs", 1, "--out", "run")
    code, out, _ = majority("train", "./digits", *train)
    assert code == 0
    assert "note: digits" not in out
    code, out, _ = majority("predict", "run", "./digits", "--out", "classes.csv")
    assert code == 0
    assert "note: digits" not in out
    assert majority("evaluate", "run")[0] == 0
    assert majority("check", "./svhn")[0] == 2
