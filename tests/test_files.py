"""Files are whole or not there, also where two commands write one."""

import errno
import os

import pytest

from majority.errors import InputError
from majority.files import write_atomically


def test_a_file_that_is_being_written_is_left_to_its_writer(tmp_path):
    path = tmp_path / "predictions.csv"

    def write(place):
        place.write_text("first\n")
        with pytest.raises(InputError, match=r"predictions.csv is being written by another command: wait, or choose"):
            write_atomically(path, lambda place: place.write_text("second\n"))

    write_atomically(path, write)
    assert path.read_text() == "first\n"
    assert [file.name for file in tmp_path.iterdir()] == ["predictions.csv"]
    write_atomically(path, lambda place: place.write_text("third\n"))
    assert path.read_text() == "third\n"


def test_what_a_kill_left_is_replaced_and_what_fails_leaves_nothing(tmp_path):
    path = tmp_path / "report.html"
    (tmp_path / ".report.html.unfinished").write_text("half of a longer p")
    write_atomically(path, lambda place: place.write_text("whole"))
    assert path.read_text() == "whole"

    def fails(place):
        place.write_text("half")
        raise EOFError

    with pytest.raises(EOFError):
        write_atomically(path, fails)
    assert path.read_text() == "whole"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("fault", "cure"),
    [
        (errno.ENOSPC, "make room and repeat the command"),
        (errno.EDQUOT, "make room and repeat the command"),
        (errno.EFBIG, "make room and repeat the command"),
        (errno.EACCES, "make that place writable, or choose another"),
    ],
)
def test_a_full_disk_has_another_cure_than_a_place_that_is_closed(tmp_path, fault, cure):
    def fails(place):
        raise OSError(fault, os.strerror(fault))

    with pytest.raises(InputError, match=rf"report.html cannot be written \({os.strerror(fault)}\): {cure}"):
        write_atomically(tmp_path / "report.html", fails)


def test_a_writer_that_begins_as_another_ends_keeps_its_file(tmp_path, monkeypatch):
    path, replace = tmp_path / "report.html", os.replace

    def replace_and_begin(draft, place):
        replace(draft, place)
        draft.write_text("begun by another")

    monkeypatch.setattr(os, "replace", replace_and_begin)
    write_atomically(path, lambda place: place.write_text("whole"))
    assert path.read_text() == "whole"
    assert (tmp_path / ".report.html.unfinished").read_text() == "begun by another"
