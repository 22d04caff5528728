"""Feature files and mapped files as one store: the same rows as in memory, few reads, clear errors."""

import threading

import h5py
import numpy as np
import pytest
import torch

from majority import Bags, InputError, build_model
from majority.data import stores as store_module
from majority.data.feature_files import inspect_feature_file
from majority.data.stores import FeatureFiles, RowsOnDisk
from majority.nn.model import standardisation

SIZES = [40, 1, 70, 25, 9]


def write(path, rows, coords=None):
    """Write features (and coordinates) in the format of the path's suffix."""
    arrays = {"features": rows} | ({} if coords is None else {"coords": coords})
    if path.suffix == ".npy":
        np.save(path, rows)
    elif path.suffix == ".npz":
        np.savez(path, **arrays)
    elif path.suffix == ".h5":
        with h5py.File(path, "w") as file:
            file.update(arrays)
    else:
        torch.save({name: torch.from_numpy(array) for name, array in arrays.items()}, path)
    return path


def features(n, d=6, seed=0, dtype=np.float16):
    return np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)


def write_all(folder, kinds, sizes=SIZES, d=6):
    """One file per size, of these kinds in turn, and all rows together."""
    rows = features(sum(sizes), d)
    parts = np.split(rows, np.cumsum(sizes)[:-1])
    names = [folder / f"{i}{kinds[i % len(kinds)]}" for i in range(len(sizes))]
    return [write(name, part) for name, part in zip(names, parts, strict=True)], rows


ALL_KINDS = (".npy", ".npz", ".h5", ".pt")


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("kinds", [ALL_KINDS, *((kind,) for kind in ALL_KINDS)], ids=str)
def test_a_store_of_files_is_the_array_of_their_rows(tmp_path, kinds, monkeypatch):
    paths, rows = write_all(tmp_path, kinds)
    files = FeatureFiles(paths)
    assert (files.shape, files.dtype, files.ndim, len(files)) == (rows.shape, rows.dtype, 2, len(rows))
    assert files.sizes.tolist() == SIZES
    for block in (30, store_module.BLOCK_BYTES):
        monkeypatch.setattr(store_module, "BLOCK_BYTES", block)
        for which in (slice(None), slice(39, 42), slice(100, 3, -7), slice(5, 5), [], [3], [144, 0, 41, 41, 40]):
            assert np.array_equal(files[which], rows[which if isinstance(which, slice) else np.array(which, int)])
            assert files[which].dtype == rows.dtype


def test_a_file_that_must_be_read_whole_is_kept_for_the_next_read(tmp_path, monkeypatch):
    paths, rows = write_all(tmp_path, (".npz", ".pt"), sizes=[30, 30])
    files, loads = FeatureFiles(paths), []
    real = store_module.open_arrays
    monkeypatch.setattr(store_module, "open_arrays", lambda path: loads.append(path.name) or real(path))
    for start in range(0, 60, 10):
        assert np.array_equal(files[start : start + 10], rows[start : start + 10])
    assert loads == ["0.npz", "1.pt"]


# ---------------------------------------------------------------- errors


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-30])
    return path


GOOD = features(40)
BAD_FILES = {
    "text": (
        lambda f: (f / "a.csv").write_text("1") and f / "a.csv",
        r"a\.csv is no feature file: give a regular file, \.npy, ",
    ),
    "flat": (lambda f: write(f / "a.npy", GOOD[0]), r"a\.npy has features of shape \(6,\): save one row per instance"),
    "empty": (lambda f: write(f / "a.h5", GOOD[:0]), r"a\.h5 has features of shape \(0, 6\)"),
    "integers": (lambda f: write(f / "a.h5", GOOD.astype(int)), r"dtype int64: save them as float16 or float32"),
    "foreign bytes": (lambda f: write(f / "a.npy", GOOD.astype(">f4")), "dtype >f4: save them as float16"),
    "objects": (lambda f: write(f / "a.npy", np.array([[{}]])), r"a\.npy cannot be read \(.*\): write the file again"),
    "no features": (lambda f: np.savez(f / "a.npz", a=GOOD, b=GOOD) or f / "a.npz", "holds a, b: name its array"),
    "list": (lambda f: torch.save([1], f / "a.pt") or f / "a.pt", "holds a list: save a tensor"),
    "pickle": (lambda f: torch.save(threading.Thread, f / "a.pt") or f / "a.pt", r"a\.pt cannot be read"),
    "coords": (lambda f: write(f / "a.h5", GOOD, np.zeros((3, 2))), r"40 rows and coords of shape \(3, 2\)"),
    **{
        f"cut {kind}": (lambda f, kind=kind: cut_short(write(f / f"a{kind}", GOOD)), r"a\.\w+ cannot be read \(.*\)")
        for kind in ALL_KINDS
    },
    "no archive": (lambda f: (f / "a.h5").write_text("?") and f / "a.h5", r"a\.h5 cannot be read"),
}


@pytest.mark.parametrize(("make", "message"), BAD_FILES.values(), ids=BAD_FILES.keys())
def test_a_file_that_cannot_be_used_is_named(tmp_path, make, message):
    with pytest.raises(InputError, match=message):
        inspect_feature_file(make(tmp_path))


def test_incompatible_files_are_errors(tmp_path):
    one = inspect_feature_file(write(tmp_path / "one.npy", GOOD))
    assert (one.rows, one.width, one.dtype) == (40, 6, np.float16)
    double = write(tmp_path / "f.npy", GOOD.astype(np.float32))
    with pytest.raises(
        InputError, match=r"f\.npy has 6 features of float32, .*one\.npy has 6 of float16: take all files"
    ):
        FeatureFiles([one.path, double])
    with pytest.raises(InputError, match="no feature files were given"):
        FeatureFiles([])


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_a_file_that_changes_while_in_use_is_an_error(tmp_path, kind):
    path = write(tmp_path / f"a{kind}", GOOD)
    files = FeatureFiles([path])
    write(path, GOOD[:20])
    with pytest.raises(InputError, match=rf"a\{kind} (ends before row 40|cannot be read|changed)"):
        files[:]
    path.unlink()
    with pytest.raises(InputError, match=rf"a\{kind}"):
        files[:]


# ---------------------------------------------------------------- mapped files, and bags on such stores


@pytest.mark.parametrize("kind", ["files", "mapped"])
def test_bags_on_disk_equal_bags_in_memory(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(store_module, "CHUNK", 33)
    paths, rows = write_all(tmp_path, ALL_KINDS)
    np.save(tmp_path / "all.npy", rows)
    store = FeatureFiles(paths) if kind == "files" else np.load(tmp_path / "all.npy", mmap_mode="r")
    on_disk, in_memory = (
        Bags(some, np.arange(145), np.cumsum([0, *SIZES]), [0, 1, 2, 0, 1], "abc") for some in (store, rows)
    )
    assert isinstance(on_disk.store, RowsOnDisk)
    if kind == "mapped":  # the bags still read the file that they were made from
        np.save(tmp_path / "other.npy", rows + 1)
        (tmp_path / "other.npy").replace(tmp_path / "all.npy")
    for ours, theirs in ((on_disk, in_memory), (on_disk.subset([4, 0, 2]), in_memory.subset([4, 0, 2]))):
        assert ours.store is on_disk.store
        assert ours.fingerprint() == theirs.fingerprint()
        assert np.array_equal(ours.bag(1), theirs.bag(1))
        assert all(torch.equal(a, b) for a, b in zip(standardisation(ours), standardisation(theirs), strict=True))
        assert build_model(ours, "log-mean").spec == build_model(theirs, "log-mean").spec
