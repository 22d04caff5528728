"""The reader of .mat files: against SciPy's on valid files; one message for all others."""

import os
import struct
import zlib
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from scipy.io import loadmat, savemat

from majority.errors import InputError
from majority.io.benchmarks.mat_file import read_arrays

STORED = {"i1": 1, "u1": 2, "i2": 3, "u2": 4, "i4": 5, "u4": 6, "f4": 7, "f8": 9, "i8": 12, "u8": 13}
DOUBLE = 6
REAL = Path(os.environ.get("MAJORITY_DATA", "")) / "svhn_first_1083.mat"


def write_mat(path, values: dict, order="<", flags=DOUBLE, compress=False, version=0x0100) -> Path:
    """A file of these arrays, all of class double whatever type they are stored in, as MATLAB writes them."""

    def element(kind, content):
        if 0 < len(content) <= 4:
            return struct.pack(order + "I", len(content) << 16 | kind) + content.ljust(4, b"\0")
        return struct.pack(order + "II", kind, len(content)) + content + b"\0" * (-len(content) % 8)

    out = b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack(order + "HH", version, 0x4D49)
    for name, array in values.items():
        stored = array.astype(array.dtype.newbyteorder(order))
        matrix = element(6, struct.pack(order + "II", flags, 0))
        matrix += element(5, struct.pack(f"{order}{array.ndim}i", *array.shape))
        matrix += element(1, name.encode())
        matrix += element(STORED[array.dtype.str[1:]], stored.tobytes(order="F"))
        matrix = struct.pack(order + "II", 14, len(matrix)) + matrix
        if compress:
            packed = zlib.compress(matrix)
            matrix = struct.pack(order + "II", 15, len(packed)) + packed
        out += matrix
    path.write_bytes(out)
    return path


def random_arrays(seed) -> dict:
    """Arrays of every type and of 2 to 4 dimensions; the smallest ones are small elements."""
    rng = np.random.default_rng(seed)
    found = {}
    for i, kind in enumerate(STORED):
        shape = rng.integers(1, 6, rng.integers(2, 5)) if i % 3 else (1, rng.integers(1, 6))
        found[f"v{i}" * (i % 3 + 1)] = rng.integers(0, 100, tuple(map(int, shape))).astype(kind)
    return found


def assert_as_scipy(path, names) -> None:
    expected, found = loadmat(path, variable_names=names), read_arrays(path, names)
    assert sorted(found) == sorted(names)
    for name in names:
        assert found[name].dtype == expected[name].dtype.newbyteorder("=")
        np.testing.assert_array_equal(found[name], expected[name])


@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3))])
def test_files_that_scipy_writes(tmp_path, seed, compress):
    values = random_arrays(seed)
    others = {"text": "abc", "cells": np.array([{"a": 1}, 2], object), "struct": {"a": np.ones(3)}, "X_": 1j}
    savemat(tmp_path / "a.mat", others | values, do_compression=compress)
    assert_as_scipy(tmp_path / "a.mat", list(values))


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("compress", [False, True])
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (1, 2, 3))])
def test_both_byte_orders_and_doubles_that_are_stored_in_smaller_types(tmp_path, seed, compress, order):
    values = random_arrays(seed)
    assert_as_scipy(write_mat(tmp_path / "a.mat", values, order, compress=compress), list(values))


@pytest.mark.skipif(not REAL.exists(), reason="needs svhn_first_1083.mat in the folder MAJORITY_DATA")
def test_the_first_images_of_svhn():
    assert_as_scipy(REAL, ["X", "y"])


def test_missing_variables_are_left_to_the_caller(tmp_path):
    path = write_mat(tmp_path / "a.mat", {"a": np.ones((2, 1)), "b": np.ones((3, 1))})
    assert list(read_arrays(path, ["b", "c"])) == ["b"]


def test_version_7_3_has_its_own_message(tmp_path):
    path = write_mat(tmp_path / "a.mat", {}, version=0x0200)
    with pytest.raises(InputError, match=r"a\.mat is a \.mat file of version 7\.3.*-v7"):
        read_arrays(path, ["X"])


@pytest.mark.sample(2)
@pytest.mark.parametrize("flags", [1, 2, 4, 5, DOUBLE | 0x0800])
def test_cells_structures_text_sparse_and_complex_are_refused(tmp_path, flags):
    path = write_mat(tmp_path / "a.mat", {"y": np.ones((2, 1))}, flags=flags)
    with pytest.raises(InputError, match=r"a\.mat: y is not an array of real numbers"):
        read_arrays(path, ["y"])


def test_a_small_file_cannot_claim_much_memory(tmp_path, monkeypatch):
    monkeypatch.setenv("MAJORITY_MAX_GB", "0.001")
    path = write_mat(tmp_path / "a.mat", {"X": np.zeros((2000, 1000), np.uint8)}, compress=True)
    with pytest.raises(InputError, match=r"a\.mat .*GB of memory.*MAJORITY_MAX_GB"):
        read_arrays(path, ["X"])
    monkeypatch.setenv("MAJORITY_MAX_GB", "1")
    assert read_arrays(path, ["X"])["X"].shape == (2000, 1000)


NIGHTLY = pytest.mark.nightly


@pytest.mark.parametrize(
    ("order", "compress", "step"),
    [("<", False, 12), ("<", True, 12), *(pytest.param(*o, 1, marks=NIGHTLY) for o in product("<>", [False, True]))],
)
def test_a_changed_file_gives_arrays_or_one_message(tmp_path, order, compress, step):
    path = tmp_path / "a.mat"
    whole = write_mat(path, {"X": np.ones((3, 4, 3), np.uint8), "y": np.ones((3, 1))}, order, compress=compress)
    content, rng, refused = whole.read_bytes(), np.random.default_rng(0), 0
    changed = [content[:end] for end in range(0, len(content), 5)]
    for place in range(124, len(content), step):
        for value in (0, 0xFF, int(rng.integers(16))):
            changed.append(content[:place] + bytes([value]) + content[place + 1 :])
    for data in changed:
        path.write_bytes(data)
        try:
            found = read_arrays(path, ["X", "y"])
        except InputError as error:
            refused += 1
            assert "a.mat" in str(error)  # noqa: PT017
        else:
            assert sum(values.size for values in found.values()) <= 8 * len(content)
    assert refused > len(changed) / 4
