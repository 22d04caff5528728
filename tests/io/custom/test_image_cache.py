"""The cache of decoded images: changes, killed and simultaneous commands, a full disk."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from majority import load_source
from majority.data import stores as store_module
from majority.data.stores import MappedRows
from majority.io.custom import image_cache, image_store
from majority.io.custom.image_cache import ImageCache

SLOW = """
import sys, time
from pathlib import Path
from majority import load_source
from majority.io.custom import image_store

decode, go_on = image_store.decode, Path(sys.argv[2])

def slowly(path, shape):
    pixels = decode(path, shape)
    while not go_on.exists():
        time.sleep(0.01)
    return pixels

image_store.decode = slowly
print(load_source(sys.argv[1]).bags.store.sum())
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache/majority/images"


@pytest.fixture
def place(tmp_path, make):
    make.images(tmp_path, bags=4).to_csv(tmp_path / "bags.csv", index=False)
    return tmp_path / "bags.csv"


@pytest.fixture
def opened(monkeypatch):
    """The names of the files that were opened for their size, and of those that were decoded."""
    names = []
    for function in ("read_header", "decode"):
        original = getattr(image_store, function)
        note = lambda path, *rest, original=original: names.append(path.name) or original(path, *rest)  # noqa: E731
        monkeypatch.setattr(image_store, function, note)
    return names


def suffixes(cache):
    return sorted(path.suffix for path in cache.iterdir())


def test_only_new_and_changed_files_are_opened(tmp_path, place, opened, monkeypatch):
    before = np.array(load_source(place).bags.store)
    assert len(opened) == 24
    opened.clear()
    monkeypatch.chdir(tmp_path / "images")
    assert np.array_equal(load_source("../bags.csv").bags.store, before)
    assert opened == []
    load_source(place, image_size=6)
    assert len(opened) == 12  # decoded, not inspected
    opened.clear()
    changed = tmp_path / "images/1-1.png"
    Image.fromarray(255 - np.asarray(Image.open(changed))).save(changed)
    os.utime(changed, ns=(1, 10**18))
    source = load_source(place)
    assert {*opened} == {"1-1.png"}
    position = [*source.paths].index("images/1-1.png")
    assert np.array_equal(source.bags.store[position], 255 - before[position])
    assert np.array_equal(np.delete(source.bags.store, position, axis=0), np.delete(before, position, axis=0))
    opened.clear()
    table = pd.read_csv(place)
    table[table["bag"] != "b0"].to_csv(place, index=False)  # removed rows need no decoding
    assert load_source(place).bags.store.shape[0] == 9
    assert opened == []


def test_cached_images_can_be_read_after_another_command_replaced_them(tmp_path, place, monkeypatch):
    monkeypatch.setattr(store_module, "IN_MEMORY_BYTES", 0)
    bags = load_source(place).bags
    assert isinstance(bags.store, MappedRows)
    before, fingerprint = bags.store[:], bags.fingerprint()
    Image.new("RGB", (8, 8), (1, 2, 3)).save(tmp_path / "images/1-1.png")
    assert load_source(place).bags.fingerprint() != fingerprint
    assert not bags.store.path.exists()
    assert bags.fingerprint() == fingerprint
    assert np.array_equal(bags.store[:], before)


def test_pixels_of_other_sizes_and_manifests_are_not_removed(tmp_path, cache, place):
    load_source(place, image_size=6)
    (tmp_path / "other.csv").write_text(place.read_text())
    load_source(tmp_path / "other.csv")
    load_source(place)
    Image.new("RGB", (8, 8)).save(tmp_path / "images/0-0.png")
    load_source(place)
    assert suffixes(cache) == [".json"] * 3 + [".npy"] * 3


def test_files_of_killed_commands_are_removed_after_a_day(tmp_path, cache, place, monkeypatch):
    process = subprocess.Popen([sys.executable, "-c", SLOW, place, tmp_path / "go on"])
    deadline = time.monotonic() + 60
    while not [path for path in cache.glob("*.npy") if path.stat().st_size]:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    store = load_source(place).bags.store
    assert suffixes(cache) == [".json", ".npy", ".npy"]
    monkeypatch.setattr(image_cache, "ABANDONED", 0)
    Image.new("RGB", (8, 8)).save(tmp_path / "images/0-0.png")
    assert load_source(place).bags.store.shape == store.shape
    assert suffixes(cache) == [".json", ".npy"]


def test_simultaneous_commands_agree_and_leave_one_file(tmp_path, cache, place):
    (tmp_path / "go on").touch()
    words = [sys.executable, "-c", SLOW, place, tmp_path / "go on"]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    sums = {process.communicate(timeout=120)[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 2
    assert len(sums) == 1
    assert suffixes(cache) == [".json", ".npy"]


def raise_disk_full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("full", ["the pixels", "the note"])
def test_on_a_full_disk_the_pixels_stay_in_memory(cache, place, monkeypatch, full):
    pixels = load_source(place, image_size=6).bags.store
    before = {*cache.iterdir()}
    owner, name = (os, "posix_fallocate") if full == "the pixels" else (Path, "write_text")
    monkeypatch.setattr(owner, name, raise_disk_full, raising=False)
    assert load_source(place).bags.store.shape == (12, 8, 8, 3)
    assert {*cache.iterdir()} == before
    assert np.array_equal(load_source(place, image_size=6).bags.store, pixels)  # from the cache


@pytest.mark.parametrize("system", ["Linux", "macOS"])
def test_disk_space_is_reserved_before_images_are_decoded(cache, place, monkeypatch, system):
    """Writing to a memory map of a sparse file kills the process if the disk is full."""
    if system == "macOS":
        monkeypatch.delattr(os, "posix_fallocate", raising=False)
    with ImageCache(place, (64, 64, 3)).replace(300) as target:
        (file,) = cache.glob("*.npy")
        assert file.stat().st_blocks * 512 >= target.nbytes


def test_a_cache_that_cannot_be_written_to_is_not_needed(tmp_path, place, monkeypatch):
    (tmp_path / "a-file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a-file"))
    assert len(load_source(place).bags) == 4


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', \xd8", b"{", b'{"format": 0}'])
@pytest.mark.parametrize("suffix", [".npy", ".json"])
def test_a_damaged_cache_is_rebuilt(cache, place, suffix, content):
    before = np.array(load_source(place).bags.store)
    (file,) = cache.glob(f"*{suffix}")
    file.write_bytes(content)
    assert np.array_equal(load_source(place).bags.store, before)
    note = json.loads(next(cache.glob("*.json")).read_text())
    assert (cache / note["pixels"]).exists()
