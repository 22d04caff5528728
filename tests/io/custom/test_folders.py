"""Folders of feature files and of images: every format, and every kind of mismatch between files and tables."""

import os
import sys
import unicodedata

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from majority import load_source
from majority.data import stores as store_module

TRAIN = ("--recipe", "quick", "--epochs", 1, "--device", "cpu")


def write_npz(place, features):
    np.savez(place, features=features, coords=np.arange(2 * len(features)).reshape(-1, 2))


def write_h5(place, features):
    with h5py.File(place, "w") as file:
        file["features"], file["coords"] = features, np.arange(2 * len(features)).reshape(-1, 2)


def write_pt(place, features):
    content = {"features": torch.from_numpy(features).requires_grad_()}
    torch.save(content | {"coords": torch.arange(2 * len(features)).view(-1, 2)}, place)


FORMATS = {".npy": np.save, ".npz": write_npz, ".h5": write_h5, ".pt": write_pt}


@pytest.mark.parametrize("suffix", FORMATS)
def test_every_format_gives_the_same_bags(tmp_path, make, monkeypatch, suffix):
    monkeypatch.setattr(store_module, "IN_MEMORY_BYTES", 2**30 if suffix == ".npz" else 0)
    make.folder(tmp_path / "plain")
    make.folder(tmp_path / "slides", suffix=suffix, write=FORMATS[suffix])
    (tmp_path / f"slides/s3{suffix}").rename(tmp_path / f"slides/s3{suffix.upper()}")
    (tmp_path / "slides/._s0.npy").write_bytes(b"written by macOS on other file systems")
    (tmp_path / "slides/labels.csv").rename(tmp_path / "slides/clinic.csv")
    plain, source = load_source(tmp_path / "plain"), load_source(tmp_path / "slides")
    assert source.bags.fingerprint() == plain.bags.fingerprint()
    assert source.bags.classes == ("stroma", "tumour")
    assert source.numbered_within_bags
    if suffix != ".npy":
        assert source.bags.coordinates[:2].tolist() == [[0, 1], [2, 3]]


def test_training_and_prediction(tmp_path, refused, succeeds, make):
    make.folder(tmp_path / "slides", suffix=".npz", write=write_npz)
    succeeds("train", tmp_path / "slides", *TRAIN, "--out", tmp_path / "run")
    (tmp_path / "slides/labels.csv").unlink()
    succeeds("predict", tmp_path / "run", tmp_path / "slides", "--out", tmp_path / "p.csv")
    rows = pd.read_csv(tmp_path / "p.csv")
    second = rows[rows["bag"] == "s1"]
    assert second["instance"].tolist() == list(range(len(second)))
    assert second["x"].tolist() == list(range(0, 2 * len(second), 2))
    assert "no table of labels" in refused("evaluate", tmp_path / "run", tmp_path / "slides")


def test_facts_of_instances(tmp_path, make, finds):
    make.folder(tmp_path / "slides")
    sizes = {path.stem: len(np.load(path)) for path in sorted((tmp_path / "slides").glob("*.npy"))}
    rows = pd.DataFrame([(bag, i) for bag, size in sizes.items() for i in range(size)], columns=["bag", "x"])
    rows = rows.assign(y=7, weight=rows["x"] + 1, label="tumour", path=rows["bag"] + ".png")
    rows.sample(frac=1, random_state=0).sort_values("x", kind="stable").to_csv(tmp_path / "slides/instances.csv")
    source = load_source(tmp_path / "slides")
    for i, name in enumerate(source.bags.names):
        of_bag = slice(source.bags.offsets[i], source.bags.offsets[i + 1])
        assert source.bags.coordinates[of_bag].tolist() == [[row, 7] for row in range(sizes[name])]
        assert {*source.paths[of_bag]} == {f"{name}.png"}
    rows[1:].to_csv(tmp_path / "slides/instances.csv", index=False)
    assert finds(tmp_path / "slides", "instances.csv", "bag s0 has", "its feature file")


def edit_table(edit):
    def change(folder):
        table = pd.read_csv(folder / "labels.csv", dtype=str)
        edit(table).to_csv(folder / "labels.csv", index=False)

    return change


def rewrite(name, features):
    return lambda folder: np.save(folder / name, features)


ONES = np.ones((3, 3), np.float32)
SPLITS = ["train"] * 8 + ["val", "val", "test", "test"]
WRONG = {  # damage to a valid folder -> facts in one problem
    "a bag without file": (lambda f: (f / "s3.npy").unlink(), ("labels.csv, row 5", "bag s3 ", "no file")),
    "a file without label": (rewrite("extra.NPY.npy", ONES), ("bag extra.NPY ", "no row in labels.csv")),
    "another width": (rewrite("s3.npy", np.ones((3, 5), np.float32)), ("s3.npy", "5 features")),
    "NaN": (rewrite("s3.npy", np.array([[0, 0, 0], [0, np.nan, 0]], np.float32)), ("(s3), instance 1", "NaN")),
    "some files with coordinates": (
        lambda f: [(f / "s3.npy").unlink(), np.savez(f / "s3.npz", features=ONES, coords=ONES[:, :2])],
        ("no coords", "every file"),
    ),
    "two files of a bag": (lambda f: torch.save(torch.ones(2, 3), f / "s3.pt"), ("bag s3 ", "second file")),
    "no table": (lambda f: (f / "labels.csv").unlink(), ("no table of labels", "bag and label", "labels.csv")),
    "no label column": (edit_table(lambda t: t.drop(columns="label")), ("labels.csv, row 1", "no column label")),
    "a bag twice": (edit_table(lambda t: pd.concat([t, t.iloc[[0]]])), ("row 14", "bag s0 ", "one row per bag")),
    "a group in two splits": (
        edit_table(lambda t: t.assign(split=SPLITS, group="p1")),
        ("row 10", "group p1 has two splits"),
    ),
    "images": (
        lambda f: [p.rename(p.with_suffix(".PNG")) for p in f.glob("*.npy")],
        ("no feature files", "images", "CSV", "bag, bag_label and path"),
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_folder_is_refused_with_its_place(tmp_path, make, finds, wrong):
    damage, facts = WRONG[wrong]
    make.folder(tmp_path / "slides")
    damage(tmp_path / "slides")
    assert finds(tmp_path / "slides", str(tmp_path / "slides"), *facts)


def test_every_damaged_file_is_named(tmp_path, make, finds):
    make.folder(tmp_path / "slides")
    for name in ("s3.npy", "s5.npy"):
        (tmp_path / "slides" / name).write_bytes(b"?")
        assert finds(tmp_path / "slides", name, "cannot be read")


@pytest.mark.parametrize("forms", [("NFC", "NFD"), ("NFD", "NFC")])
def test_a_file_is_found_in_both_unicode_forms(tmp_path, make, forms):
    on_disk, in_table = (unicodedata.normalize(form, "Gewebe-ä") for form in forms)
    make.folder(tmp_path / "slides", table=lambda frame: frame.replace({"bag": {"s3": in_table}}))
    (tmp_path / "slides/s3.npy").rename(tmp_path / f"slides/{on_disk}.npy")
    assert len(load_source(tmp_path / "slides").bags) == 12


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_a_file_name_that_is_not_utf8_is_reported(tmp_path, make, finds):
    make.folder(tmp_path / "slides")
    (tmp_path / "slides/s3.npy").rename(os.fsdecode(os.fsencode(tmp_path / "slides") + b"/\xffname.npy"))
    assert finds(tmp_path / "slides", "\\udcffname.npy", "rename it", "UTF-8")


def test_a_folder_that_stays_on_disk_is_read_once(tmp_path, make, monkeypatch):
    monkeypatch.setattr(store_module, "IN_MEMORY_BYTES", 0)
    make.folder(tmp_path)
    read, rows = [], store_module.FeatureFiles.__getitem__
    monkeypatch.setattr(
        store_module.FeatureFiles, "__getitem__", lambda self, at: read.append(len(at)) or rows(self, at)
    )
    bags = load_source(tmp_path).bags
    assert sum(read) == len(bags.index) == len(bags.store)


# ---------------------------------------------------------------------- images


def image_folder(folder, make):
    """The images of `make.images` in one folder per bag, with a table of labels."""
    table = make.images(folder)
    for row in table.itertuples():
        (folder / "bags" / row.bag).mkdir(parents=True, exist_ok=True)
        (folder / row.path).rename(folder / "bags" / row.bag / row.path.split("/")[-1])
    labels = table.drop_duplicates("bag")[["bag", "bag_label"]].rename(columns={"bag_label": "label"})
    labels.to_csv(folder / "bags/labels.csv", index=False)
    return folder / "bags"


def test_a_folder_of_images_per_bag(tmp_path, succeeds, make, finds):
    folder = image_folder(tmp_path, make)
    (folder / "notes").mkdir()  # a folder without images is no bag
    (folder / "b0/about.txt").write_text("not an image")
    source = load_source(folder)
    assert source.bags.names[source.bags.bag_of(0)] == "b0"
    assert source.paths[source.bags.index[0]] == "b0/0-0.png"
    assert dict(zip(source.bags.names, source.bags.labels.tolist(), strict=True))["b10"] == 1
    assert finds(folder, "left out", "b0/about.txt, notes", kind="warning")
    succeeds("train", folder, *TRAIN, "--out", tmp_path / "run")
    (folder / "labels.csv").unlink()
    succeeds("predict", tmp_path / "run", folder, "--out", tmp_path / "p.csv")
    rows = pd.read_csv(tmp_path / "p.csv")
    assert rows["path"][0] == "b0/0-0.png"
    assert rows["bag"].nunique() == 12


def test_a_folder_with_the_name_of_a_data_set(tmp_path, succeeds, make, says, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make.folder(tmp_path / "digits")
    out = succeeds("check", "digits")
    assert "1,797 of 8x8x1" in out
    assert says(out, "digits is the built-in data set", "./digits")
    out = succeeds("check", "./digits")
    assert "tumour" in out
    assert "built-in" not in out
