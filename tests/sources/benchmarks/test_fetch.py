"""Finding, checking and downloading published files, against a real server on this machine."""

import builtins
import hashlib
import io
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from majority import sources
from majority.errors import InputError
from majority.sources.benchmarks import download
from majority.sources.benchmarks import fetch as files
from majority.sources.benchmarks.published import PUBLISHED, Published

NAME = "breastmnist.npz"


def published_bytes() -> bytes:
    rng = np.random.default_rng(0)
    pictures, labels = rng.integers(0, 256, (30, 28, 28), dtype=np.uint8), (np.arange(30) % 2)[:, None]
    buffer = io.BytesIO()
    np.savez(buffer, train_images=pictures, train_labels=labels)
    return buffer.getvalue()


CONTENT = published_bytes()


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path.startswith("/absent"):
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        body = CONTENT[: len(CONTENT) // 2] if self.path.startswith("/broken") else CONTENT
        body = body[::-1] if self.path.startswith("/wrong") else body
        self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as running:
        running.asked = []
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def asked(server) -> list[str]:
    server.asked.clear()
    return server.asked


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A user cache of this test alone, and no data folder."""
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("MAJORITY_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache" / "majority"


@pytest.fixture
def publish(server, monkeypatch):
    def declare(page: str) -> str:
        url = f"http://127.0.0.1:{server.server_port}/{page}?download=1"
        monkeypatch.setitem(PUBLISHED, NAME, Published(url, hashlib.md5(CONTENT).hexdigest()))
        return url

    return declare


def contents(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*"))


def test_an_absent_file_is_downloaded_once(publish, cache, asked, capfd):
    publish("good")
    assert len(sources.load("breastmnist").store) == 30
    assert (cache / NAME).read_bytes() == CONTENT
    assert contents(cache) == [NAME, "verified.json"]
    assert sources.load("breastmnist").classes == ("malignant", "normal, benign")
    assert asked == ["/good?download=1"]
    assert "━" not in capfd.readouterr().err  # no bar where stderr is no terminal


@pytest.mark.parametrize(
    ("page", "cause"),
    [
        ("wrong", "what arrived does not have the published md5"),
        ("absent", "the server answered 404 Not Found"),
        ("broken", "the connection broke off"),
    ],
)
def test_a_failed_download_says_how_to_go_on_and_leaves_nothing(publish, cache, page, cause):
    url = publish(page)
    with pytest.raises(InputError) as caught:
        sources.load("breastmnist")
    message = str(caught.value)
    assert cause in message
    for needed in (NAME, url, str(cache), "MAJORITY_DATA"):
        assert needed in message
    assert contents(cache) == []


def test_no_connection(cache, monkeypatch):
    monkeypatch.setitem(PUBLISHED, NAME, Published("http://127.0.0.1:9/file", "0" * 32))
    with pytest.raises(InputError, match=r"could not be downloaded from http://127.0.0.1:9/file \(no connection\)"):
        sources.load("breastmnist")
    assert contents(cache) == []


def test_a_download_stopped_by_hand_leaves_nothing(publish, cache, monkeypatch):
    publish("good")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download._Bar, "update", stop)
    with pytest.raises(KeyboardInterrupt):
        sources.load("breastmnist")
    assert contents(cache) == []


def test_a_cache_that_cannot_be_written(publish, tmp_path):
    publish("good")
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"breastmnist\.npz could not be downloaded"):
        sources.load("breastmnist")


def test_without_pooch_the_message_says_what_to_do(publish, monkeypatch, tmp_path):
    url = publish("good")
    really_import = builtins.__import__

    def no_pooch(name, *more, **kwargs):
        if name == "pooch":
            raise ImportError(name)
        return really_import(name, *more, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pooch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    with pytest.raises(InputError, match="pip install pooch, or fetch") as caught:
        sources.load("breastmnist")
    assert url in str(caught.value)
    (tmp_path / "xdg" / "majority").mkdir(parents=True)
    (tmp_path / "xdg" / "majority" / NAME).write_bytes(CONTENT)
    assert len(sources.load("breastmnist").store) == 30


def test_the_bar_is_drawn_on_a_terminal(publish, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    publish("good")
    monkeypatch.setattr(sys, "stderr", Terminal())
    sources.load("breastmnist")
    assert NAME in sys.stderr.getvalue()
    assert "━" in sys.stderr.getvalue()


def test_the_data_folder_comes_first(publish, cache, tmp_path, monkeypatch, asked):
    publish("good")
    for folder in (cache, tmp_path / "mine"):
        folder.mkdir(parents=True)
        (folder / NAME).write_bytes(CONTENT)
    assert files.find(NAME) == cache / NAME
    monkeypatch.setenv("MAJORITY_DATA", str(tmp_path / "mine"))
    assert files.find(NAME) == tmp_path / "mine" / NAME
    assert files.fetch(NAME) == tmp_path / "mine" / NAME
    assert asked == []


def test_a_data_folder_that_is_none(monkeypatch, tmp_path):
    monkeypatch.setenv("MAJORITY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"MAJORITY_DATA names .*nowhere, which is not a folder"):
        sources.load("breastmnist")


@pytest.mark.parametrize("place", ["cache", "data"])
def test_a_damaged_file_is_refused_and_left_alone(publish, cache, tmp_path, monkeypatch, asked, place):
    url = publish("good")
    folder = cache if place == "cache" else tmp_path / "mine"
    folder.mkdir(parents=True)
    if place == "data":
        monkeypatch.setenv("MAJORITY_DATA", str(folder))
    (folder / NAME).write_bytes(CONTENT[:-1])
    with pytest.raises(
        InputError, match=r"breastmnist\.npz is damaged .*: delete it and run again to fetch it"
    ) as caught:
        sources.load("breastmnist")
    assert url in str(caught.value)
    assert (folder / NAME).read_bytes() == CONTENT[:-1]
    (folder / NAME).unlink()
    assert len(sources.load("breastmnist").store) == 30
    assert len(asked) == 1


@pytest.fixture
def hashed(monkeypatch) -> list[str]:
    """Names of the files whose md5 was computed."""
    computed, compute = [], hashlib.file_digest

    def count(file, digest):
        computed.append(Path(file.name).name)
        return compute(file, digest)

    monkeypatch.setattr(hashlib, "file_digest", count)
    return computed


@pytest.fixture
def make_loader(publish, cache) -> Path:
    publish("good")
    cache.mkdir(parents=True)
    (cache / NAME).write_bytes(CONTENT)
    return cache / NAME


def test_the_md5_is_computed_once_until_the_file_changes(placed, hashed):
    for _ in range(3):
        files.fetch(NAME)
    assert hashed == [NAME]
    placed.write_bytes(CONTENT[:-1] + b"x")
    with pytest.raises(InputError, match="damaged"):
        files.fetch(NAME)
    assert hashed == [NAME] * 2


def test_a_note_of_another_md5_does_not_count(placed, hashed, monkeypatch):
    files.fetch(NAME)
    monkeypatch.setitem(PUBLISHED, NAME, Published("http://127.0.0.1:9/file", "0" * 32))
    with pytest.raises(InputError, match="damaged"):
        files.fetch(NAME)


@pytest.mark.parametrize("notes", ["", "{", "[1]", json.dumps({"other": None})])
def test_spoilt_notes_are_harmless(placed, cache, hashed, notes):
    (cache / files.NOTES).write_text(notes)
    for _ in range(2):
        files.fetch(NAME)
    assert hashed == [NAME]


def test_notes_that_cannot_be_written_are_harmless(placed, cache, hashed):
    (cache / files.NOTES).mkdir()
    for _ in range(2):
        files.fetch(NAME)
    assert hashed == [NAME] * 2


def test_a_path_that_is_not_there(tmp_path, majority):
    for name in ("absent.csv", "absent.parquet"):
        code, _, err = majority("check", tmp_path / name)
        assert code == 2
        assert "check the path" in err
