"""Named sources: small files in their published layouts, the catalogue, and the real files if they are there."""

import hashlib
import os
import tarfile
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from scipy.io import savemat

from majority import io as sources
from majority.io.benchmarks.ours import ARCHIVE, BATCHES, OurSource
from majority.io.benchmarks.published import PUBLISHED, Published

RNG = np.random.default_rng(0)
REAL = os.environ.get("MAJORITY_DATA")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A user cache for this test only, and no data folder."""
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("MAJORITY_DATA", raising=False)
    return tmp_path / "cache" / "majority"


@pytest.fixture
def data(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("MAJORITY_DATA", str(tmp_path / "data"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


@pytest.fixture
def publish(monkeypatch):
    """Make the content of a file the published content of this name."""

    def declare(name: str, path: Path):
        url = "http://127.0.0.1:9/never-asked"
        monkeypatch.setitem(PUBLISHED, name, Published(url, f"md5:{hashlib.md5(path.read_bytes()).hexdigest()}"))

    return declare


def write_batches(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Six batches of two images each in CIFAR-10's binary layout."""
    images = RNG.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8)
    labels = np.arange(12, dtype=np.uint8) % 10
    for i, batch in enumerate(BATCHES):
        path = folder / batch
        path.parent.mkdir(parents=True, exist_ok=True)
        records = [bytes([labels[k]]) + images[k].transpose(2, 0, 1).tobytes() for k in (2 * i, 2 * i + 1)]
        path.write_bytes(b"".join(records))
    return images, labels


def test_cifar10_reads_its_batches(data, publish):
    images, labels = write_batches(data)
    for batch in BATCHES:
        publish(batch, data / batch)
    cifar10 = sources.load("cifar10")
    np.testing.assert_array_equal(cifar10.store, images)
    np.testing.assert_array_equal(cifar10.labels, labels)
    assert cifar10.classes[3] == "cat"


def test_cifar10_is_read_from_its_archive(tmp_path, data, cache, publish):
    images, _ = write_batches(tmp_path / "made")
    with tarfile.open(data / ARCHIVE, "w:gz") as archive:
        for batch in BATCHES:
            archive.add(tmp_path / "made" / batch, batch)
    publish(ARCHIVE, data / ARCHIVE)
    np.testing.assert_array_equal(sources.load("cifar10").store, images)
    assert not list(cache.rglob("*"))


def test_svhn_merges_its_two_files(data, publish):
    images = RNG.integers(0, 256, (5, 32, 32, 3), dtype=np.uint8)
    for name, some, labels in (("train_32x32.mat", slice(0, 3), [1, 10, 9]), ("test_32x32.mat", slice(3, 5), [10, 2])):
        savemat(data / name, {"X": images[some].transpose(1, 2, 3, 0), "y": np.array(labels, np.uint8)[:, None]})
        publish(name, data / name)
    svhn = sources.load("svhn")
    np.testing.assert_array_equal(svhn.store, images)
    assert svhn.labels.tolist() == [1, 0, 9, 0, 2]
    assert svhn.classes == tuple("0123456789")


def write_medmnist(path: Path, labels) -> None:
    pictures = RNG.integers(0, 256, (len(labels), 28, 28), dtype=np.uint8)
    parts = {f"{split}_images": pictures for split in ("train", "val", "test")}
    parts |= {f"{split}_labels": np.array(labels, np.uint8)[:, None] for split in ("train", "val", "test")}
    np.savez(path, **parts)


def test_a_medmnist_set_has_its_class_names(data, publish):
    write_medmnist(data / "octmnist.npz", [0, 3, 1])
    publish("octmnist.npz", data / "octmnist.npz")
    octmnist = sources.load("octmnist")
    assert octmnist.name == "octmnist"
    assert octmnist.classes == ("CNV", "DME", "drusen", "normal")
    assert octmnist.labels.tolist() == [0, 3, 1, 0, 3, 1]
    assert octmnist.store.shape == (6, 28, 28, 1)


def test_the_catalogue(data, cache):
    listed = {source.name: source for source in sources.describe()}
    assert list(listed) == sources.names()
    assert {name for name in listed if name.endswith("mnist")} == {
        *("pathmnist", "octmnist", "dermamnist", "bloodmnist", "tissuemnist", "organamnist"),
        *("organcmnist", "organsmnist", "retinamnist", "pneumoniamnist", "breastmnist"),
    }
    assert [name for name in listed if listed[name].locate()[0]] == ["digits"]
    assert listed["octmnist"].locate()[1] == "https://zenodo.org/records/10519652/files/octmnist.npz?download=1"
    assert listed["dermamnist"].licence == "CC BY-NC 4.0"
    write_batches(data)
    cache.mkdir(parents=True)
    (cache / "pathmnist.npz").touch()
    (data / "train_32x32.mat").touch()
    listed = {source.name: source for source in sources.describe()}
    assert [name for name in listed if listed[name].locate()[0]] == ["digits", "cifar10", "pathmnist"]
    assert listed["cifar10"].locate()[1] == str(data / "cifar-10-batches-bin")
    assert listed["pathmnist"].locate()[1] == str(cache / "pathmnist.npz")
    (data / BATCHES[0]).unlink()
    assert not sources.describe()[1].locate()[0]
    (data / ARCHIVE).touch()
    assert sources.describe()[1].locate()[1] == str(data / ARCHIVE)


def test_every_published_file_belongs_to_a_source():
    known = {name for source in sources.SOURCES.values() for name in (*source.files, source.archive) if name}
    assert known == set(PUBLISHED)
    checksums = [published.checksum.split(":") for published in PUBLISHED.values()]
    assert all(len(value) == {"md5": 32, "sha256": 64}[name] for name, value in checksums)


@pytest.fixture
def real(monkeypatch):
    def file(name: str) -> Path:
        if not REAL or not (Path(REAL) / name).exists():
            pytest.skip(f"MAJORITY_DATA names no folder with {name}")
        monkeypatch.setenv("MAJORITY_DATA", REAL)
        return Path(REAL) / name

    return file


@pytest.mark.nightly
def test_real_cifar10(real):
    real("cifar-10-batches-bin")
    cifar10 = sources.load("cifar10")
    assert cifar10.store.shape == (60_000, 32, 32, 3)
    assert cifar10.labels[:8].tolist() == [6, 9, 9, 4, 1, 1, 2, 7]  # frog, truck, truck, deer, ...
    assert np.bincount(cifar10.labels).tolist() == [6_000] * 10
    parts = cifar10.make_parts(scenario="large")
    assert [(len(part), part.sizes.min()) for part in parts] == [(400, 64), (100, 64), (100, 64)]


@pytest.mark.nightly
def test_real_pathmnist(real):
    real("pathmnist.npz")
    pathmnist = sources.load("pathmnist")
    assert pathmnist.store.shape == (97_176, 28, 28, 3)
    assert [len(part) for part in pathmnist.folds(0)] == [19_435] * 5
    assert len(set(pathmnist.labels)) == len(pathmnist.classes) == 9


def test_type_checkers_know_the_names_of_our_sources():
    assert list(get_args(OurSource)) == [*sources.SOURCES]
