"""Bags in folders: complete or absent, also when two processes save at once."""

import errno
import subprocess
import sys

import numpy as np
import pytest

from majority import Bags, InputError
from majority.data import bag_folder


def bags_of(name: str) -> Bags:
    return Bags.from_lists([np.full((2, 3), len(name), np.float32)], [name])


def test_a_second_save_to_the_same_folder_is_refused(tmp_path, monkeypatch):
    folder, write = tmp_path / "bags", bag_folder.write_npy

    def save_again_then_write(*words):
        with pytest.raises(InputError, match="bags is being written by another command"):
            bags_of("other").save(folder)
        write(*words)

    monkeypatch.setattr(bag_folder, "write_npy", save_again_then_write)
    bags_of("mine").save(folder)
    there = Bags.load(folder)
    assert (there.classes, there.instances()[0, 0]) == (("mine",), 4)
    assert list(tmp_path.iterdir()) == [folder]


def test_a_save_removes_the_leftovers_of_a_killed_one(tmp_path):
    killed = """
import os, sys
from majority import Bags
from majority.data import bag_folder
bag_folder.np.save = lambda *words, **more: os._exit(9)  # the store is written, the next array is not
Bags.from_lists([[[1.0]], [[2.0]]], ["a", "b"], groups=[1, 2]).save(sys.argv[1])
"""
    assert subprocess.run([sys.executable, "-c", killed, tmp_path / "bags"]).returncode == 9
    assert [*tmp_path.rglob("store.npy")]
    assert not (tmp_path / "bags").exists()
    folder = bags_of("mine").save(tmp_path / "bags")
    assert list(tmp_path.iterdir()) == [folder]
    assert Bags.load(folder).classes == ("mine",)


def test_a_full_disk_is_one_message_and_leaves_nothing(tmp_path, monkeypatch):
    def full(path, *words):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(bag_folder, "write_npy", full)
    with pytest.raises(InputError, match="No space left on device"):
        bags_of("mine").save(tmp_path / "bags")
    assert not list(tmp_path.iterdir())
