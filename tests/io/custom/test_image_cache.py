"""The cache of decoded images: killed commands, simultaneous commands, a full disk."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from majority import load_source
from majority.io.custom.image_cache import ImageCache

SLOW = """
import sys, time
from pathlib import Path
from majority.io.custom import images

decode, go_on = images.decode, Path(sys.argv[2])

def slowly(path, shape):
    pixels = decode(path, shape)
    while not go_on.exists():
        time.sleep(0.01)
    return pixels

images.decode = slowly
names = sorted(f"images/{bag}-{i}.png" for bag in range(4) for i in range(3))
print(images.load_images(Path(sys.argv[1]), names).store.sum())
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
def start_decoding(tmp_path, place, cache):
    """Start a command that decodes images and waits, its pixels half written."""
    started = []

    def start():
        before = set(cache.glob("*.npy"))
        words = [sys.executable, "-c", SLOW, place, tmp_path / "go on"]
        started.append(subprocess.Popen(words, stdout=subprocess.PIPE, text=True))
        deadline = time.monotonic() + 60
        while not [path for path in set(cache.glob("*.npy")) - before if path.stat().st_size]:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return started[-1]

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.wait()


def suffixes(cache):
    return sorted(path.suffix for path in cache.iterdir())


def test_files_of_killed_commands_are_removed(cache, place, start_decoding):
    for _ in range(2):
        process = start_decoding()
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert suffixes(cache) == [".lock"] * 2 + [".npy"] * 2
    assert len(load_source(place).bags) == 4
    assert suffixes(cache) == [".json", ".npy"]


def test_pixels_that_another_command_is_writing_are_not_removed(tmp_path, cache, place, start_decoding):
    process = start_decoding()
    store = load_source(place).bags.store
    assert suffixes(cache) == [".json", ".lock", ".npy", ".npy"]
    (tmp_path / "go on").touch()
    assert int(process.communicate(timeout=60)[0]) == store.sum()
    assert process.returncode == 0
    assert suffixes(cache) == [".json", ".npy"]
    assert np.array_equal(load_source(place).bags.store, store)


def test_pixels_of_other_sizes_and_manifests_are_not_removed(tmp_path, cache, place):
    load_source(place, image_size=6)
    (tmp_path / "other.csv").write_text(place.read_text())
    load_source(tmp_path / "other.csv")
    load_source(place)
    Image.new("RGB", (8, 8)).save(tmp_path / "images/0-0.png")
    load_source(place)
    assert suffixes(cache) == [".json"] * 3 + [".npy"] * 3


def test_simultaneous_commands_agree_and_leave_one_file(tmp_path, cache, place):
    (tmp_path / "go on").touch()
    words = [sys.executable, "-c", SLOW, place, tmp_path / "go on"]
    processes = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    sums = {process.communicate(timeout=120)[0] for process in processes}
    assert [process.returncode for process in processes] == [0] * 3
    assert len(sums) == 1
    Image.new("RGB", (8, 8)).save(tmp_path / "images/0-0.png")
    load_source(place)  # the last command may have found a file that was still locked
    assert suffixes(cache) == [".json", ".npy"]


def raise_disk_full(*_, **__):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_on_a_full_disk_the_pixels_stay_in_memory(cache, place, majority, monkeypatch):
    pixels = load_source(place, image_size=6).bags.store
    before = set(cache.iterdir())
    monkeypatch.setattr(os, "posix_fallocate", raise_disk_full, raising=False)
    assert majority("check", place)[0] == 0
    assert load_source(place).bags.store.shape == (12, 8, 8, 3)
    assert set(cache.iterdir()) == before
    assert np.array_equal(load_source(place, image_size=6).bags.store, pixels)  # from the cache


def test_disk_space_is_reserved_before_images_are_decoded(cache, place, monkeypatch):
    """Writing to a memory map of a sparse file kills the process if the disk is full."""
    for system in ("Linux", "macOS"):
        if system == "macOS":
            monkeypatch.delattr(os, "posix_fallocate", raising=False)
        with ImageCache(place, (64, 64, 3)).replace(300) as target:
            (file,) = cache.glob("*.npy")
            assert file.stat().st_blocks * 512 >= target.nbytes
            assert np.load(file).shape == target.shape


def test_pixels_without_space_for_their_note_are_used_but_not_kept(cache, place, monkeypatch):
    monkeypatch.setattr(Path, "write_text", raise_disk_full)
    assert load_source(place).bags.store.shape == (12, 8, 8, 3)
    assert suffixes(cache) == []


def test_the_cache_of_another_version_is_rebuilt(cache, place):
    load_source(place)
    (note,), (pixels,) = cache.glob("*.json"), cache.glob("*.npy")
    note.write_text(json.dumps(json.loads(note.read_text()) | {"format": 0}))
    load_source(place)
    assert [path.name for path in cache.glob("*.npy")] != [pixels.name]


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00v\x00{'descr': '|u1', \xd8", b"x" * 300])
def test_damaged_pixels_are_decoded_again(content, cache, place):
    before = np.array(load_source(place).bags.store)
    (pixels,) = cache.glob("*.npy")
    pixels.write_bytes(content)
    assert np.array_equal(load_source(place).bags.store, before)


@pytest.mark.sample(1)
@pytest.mark.parametrize("values", [[None, -1], [5, None], [9, 5], [0, 2**16]])
def test_damaged_values_of_16_bits_in_a_note_are_found_again(values, cache, place):
    load_source(place)
    (note,) = cache.glob("*.json")
    content = json.loads(note.read_text())
    for fields in content["images"].values():
        fields[-2:] = values
    note.write_text(json.dumps(content))
    load_source(place)
    (note,) = cache.glob("*.json")
    assert all(fields[-2:] == [None, None] for fields in json.loads(note.read_text())["images"].values())


def test_an_image_replaced_by_one_of_the_same_size_is_read_again(tmp_path, cache, make):
    place, image = tmp_path / "bags.csv", tmp_path / "images/0-0.tif"
    make.images(tmp_path, bags=4, suffix=".tif").to_csv(place, index=False)
    before, size = load_source(place).bags.store[0], image.stat().st_size
    Image.fromarray(255 - np.asarray(Image.open(image))).save(image)
    os.utime(image, (1, 1))
    assert image.stat().st_size == size
    assert np.array_equal(load_source(place).bags.store[0], 255 - before)
