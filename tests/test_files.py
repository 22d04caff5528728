"""Files are complete or absent, also when two commands write the same one, on every system."""

import errno
import os
import subprocess
import sys

import pytest

from majority.errors import InputError
from majority.files import append_line, file_names, hold_lock, read_lines, write_atomically, write_text


def test_a_second_writer_of_a_file_is_refused(tmp_path):
    path = tmp_path / "predictions.csv"

    def write(draft):
        draft.write_text("first\n")
        with pytest.raises(InputError, match=r"predictions.csv is being written by another command"):
            write_atomically(path, lambda draft: draft.write_text("second\n"))

    write_atomically(path, write)
    assert path.read_text() == "first\n"
    assert [file.name for file in tmp_path.iterdir()] == ["predictions.csv"]
    write_atomically(path, lambda draft: draft.write_text("third\n"))
    assert path.read_text() == "third\n"


def test_a_file_is_replaced_in_one_step(tmp_path):
    """The draft itself becomes the file: a copy of it could be read, or left behind by a kill, when it is half done."""
    path, drafts = tmp_path / "table.csv", []
    path.write_text("before")

    def write(draft):
        draft.write_text("after")
        drafts.append(os.stat(draft).st_ino)

    write_atomically(path, write)
    assert [os.stat(path).st_ino] == drafts
    assert path.read_text() == "after"


def test_leftovers_of_a_killed_writer_are_replaced_and_a_failure_leaves_nothing(tmp_path):
    path = tmp_path / "report.html"
    (tmp_path / ".report.html.unfinished").write_text("half of a longer p")
    (tmp_path / ".report.html.lock").touch()
    write_atomically(path, lambda draft: draft.write_text("whole"))
    assert path.read_text() == "whole"

    def fails(draft):
        draft.write_text("half")
        raise EOFError

    with pytest.raises(EOFError):
        write_atomically(path, fails)
    assert path.read_text() == "whole"
    assert [file.name for file in tmp_path.iterdir()] == ["report.html"]


def test_a_full_disk_has_another_cure_than_a_closed_folder(tmp_path):
    for fault, cure in ((errno.EDQUOT, "free disk space"), (errno.EACCES, "make it writable, or choose another")):

        def fails(draft, fault=fault):
            raise OSError(fault, os.strerror(fault))

        with pytest.raises(InputError, match=rf"report.html cannot be written \({os.strerror(fault)}\): {cure}"):
            write_atomically(tmp_path / "report.html", fails)


def test_a_folder_that_cannot_be_written_is_one_message_and_is_not_created(tmp_path):
    (tmp_path / "file").touch()
    for path in ("nowhere/report.html", "file/report.html", "/proc/report.html"):
        with pytest.raises(InputError, match=r"report.html cannot be written \((No such|Not a dir|.*denied)"):
            write_text(tmp_path / path, "whole")
    assert [file.name for file in tmp_path.iterdir()] == ["file"]


LOCKED = """
import sys, os
from pathlib import Path
from majority.files import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("locked", flush=True)
    if sys.argv[2] == "die":
        os._exit(9)
    sys.stdin.read()
"""


def test_a_lock_is_seen_by_other_processes_and_ends_with_its_process(tmp_path):
    path = tmp_path / ".lock"
    words = [sys.executable, "-c", LOCKED, path]
    with subprocess.Popen([*words, "wait"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "locked\n"
        with pytest.raises(BlockingIOError), hold_lock(path):
            pass
        assert path.exists(), "a process that is refused leaves the lock of the holder"
    assert not path.exists()
    assert subprocess.run([*words, "die"], stdout=subprocess.DEVNULL).returncode == 9
    assert path.exists()
    with hold_lock(path):
        pass
    assert not path.exists()


def test_text_is_the_same_bytes_on_every_system_and_an_incomplete_line_is_left_out(tmp_path):
    path = tmp_path / "metrics.jsonl"
    write_text(path, '{"caf\u00e9 \ud800": 1}\n')
    append_line(path, {"b": 2})
    with path.open("a") as file:
        file.write('{"c"')
    assert path.read_bytes() == '{"café ?": 1}\n{"b": 2}\n{"c"'.encode()
    assert read_lines(path) == [{"café ?": 1}, {"b": 2}]


def test_names_of_bags_as_names_of_files():
    assert file_names(["a", "Bänder"], "rename") == ["a", "Bänder"]
    for names in (["a/b"], [".."], ["a\nb"], ["x" * 201], ["a", "A"], ["B\u00e4r", "Ba\u0308r"]):
        with pytest.raises(InputError, match="rename"):
            file_names(names, "rename")
