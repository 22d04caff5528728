"""Files of labelled instances: valid ones are read, others refused with the file, the cause and the cure."""

import io
import zipfile

import numpy as np
import pytest
from scipy.io import savemat

from majority import io as sources
from majority.errors import InputError
from majority.io.benchmarks import readers

RNG = np.random.default_rng(0)


def images(n, *shape) -> np.ndarray:
    return RNG.integers(0, 256, (n, *shape), dtype=np.uint8)


def arrays(**changes) -> dict:
    """A valid set of ten training and six test images; None removes an array."""
    valid = {
        "train_images": images(10, 4, 5, 3),
        "train_labels": (np.arange(10, dtype=np.uint8) % 3)[:, None],
        "val_images": images(2, 4, 5, 3),
        "val_labels": np.zeros((2, 1), np.uint8),
        "test_images": images(6, 4, 5, 3),
        "test_labels": (np.arange(6, dtype=np.uint8) % 3)[:, None],
    }
    return {key: value for key, value in (valid | changes).items() if value is not None}


@pytest.fixture
def save(tmp_path):
    def write(**content):
        np.savez_compressed(tmp_path / "mine.npz", **content)
        return tmp_path / "mine.npz"

    return write


@pytest.fixture
def save_mat(tmp_path):
    def write(**content):
        savemat(tmp_path / "mine.mat", content)
        return tmp_path / "mine.mat"

    return write


def test_train_and_test_are_merged_and_val_is_not_used(save):
    content = arrays()
    labelled = sources.load(save(**content))
    assert repr(labelled) == "LabelledSet(mine: 16 instances of shape (4, 5, 3), 3 classes)"
    np.testing.assert_array_equal(labelled.store[:10], content["train_images"])
    np.testing.assert_array_equal(labelled.store[10:], content["test_images"])
    assert labelled.labels.tolist() == [0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 0, 1, 2, 0, 1, 2]
    assert labelled.labels.dtype == np.int64
    assert labelled.classes == ("0", "1", "2")
    assert labelled.groups is None


def test_grey_images_flat_labels_no_test_set_and_a_path_as_text(save):
    grey = images(10, 4, 5)
    path = save(train_images=grey, train_labels=np.arange(10) % 2)
    labelled = sources.load(str(path))
    assert labelled.store.shape == (10, 4, 5, 1)
    np.testing.assert_array_equal(labelled.store[..., 0], grey)


def test_other_label_values_keep_their_names(save):
    path = save(train_images=images(4, 2, 2), train_labels=np.array([7, 100, -3, 7]))
    labelled = sources.load(path)
    assert labelled.classes == ("-3", "7", "100")
    assert labelled.labels.tolist() == [1, 2, 0, 1]
    path = save(train_images=images(3, 2, 2), train_labels=np.array(["tumour", "normal", "tumour"]))
    assert sources.load(path).classes == ("normal", "tumour")


@pytest.mark.parametrize("kind", ["patients", "groups"])
def test_groups(save, kind):
    content = arrays() | {f"train_{kind}": np.arange(10), f"test_{kind}": np.arange(5, 11)[:, None]}
    assert sources.load(save(**content)).groups.tolist() == [*range(10), *range(5, 11)]


BAD_ARRAYS = [
    ({"train_images": None}, "no array train_images: MedMNIST's layout is"),
    ({"test_labels": None}, "no array test_labels"),
    ({"train_images": images(10, 4, 5, 3) / 255}, r"train_images have dtype float64 .*uint8"),
    ({"test_images": images(6, 5, 4, 3)}, r"\(4, 5, 3\) and \(5, 4, 3\)"),
    ({"train_labels": np.arange(9) % 3}, r"train_labels have .*shape \(9,\).*each of the 10 instances"),
    ({"train_labels": np.linspace(0, 1, 10)}, "train_labels have dtype float64"),
    ({"train_labels": np.zeros(10, int), "test_labels": np.zeros(6, int)}, "only the class 0.*two classes"),
    ({"train_labels": np.array([{}] * 10)}, r"cannot be read .*pickle"),
    ({"train_patients": np.arange(10)}, "no array test_patients.*patients or groups of every split"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_ARRAYS)
def test_bad_npz(save, changes, message):
    with pytest.raises(InputError, match=message) as caught:
        sources.load(save(**arrays(**changes)))
    assert "mine.npz" in str(caught.value)


def test_files_that_are_not_npz(tmp_path):
    path = tmp_path / "mine.npz"
    with io.BytesIO() as buffer:
        np.save(buffer, images(3, 2, 2))
        lone_array = buffer.getvalue()
    for content in (b"", b"PK", b"not a zip at all", b"\x80\x04}q\x00.", lone_array):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"mine.npz cannot be read as \.npz file .*damaged"):
            sources.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train_images", "text")
    with pytest.raises(InputError, match=r"mine\.npz"):
        sources.load(path)


def test_a_mat_file_in_the_layout_of_svhn(save_mat):
    pictures = images(6, 4, 5, 3)
    path = save_mat(X=pictures.transpose(1, 2, 3, 0), y=np.array([[10], [1], [9], [10], [1], [9]], np.uint8))
    labelled = sources.load(path)
    np.testing.assert_array_equal(labelled.store, pictures)
    assert labelled.labels.tolist() == [0, 1, 2, 0, 1, 2]
    assert labelled.classes == ("0", "1", "9")


BAD_MATS = [
    ({"Z": np.ones(6)}, "no X or no y"),
    ({"X": images(4, 5, 3, 6) / 2, "y": np.ones(6)}, "train_images have dtype float64"),
    ({"X": images(4, 5, 3, 6), "y": np.ones(5)}, "exactly one .* for each of the 6 instances"),
    ({"X": images(4, 5, 3, 6), "y": np.array([1, 2.5, 3, np.nan, 1, 2])}, "y has values that are no integers"),
    ({"X": images(4, 5, 3, 6), "y": np.array([1, 2, 3, 11, 1, 2])}, "from 1 to 10"),
]


@pytest.mark.parametrize(("content", "message"), BAD_MATS)
def test_bad_mat(save_mat, content, message):
    with pytest.raises(InputError, match=message) as caught:
        sources.load(save_mat(**content))
    assert "mine.mat" in str(caught.value)


def test_a_mat_file_that_ends_the_process_of_its_reader(save_mat, monkeypatch):
    monkeypatch.setattr(readers, "ARRAYS", "import os; os.abort()")
    with pytest.raises(InputError, match=r"mine\.mat cannot be read .*crashed.*damaged"):
        sources.load(save_mat(X=images(4, 5, 3, 6), y=np.arange(6) + 1))


def test_unknown_names_and_paths(tmp_path):
    with pytest.raises(InputError, match=r"'cifar-10' \(did you mean cifar10\?\).*digits, .*path to.*MAJORITY_PLUGINS"):
        sources.load("cifar-10")
    with pytest.raises(InputError, match=r"did you mean pathmnist\?"):
        sources.load("PathMNIST")
    with pytest.raises(InputError, match=r"no source 'xyzzy'.*digits"):
        sources.load("xyzzy")
    for absent in ("absent.npz", "folder/absent", tmp_path / "absent"):
        with pytest.raises(InputError, match=r"there is no file .*absent"):
            sources.load(absent)
    (tmp_path / "plain.csv").write_text("a,b")
    with pytest.raises(InputError, match=r"no file.*did you mean .*plain\.csv\?"):
        sources.load(str(tmp_path / "plian.csv"))
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    with pytest.raises(InputError, match=r"no file.*loop\.csv: check the path"):
        sources.load(tmp_path / "loop.csv")
    (tmp_path / "table.txt").write_text("a,b")
    with pytest.raises(InputError, match=r"table\.txt .*\.npz, \.mat, \.csv, \.tsv or \.parquet"):
        sources.load(tmp_path / "table.txt")
