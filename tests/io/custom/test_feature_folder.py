"""Folders of feature files: every format, and every kind of mismatch between files and table."""

import os
import re
import sys
import unicodedata
from collections import Counter

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from majority import load_source
from majority.data import stores as store_module

TRAIN = ("--recipe", "quick", "--epochs", 3, "--device", "cpu")


def write_npz(place, features):
    np.savez(place, features=features, coords=np.arange(2 * len(features)).reshape(-1, 2))


def write_h5(place, features):
    with h5py.File(place, "w") as file:
        file["features"], file["coords"] = features, np.arange(2 * len(features)).reshape(-1, 2)


def write_pt(place, features):
    torch.save({"features": torch.from_numpy(features), "coords": torch.arange(2 * len(features)).view(-1, 2)}, place)


FORMATS = {
    ".npy": np.save,
    ".npz": write_npz,
    ".h5": write_h5,
    ".pt": write_pt,
}


def test_hidden_files_are_ignored(tmp_path, make):
    make.folder(tmp_path / "slides")
    (tmp_path / "slides/._s0.npy").write_bytes(b"written by macOS on other file systems")
    assert len(load_source(tmp_path / "slides").bags) == 12


@pytest.mark.sample(4)
@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format(tmp_path, majority, make, suffix):
    make.folder(tmp_path / "slides", suffix=suffix, write=FORMATS[suffix])
    source = load_source(tmp_path / "slides")
    assert source.bags.classes == ("stroma", "tumour")
    assert len(source.bags) == 12
    assert (source.bags.coordinates is None) == (suffix == ".npy")
    code, out, err = majority("train", tmp_path / "slides", *TRAIN, "--out", tmp_path / "run")
    assert (code, err) == (0, "")
    assert "bag accuracy" in out
    code, _, err = majority("predict", tmp_path / "run", tmp_path / "slides", "--out", tmp_path / "p.csv")
    assert (code, err) == (0, "")
    rows = pd.read_csv(tmp_path / "p.csv")
    assert ("x" in rows) == (suffix != ".npy")
    second = rows[rows["bag"] == "s1"]
    assert second["instance"].tolist() == list(range(len(second)))
    if suffix != ".npy":
        assert second["x"].tolist() == list(range(0, 2 * len(second), 2))


def test_a_bare_tensor_and_another_name_for_the_table(tmp_path, make):
    make.folder(tmp_path, suffix=".pt", write=lambda place, features: torch.save(torch.from_numpy(features), place))
    (tmp_path / "labels.csv").rename(tmp_path / "clinic.csv")
    bags = load_source(tmp_path).bags
    assert len(bags) == 12
    table = pd.read_csv(tmp_path / "clinic.csv", dtype=str)
    table.rename(columns={"label": "bag_label"}).to_csv(tmp_path / "clinic.csv", index=False)
    assert load_source(tmp_path).bags.labels.tolist() == bags.labels.tolist()


def test_tensors_that_require_gradients_are_read(tmp_path, make):
    make.folder(tmp_path / "plain")

    def write(place, features):
        torch.save({"features": torch.from_numpy(features).requires_grad_()}, place)

    make.folder(tmp_path / "slides", suffix=".pt", write=write)
    assert np.array_equal(load_source(tmp_path / "slides").bags.store, load_source(tmp_path / "plain").bags.store)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("other", "in_memory"),
    [(".NPY", True), (".Npz", False), (".H5", True), (".hdf5", False), (".HDF5", True), (".PT", False), (".pth", True)],
)
def test_suffixes_in_capitals_and_synonyms(tmp_path, make, monkeypatch, other, in_memory):
    monkeypatch.setattr(store_module, "IN_MEMORY_BYTES", 2**30 if in_memory else 0)
    kind = {".hdf5": ".h5", ".pth": ".pt"}.get(other.lower(), other.lower())
    make.folder(tmp_path, suffix=kind, write=FORMATS[kind])
    expected = load_source(tmp_path).bags
    fingerprint = expected.fingerprint()
    (tmp_path / f"s3{kind}").rename(tmp_path / f"s3{other}")
    (tmp_path / "labels.csv").rename(tmp_path / "Labels.CSV")
    bags = load_source(tmp_path).bags
    assert bags.fingerprint() == fingerprint
    assert np.array_equal(bags.coordinates, expected.coordinates)


def test_a_file_with_a_suffix_in_capitals_needs_a_label_too(tmp_path, majority, make, says):
    make.folder(tmp_path)
    (tmp_path / "extra.NPY").write_bytes((tmp_path / "s3.npy").read_bytes())
    code, out, _ = majority("check", tmp_path)
    assert code == 1
    assert says(out, "extra.NPY", "bag extra ", "no row in labels.csv")


def test_a_folder_without_a_table_is_enough_to_predict(tmp_path, majority, make):
    make.folder(tmp_path / "slides")
    assert majority("train", tmp_path / "slides", *TRAIN, "--out", tmp_path / "run")[0] == 0
    make.folder(tmp_path / "new", bags=4, seed=1)
    (tmp_path / "new/labels.csv").unlink()
    code, out, _ = majority("predict", tmp_path / "run", tmp_path / "new", "--bags", "--out", tmp_path / "p.csv")
    assert code == 0
    assert "4 bags" in out
    code, _, err = majority("evaluate", tmp_path / "run", tmp_path / "new")
    assert code == 2
    assert "no table of labels" in err


def remove(name):
    return lambda folder: (folder / name).unlink()


def rewrite(name, features):
    return lambda folder: np.save(folder / name, features)


def edit_table(edit):
    def change(folder):
        table = pd.read_csv(folder / "labels.csv", dtype=str)
        edit(table).to_csv(folder / "labels.csv", index=False)

    return change


def groups_and_splits(table):
    table["split"] = ["train"] * 8 + ["val", "val", "test", "test"]
    table["group"] = "p1"
    return table


def save_pickle(folder):
    torch.save({"features": object}, folder / "s0.pt")
    (folder / "s0.npy").unlink()


ONES = np.ones((3, 3), np.float32)
WRONG = {  # damage to a valid folder -> facts in the message
    "a bag without file": (remove("s3.npy"), ("labels.csv, row 5", "bag s3 ", "no file")),
    "a file without label": (rewrite("extra.npy", ONES), ("extra.npy", "bag extra ", "no row in labels.csv")),
    "a file without rows": (rewrite("s3.npy", ONES[:0]), ("s3.npy", "empty", "(0, 3)")),
    "a file without values": (rewrite("s3.npy", np.array([])), ("s3.npy", "empty", "(0,)")),
    "another width": (rewrite("s3.npy", np.ones((3, 5), np.float32)), ("s3.npy", "5 features")),
    "another dtype": (rewrite("s3.npy", ONES.astype(np.float16)), ("s3.npy", "dtype float16")),
    "integers": (rewrite("s3.npy", np.ones((3, 3), int)), ("s3.npy", "dtype int64")),
    "big-endian": (rewrite("s3.npy", ONES.astype(">f4")), ("s3.npy", ">f4", "big-endian", ".astype('float32')")),
    "one row only as a vector": (rewrite("s3.npy", ONES[0]), ("s3.npy", "shape (3,)")),
    "NaN": (rewrite("s3.npy", np.array([[0, 0, 0], [0, np.nan, 0]], np.float32)), ("s3.npy", "row 1 of", "NaN")),
    "too large for float32": (
        lambda f: [np.save(path, np.load(path) * np.float64(1e39)) for path in f.glob("*.npy")],
        ("row 0 of the features", "more rows", "beyond ±1e+30", "extract the features again"),
    ),
    "damaged": (lambda f: (f / "s3.npy").write_bytes(b"?"), ("s3.npy", "cannot be read")),
    "a pickle": (save_pickle, ("s0.pt", "cannot be read")),
    "two files of a bag": (lambda f: torch.save(torch.ones(2, 3), f / "s3.pt"), ("bag s3 ", "second file")),
    "no table": (remove("labels.csv"), ("slides", "no table of labels", "bag and label", "labels.csv")),
    "two tables": (
        lambda f: [(f / "a.csv").write_text("bag"), (f / "labels.csv").rename(f / "b.csv")],
        ("2 tables", "bag and label", "labels.csv"),
    ),
    "no label column": (edit_table(lambda t: t.drop(columns="label")), ("labels.csv, row 1", "no column label")),
    "a bag twice": (edit_table(lambda t: pd.concat([t, t.iloc[[0]]])), ("row 14", "bag s0 ", "row 2")),
    "two labels": (
        edit_table(lambda t: pd.concat([t, t.iloc[[0]].assign(label="stroma")])),
        ("row 14", "bag s0 has two labels", "'tumour'", "'stroma'"),
    ),
    "no labels": (edit_table(lambda t: t.assign(label="")), ("no bag has a label", "`majority predict`")),
    "a runner-up that is the winner": (
        edit_table(lambda t: t.assign(second_label=[t["label"][0], *[""] * (len(t) - 1)])),
        ("row 2", "bag s0: the runner-up is the winner", "second most common"),
    ),
    "a suffix in the table": (
        edit_table(lambda t: t.assign(bag=t["bag"] + ".npy")),
        ("rows 2 to 13", "s0.npy", "suffix"),
    ),
    "a suffix in capitals": (
        edit_table(lambda t: t.assign(bag=t["bag"] + ".NPY")),
        ("rows 2 to 13", "s0.NPY", "suffix"),
    ),
    "a group in two splits": (edit_table(groups_and_splits), ("group p1 has two splits",)),
    "an unknown split": (edit_table(lambda t: t.assign(split="dev")), ("split is 'dev'", "train, val or test")),
    "images": (
        lambda f: [p.rename(p.with_suffix(".PNG")) for p in f.glob("*.npy")],
        ("no feature files", "images", "CSV", "bag, bag_label and path"),
    ),
    "no feature files": (lambda f: [p.unlink() for p in f.glob("*.npy")], ("no feature files", ".npy", "one per bag")),
}


def test_a_partitioned_parquet_table_is_joined_by_the_cure(tmp_path, monkeypatch, majority, make):
    folder = tmp_path / "bags.parquet"
    folder.mkdir()
    make.table().to_parquet(folder, partition_cols=["bag_label"])
    code, out, _ = majority("check", folder)
    assert code == 1
    monkeypatch.chdir(tmp_path)
    exec(re.search('Parquet files.* python -c "(.*)" .*joined.parquet', out)[1])
    joined = load_source(tmp_path / "joined.parquet")
    assert (len(joined.bags), joined.columns) == (30, ("a", "b"))
    assert joined.bags.classes == ("7", "12")


@pytest.mark.sample(6)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_folder_is_refused_by_check_and_by_train(tmp_path, majority, make, says, wrong):
    damage, facts = WRONG[wrong]
    folder = tmp_path / "slides"
    make.folder(folder)
    damage(folder)
    code, out, err = majority("check", folder)
    assert (code, err) == (1, "")
    assert says(out, "problem: ", *facts)
    code, _, err = majority("train", folder, *TRAIN, "--out", tmp_path / "run")
    assert code == 2
    assert says(err, *facts)


def test_a_damaged_table_and_wrong_files_are_reported_together(tmp_path, majority, make):
    make.folder(tmp_path)
    np.savez(tmp_path / "s3.npz", features=ONES)
    (tmp_path / "labels.csv").write_text('bag,label\ns0,"tumour\ns1,stroma\n')
    code, out, _ = majority("check", tmp_path)
    assert code == 1
    assert "bag s3 has a second file" in out
    assert "labels.csv: it cannot be read as CSV" in out


def test_some_files_with_coordinates(tmp_path, majority, make, says):
    make.folder(tmp_path, suffix=".npz", write=write_npz)
    np.savez(tmp_path / "s4.npz", features=ONES)
    code, out, _ = majority("check", tmp_path)
    assert code == 1
    assert says(out, "s4.npz", "no coords", "every file")


def test_problems_of_several_files_are_reported_together(tmp_path, majority, make):
    make.folder(tmp_path)
    for damage in ("another width", "NaN"):
        WRONG[damage][0](tmp_path)
        (tmp_path / "s3.npy").rename(tmp_path / f"{damage}.npy")
    code, out, _ = majority("check", tmp_path)
    assert code == 1
    assert "\n3 problems, " in out  # two files without label, a label without file
    assert out.count("problem: ") == 2


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_file_is_found_in_both_unicode_forms(tmp_path, make, forms):
    on_disk, in_table = (unicodedata.normalize(form, "Gewebe-ä") for form in forms)
    make.folder(tmp_path / "slides", table=lambda frame: frame.replace({"bag": {"s3": in_table}}))
    (tmp_path / "slides/s3.npy").rename(tmp_path / f"slides/{on_disk}.npy")
    assert len(load_source(tmp_path / "slides").bags) == 12


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_a_file_name_that_is_not_utf8_is_reported(tmp_path, majority, make, says):
    make.folder(tmp_path / "slides")
    assert majority("train", tmp_path / "slides", *TRAIN, "--out", tmp_path / "run")[0] == 0
    (tmp_path / "slides/s3.npy").rename(os.fsdecode(os.fsencode(tmp_path / "slides") + b"/\xffname.npy"))
    facts = (str(tmp_path / "slides"), "\\xffname.npy", "not UTF-8", "rename it")
    code, out, _ = majority("check", tmp_path / "slides")
    assert code == 1
    assert says(out, *facts)
    code, _, err = majority("predict", tmp_path / "run", tmp_path / "slides", "--bags", "--out", tmp_path / "p.csv")
    assert code == 2
    assert says(err, *facts)


def test_a_column_under_another_name_and_splits_in_capitals(tmp_path, majority, make, says):
    splits = ["Train", "TRAIN", "val", "VAL", "test", "Test"] * 2
    make.folder(tmp_path / "slides", table=lambda frame: frame.assign(split=splits))
    assert [len(part) for part in load_source(tmp_path / "slides").make_parts()] == [4, 4, 4]
    make.folder(tmp_path / "slides", table=lambda frame: frame.rename(columns={"bag": "slide_id"}))
    code, out, _ = majority("check", tmp_path / "slides")
    assert code == 1
    assert says(out, "no column bag (did you mean slide_id?)", "columns bag and label")


def test_a_folder_that_stays_on_disk_is_read_once(tmp_path, make, monkeypatch):
    monkeypatch.setattr(store_module, "IN_MEMORY_BYTES", 0)
    make.folder(tmp_path)
    read, rows = [], store_module.FeatureFiles.__getitem__
    monkeypatch.setattr(
        store_module.FeatureFiles, "__getitem__", lambda self, at: read.append(len(at)) or rows(self, at)
    )
    bags = load_source(tmp_path).bags
    assert sum(read) == len(bags.index) == len(bags.store)


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("suffix", [".npz", ".pt"])
def test_a_file_that_must_be_read_as_a_whole_is_read_twice_at_most(tmp_path, make, monkeypatch, suffix, in_memory):
    monkeypatch.setattr(store_module, "IN_MEMORY_BYTES", 2**30 if in_memory else 0)
    make.folder(tmp_path, suffix=suffix, write=FORMATS[suffix])
    reads = Counter()
    for module in (np, torch):
        load = module.load
        monkeypatch.setattr(
            module, "load", lambda path, *a, load=load, **k: reads.update([path.name]) or load(path, *a, **k)
        )
    assert load_source(tmp_path).bags.coordinates[:2].tolist() == [[0, 1], [2, 3]]
    assert len(reads) == 12
    assert set(reads.values()) == {2}  # to inspect it, and for its rows
