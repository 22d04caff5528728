"""Finding, checking and downloading published files, against a real server on this machine."""

import builtins
import hashlib
import io
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from majority import io as sources
from majority.errors import InputError
from majority.io.benchmarks import download, fetch
from majority.io.benchmarks.published import PUBLISHED, Published

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
        self.server.requests.append(self.path)
        if self.path.startswith("/absent"):
            self.send_error(404)
            return
        if self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", {"/moved": "/good", "/moved-away": "ftp://127.0.0.1/file"}[self.path[:-11]])
            self.end_headers()
            return
        self.send_response(200)
        if not self.path.startswith("/unsized"):
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
        running.requests = []
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()


@pytest.fixture
def requests(server) -> list[str]:
    """The paths that the server was asked for in this test."""
    server.requests.clear()
    return server.requests


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    """A user cache for this test only, and no data folder."""
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("MAJORITY_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(download, "SCHEME", "http")  # the server of these tests has no certificate
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


def test_a_missing_file_is_downloaded_once(publish, cache, requests, capfd):
    publish("good")
    assert len(sources.load("breastmnist").store) == 30
    assert (cache / NAME).read_bytes() == CONTENT
    assert contents(cache) == [NAME]
    assert sources.load("breastmnist").classes == ("malignant", "normal, benign")
    assert requests == ["/good?download=1"]
    assert "━" not in capfd.readouterr().err  # no progress bar if stderr is not a terminal


@pytest.mark.parametrize(
    ("page", "cause"),
    [
        ("wrong", hashlib.md5(CONTENT).hexdigest()),
        ("absent", "404 Client Error"),
        ("broken", "IncompleteRead"),
    ],
)
def test_a_failed_download_names_its_cause_and_cures_and_leaves_no_file(publish, cache, page, cause):
    url = publish(page)
    with pytest.raises(InputError) as caught:
        sources.load("breastmnist")
    message = str(caught.value)
    assert [fact for fact in (cause, NAME, url, str(cache), "MAJORITY_DATA") if fact not in message] == []
    assert contents(cache) == []


def test_only_https_is_accepted(publish, cache, requests, monkeypatch):
    publish("good")
    monkeypatch.setattr(download, "SCHEME", "https")
    with pytest.raises(InputError, match=r"is not an address of https.*by hand"):
        sources.load("breastmnist")
    assert requests == []
    assert contents(cache) == []
    assert all(published.url.startswith("https://") for published in PUBLISHED.values() if "127.0" not in published.url)


def test_a_redirection_is_followed_within_the_scheme_only(publish, cache, requests):
    publish("moved-away")
    with pytest.raises(InputError, match=r"ftp://127\.0\.0\.1/file is not an address of"):
        sources.load("breastmnist")
    assert requests == ["/moved-away?download=1"]
    assert contents(cache) == []
    publish("moved")
    assert len(sources.load("breastmnist").store) == 30
    assert requests[1:] == ["/moved?download=1", "/good"]


@pytest.mark.parametrize("page", ["good", "unsized"])
def test_a_file_that_is_too_large_is_refused(publish, cache, page, monkeypatch):
    publish(page)
    monkeypatch.setattr(download, "MAX_BYTES", len(CONTENT) - 1)
    with pytest.raises(InputError, match="the file has more than"):
        sources.load("breastmnist")
    assert contents(cache) == []
    monkeypatch.setattr(download, "MAX_BYTES", len(CONTENT) + 1024)  # pooch counts whole blocks
    assert len(sources.load("breastmnist").store) == 30


@pytest.mark.parametrize("sha256", [hashlib.sha256(CONTENT).hexdigest(), "0" * 64])
def test_a_known_sha256_is_checked(publish, cache, monkeypatch, sha256):
    url = publish("good")
    monkeypatch.setitem(PUBLISHED, NAME, Published(url, hashlib.md5(CONTENT).hexdigest(), sha256))
    if sha256 == "0" * 64:
        with pytest.raises(InputError, match=sha256):
            sources.load("breastmnist")
        cache.mkdir(parents=True, exist_ok=True)
        (cache / NAME).write_bytes(CONTENT)
        with pytest.raises(InputError, match=f"published {sha256}"):
            sources.load("breastmnist")
    else:
        assert len(sources.load("breastmnist").store) == 30


def test_no_connection(cache, monkeypatch):
    monkeypatch.setitem(PUBLISHED, NAME, Published("http://127.0.0.1:9/file", "0" * 32))
    with pytest.raises(InputError, match=r"breastmnist\.npz.*http://127.0.0.1:9/file.*Connection refused"):
        sources.load("breastmnist")
    assert contents(cache) == []


def test_an_interrupted_download_leaves_no_file(publish, cache, monkeypatch):
    publish("good")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(download._Bar, "update", stop)
    with pytest.raises(KeyboardInterrupt):
        sources.load("breastmnist")
    assert contents(cache) == []


def test_a_cache_that_cannot_be_written_to(publish, tmp_path):
    publish("good")
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"breastmnist\.npz.*downloaded"):
        sources.load("breastmnist")


def test_without_pooch_the_message_names_the_cures(publish, monkeypatch, tmp_path):
    url = publish("good")
    really_import = builtins.__import__

    def no_pooch(name, *more, **kwargs):
        if name == "pooch":
            raise ImportError(name)
        return really_import(name, *more, **kwargs)

    monkeypatch.setattr(builtins, "__import__", no_pooch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    with pytest.raises(InputError, match="pip install pooch") as caught:
        sources.load("breastmnist")
    assert url in str(caught.value)
    (tmp_path / "xdg" / "majority").mkdir(parents=True)
    (tmp_path / "xdg" / "majority" / NAME).write_bytes(CONTENT)
    assert len(sources.load("breastmnist").store) == 30


def test_a_progress_bar_is_drawn_on_a_terminal(publish, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    publish("good")
    monkeypatch.setattr(sys, "stderr", Terminal())
    sources.load("breastmnist")
    assert NAME in sys.stderr.getvalue()
    assert "━" in sys.stderr.getvalue()


def test_the_data_folder_is_searched_before_the_cache(publish, cache, tmp_path, monkeypatch, requests):
    publish("good")
    for folder in (cache, tmp_path / "mine"):
        folder.mkdir(parents=True)
        (folder / NAME).write_bytes(CONTENT)
    assert fetch.find(NAME) == cache / NAME
    monkeypatch.setenv("MAJORITY_DATA", str(tmp_path / "mine"))
    assert fetch.find(NAME) == tmp_path / "mine" / NAME
    assert fetch.fetch(NAME) == tmp_path / "mine" / NAME
    assert requests == []


def test_a_data_folder_that_does_not_exist(monkeypatch, tmp_path):
    monkeypatch.setenv("MAJORITY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"MAJORITY_DATA .*nowhere.* not a folder"):
        sources.load("breastmnist")


@pytest.mark.parametrize("place", ["cache", "data"])
def test_a_damaged_file_is_refused_and_not_changed(publish, cache, tmp_path, monkeypatch, requests, place):
    url = publish("good")
    folder = cache if place == "cache" else tmp_path / "mine"
    folder.mkdir(parents=True)
    if place == "data":
        monkeypatch.setenv("MAJORITY_DATA", str(folder))
    (folder / NAME).write_bytes(CONTENT[:-1])
    with pytest.raises(InputError, match=r"breastmnist\.npz is damaged .*: delete it") as caught:
        sources.load("breastmnist")
    assert url in str(caught.value)
    assert (folder / NAME).read_bytes() == CONTENT[:-1]
    (folder / NAME).unlink()
    assert len(sources.load("breastmnist").store) == 30
    assert len(requests) == 1


def test_a_path_that_does_not_exist(tmp_path, majority):
    for name in ("absent.csv", "absent.parquet"):
        code, _, err = majority("check", tmp_path / name)
        assert code == 2
        assert name in err
        assert "check the path" in err
