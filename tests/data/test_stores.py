"""Feature files and mapped files as one store: the same rows as in memory, few reads, clear errors."""

import os
import pickle
import threading

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from majority import Bags, InputError, build_model
from majority.data import stores as store_module
from majority.data.feature_files import check_compatible, inspect_feature_file
from majority.data.stores import FeatureFiles, MappedRows, RowsOnDisk, wrap_memmap
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


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    paths, rows = write_all(tmp_path_factory.mktemp("mixed"), ALL_KINDS)
    return FeatureFiles(paths), rows


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("kinds", [ALL_KINDS, *((kind,) for kind in ALL_KINDS)], ids=str)
def test_a_store_of_files_is_the_array_of_their_rows(tmp_path, kinds):
    paths, rows = write_all(tmp_path, kinds)
    files = FeatureFiles(paths)
    assert (files.shape, files.dtype, files.ndim, len(files)) == (rows.shape, rows.dtype, 2, len(rows))
    assert files.sizes.tolist() == SIZES
    for which in (slice(None), slice(39, 42), slice(100, 3, -7), slice(5, 5), [], [3], [144, 0, 41, 41, 40]):
        assert np.array_equal(files[which], rows[which if isinstance(which, slice) else np.array(which, int)])
        assert files[which].dtype == rows.dtype


@settings(max_examples=80, deadline=None)
@given(
    which=st.lists(st.integers(0, sum(SIZES) - 1), max_size=200),
    ascending=st.booleans(),
    gap=st.sampled_from([0, 12, 40, 10_000]),
    span=st.sampled_from([1, 30, 10_000]),
)
def test_any_rows_in_any_order_with_any_read_size(mixed, which, ascending, gap, span):
    files, rows = mixed
    which = sorted(which) if ascending else which
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store_module, "GAP_BYTES", gap)
        patch.setattr(store_module, "SPAN_BYTES", span)
        assert np.array_equal(files[which], rows[np.array(which, int)])


class Counting(FeatureFiles):
    """Records each read as (file, first row, rows)."""

    def __init__(self, paths):
        super().__init__(paths)
        self.reads = []

    def open_rows(self, file):
        context = super().open_rows(file)
        outer = self

        class Recorded:
            def __enter__(self):
                read_rows = context.__enter__()
                return lambda first, rows: (outer.reads.append((file, first, len(rows))), read_rows(first, rows))

            def __exit__(self, *failure):
                return context.__exit__(*failure)

        return Recorded()


def test_neighbours_are_read_together_and_distant_rows_alone(tmp_path):
    paths, _ = write_all(tmp_path, (".npy",), sizes=[1000, 50], d=64)  # a row has 128 bytes, a gap 256 rows
    files = Counting(paths)
    files[np.r_[1000:1050, 0:1000]]  # two whole bags, in another order
    assert files.reads == [(1, 0, 50), (0, 0, 1000)]
    files.reads.clear()
    files[[900, 5, 9, 1049]]  # few rows of a large bag: not the bag
    assert files.reads == [(0, 5, 5), (0, 900, 1), (1, 49, 1)]


def test_a_file_that_must_be_read_whole_is_kept_for_the_next_read(tmp_path, monkeypatch):
    paths, rows = write_all(tmp_path, (".npz", ".pt"), sizes=[30, 30])
    files, loads = FeatureFiles(paths), []
    real = store_module.read_whole
    monkeypatch.setattr(store_module, "read_whole", lambda path: loads.append(path.name) or real(path))
    for start in range(0, 60, 10):
        assert np.array_equal(files[start : start + 10], rows[start : start + 10])
    assert loads == ["0.npz", "1.pt"]


def read_in_threads(files, rows, times=60):
    wrong = []

    def read(seed):
        for which in np.random.default_rng(seed).integers(0, len(rows), (times, 30)):
            if not np.array_equal(files[which], rows[which]):
                wrong.append(which)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("missing", [["preadv"], ["preadv", "pread"]], ids=["macOS", "Windows"])
def test_files_are_read_on_systems_without_preadv(tmp_path, monkeypatch, missing):
    paths, rows = write_all(tmp_path, (".npy",))
    np.save(tmp_path / "all.npy", rows)
    stores = FeatureFiles(paths), wrap_memmap(np.load(tmp_path / "all.npy", mmap_mode="r"))
    for name in missing:
        monkeypatch.delattr(os, name, raising=False)
    monkeypatch.setattr(store_module, "READ_BYTES", 7)  # several calls for one row
    for store in stores:
        read_in_threads(store, rows, times=15)
        assert np.array_equal(store[:], rows)


def test_other_formats_of_features(tmp_path):
    rows = features(5)
    np.savez_compressed(tmp_path / "any-name.npz", embedding=rows)
    torch.save(torch.from_numpy(rows), tmp_path / "tensor.pt")
    np.save(tmp_path / "columns.npy", np.asfortranarray(rows))
    files = FeatureFiles([tmp_path / name for name in ("any-name.npz", "tensor.pt", "columns.npy")])
    assert np.array_equal(files[:], np.concatenate([rows] * 3))
    torch.save({"features": torch.from_numpy(rows).bfloat16()}, tmp_path / "brain.pt")
    assert FeatureFiles([tmp_path / "brain.pt"])[:].dtype == np.float32


def test_coordinates_are_given_in_all_files_or_none(tmp_path):
    where = [np.arange(2 * n).reshape(n, 2) + n for n in (4, 3, 2)]
    kinds = (".h5", ".npz", ".pt")
    paths = [write(tmp_path / f"{i}{kinds[i]}", features(len(xy)), xy) for i, xy in enumerate(where)]
    assert np.array_equal(FeatureFiles(paths).coordinates(), np.concatenate(where))
    bare = write(tmp_path / "bare.npy", features(2))
    assert FeatureFiles([bare]).coordinates() is None
    with pytest.raises(InputError, match=r"bare\.npy has no coords, other files do"):
        FeatureFiles([*paths, bare]).coordinates()


# ---------------------------------------------------------------- errors


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-30])
    return path


GOOD = features(40)
BAD_FILES = {
    "text": (lambda f: (f / "a.csv").write_text("1") and f / "a.csv", r"a\.csv is not a feature file: give \.npy, "),
    "absent": (lambda f: f / "absent.npy", r"absent\.npy does not exist: correct its name"),
    "flat": (lambda f: write(f / "a.npy", GOOD[0]), r"a\.npy has features of shape \(6,\): save one row per instance"),
    "empty": (lambda f: write(f / "a.npy", GOOD[:0]), r"a\.npy is empty \(features of shape \(0, 6\)\)"),
    "empty h5": (lambda f: write(f / "a.h5", GOOD[:0]), r"a\.h5 is empty"),
    "integers": (lambda f: write(f / "a.h5", GOOD.astype(int)), r"dtype int64: save them as float16 or float32"),
    "foreign bytes": (lambda f: write(f / "a.npy", GOOD.astype(">f4")), "dtype >f4, which is float32 in big-endian"),
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
    wide, double = write(tmp_path / "wide.h5", features(3, 7)), write(tmp_path / "f.npy", GOOD.astype(np.float32))
    with pytest.raises(
        InputError, match=r"wide\.h5 has 7 features, .*one\.npy has 6: take all files from one feature extractor"
    ):
        check_compatible(inspect_feature_file(wide), one)
    with pytest.raises(InputError, match=r"f\.npy has dtype float32, .*one\.npy has float16: convert"):
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


def test_mapped_files_are_read_without_their_map(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (30, 4, 3, 1), dtype=np.uint8)
    np.save(tmp_path / "images.npy", images)
    mapped = np.load(tmp_path / "images.npy", mmap_mode="r")
    rows = wrap_memmap(mapped)
    assert isinstance(rows, MappedRows)
    assert rows.shape == images.shape
    which = np.random.default_rng(1).integers(0, 30, 50)
    assert np.array_equal(rows[which], images[which])
    changed = np.load(tmp_path / "images.npy", mmap_mode="c")  # changes to it are not in the file
    np.save(tmp_path / "columns.npy", np.asfortranarray(images))
    by_columns = np.load(tmp_path / "columns.npy", mmap_mode="r")  # its rows are not contiguous in the file
    for in_memory in (mapped[3:], changed, by_columns, images):
        assert wrap_memmap(in_memory) is in_memory
        assert not isinstance(in_memory, RowsOnDisk)


def test_rows_of_a_mapped_file_outlive_the_file(tmp_path):
    images = np.arange(24, dtype=np.uint8).reshape(6, 2, 2, 1)
    np.save(tmp_path / "images.npy", images)
    rows = wrap_memmap(np.load(tmp_path / "images.npy", mmap_mode="r"))
    (tmp_path / "images.npy").unlink()
    assert np.array_equal(rows[[5, 0, 3]], images[[5, 0, 3]])
    np.save(tmp_path / "images.npy", images[::-1].copy())  # another file of that name
    assert np.array_equal(rows[:], images)


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
        back = Bags.load(ours.save(tmp_path / f"saved-{len(ours)}"))
        assert np.array_equal(back.instances(), theirs.instances())
        assert build_model(ours, "log-mean").spec == build_model(theirs, "log-mean").spec


def test_a_bad_value_in_a_file_is_found(tmp_path):
    rows = features(40)
    rows[13, 2] = np.nan
    files = FeatureFiles([write(tmp_path / "a.npy", features(7)), write(tmp_path / "b.h5", rows)])
    with pytest.raises(InputError, match=r"bag 1 \(b\), instance 13 holds NaN or infinity"):
        Bags(files, np.arange(47), [0, 7, 47], ["x", "y"], names=["a", "b"])


def test_bags_of_a_mapped_file_can_be_pickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = features(6_000)
    np.save("all.npy", rows)
    bags = Bags(np.load("all.npy", mmap_mode="r"), np.arange(6), [0, 2, 6], ["x", "y"])
    pickled = pickle.dumps(bags)
    monkeypatch.chdir("/")
    assert len(pickled) < 10_000 < rows.nbytes, "the file is named, not copied"
    again = pickle.loads(pickled)
    assert np.array_equal(again.instances(), rows[:6])
    assert np.array_equal(again.store[rows[:, 0] > 0], rows[rows[:, 0] > 0])
    assert np.array_equal(again.store[3], rows[3])
