"""Bags in folders: whole or not there, whoever else writes."""

import errno
import subprocess
import sys

import numpy as np
import pytest

from majority import Bags, InputError
from majority.data import bag_folder as bag_files


def of(name: str) -> Bags:
    return Bags.from_lists([np.full((2, 3), len(name), np.float32)], [name])


def test_groups_that_pandas_holds_as_objects_come_back_as_text(tmp_path):
    folder = of("mine")._with(groups=np.array([7], object)).save(tmp_path / "bags")
    assert Bags.load(folder).groups.tolist() == ["7"]


def test_two_that_save_to_one_folder_never_mix(tmp_path, monkeypatch):
    folder, write = tmp_path / "bags", bag_files.write_npy

    def another_saves_meanwhile(*words):
        with pytest.raises(InputError, match="bags is being written by another command: wait, or choose another place"):
            of("other").save(folder)
        write(*words)

    monkeypatch.setattr(bag_files, "write_npy", another_saves_meanwhile)
    of("mine").save(folder)
    there = Bags.load(folder)
    assert (there.classes, there.instances()[0, 0]) == (("mine",), 4)
    assert list(tmp_path.iterdir()) == [folder]


def test_the_next_save_clears_what_a_killed_one_left(tmp_path):
    killed = """
import os, sys
from majority import Bags
from majority.data import bag_folder as bag_files
bag_files.np.save = lambda *words, **more: os._exit(9)  # the store is written, the next array is not
Bags.from_lists([[[1.0]], [[2.0]]], ["a", "b"], groups=[1, 2]).save(sys.argv[1])
"""
    assert subprocess.run([sys.executable, "-c", killed, tmp_path / "bags"]).returncode == 9
    (left,) = tmp_path.iterdir()
    assert [*left.rglob("store.npy")]
    folder = of("mine").save(tmp_path / "bags")
    assert list(tmp_path.iterdir()) == [folder]
    assert Bags.load(folder).classes == ("mine",)


def test_a_full_disk_is_one_message_and_leaves_nothing(tmp_path, monkeypatch):
    def full(path, *words):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bag_files, "write_npy", full)
    with pytest.raises(InputError, match="No space left on device"):
        of("mine").save(tmp_path / "bags")
    assert not list(tmp_path.iterdir())
