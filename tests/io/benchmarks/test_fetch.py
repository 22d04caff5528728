"""Finding, checking and downloading published files, against a real server on this machine."""

import hashlib
import io
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from majority import io as sources
from majority.errors import InputError
from majority.io.benchmarks.published import PUBLISHED, Published, fetch, find

NAME = "breastmnist.npz"


def published_bytes() -> bytes:
    pictures = np.random.default_rng(0).integers(0, 256, (30, 28, 28), dtype=np.uint8)
    buffer = io.BytesIO()
    np.savez(buffer, train_images=pictures, train_labels=(np.arange(30) % 2)[:, None])
    return buffer.getvalue()


CONTENT = published_bytes()
MD5, SHA256 = (hashlib.new(name, CONTENT).hexdigest() for name in ("md5", "sha256"))


class Server(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path == "/absent":
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        self.wfile.write({"/broken": CONTENT[: len(CONTENT) // 2], "/wrong": CONTENT[::-1]}.get(self.path, CONTENT))
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


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch, server) -> Path:
    """A user cache for this test only, and no data folder."""
    server.requests.clear()
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)
    monkeypatch.delenv("MAJORITY_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return tmp_path / "cache" / "majority"


@pytest.fixture
def publish(server, monkeypatch):
    def declare(page: str, checksum: str = f"md5:{MD5}") -> str:
        url = f"http://127.0.0.1:{server.server_port}/{page}"
        monkeypatch.setitem(PUBLISHED, NAME, Published(url, checksum))
        return url

    return declare


def test_a_missing_file_is_downloaded_once(publish, cache, server):
    publish("good", f"sha256:{SHA256}")
    for _ in range(2):
        assert len(sources.load("breastmnist").store) == 30
    assert [path.name for path in cache.iterdir()] == [NAME]
    assert server.requests == ["/good"]


@pytest.mark.parametrize(("page", "cause"), [("wrong", MD5), ("absent", "404 Client Error"), ("broken", "Incomplete")])
def test_a_failed_download_names_its_cause_and_cures_and_leaves_no_file(publish, cache, page, cause):
    url = publish(page)
    with pytest.raises(InputError) as caught:
        sources.load("breastmnist")
    message = str(caught.value)
    assert [fact for fact in (cause, NAME, url, str(cache), "MAJORITY_DATA") if fact not in message] == []
    assert list(cache.iterdir()) == []


def test_a_cache_that_cannot_be_written_to(publish, tmp_path):
    publish("good")
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(InputError, match=r"breastmnist\.npz.*downloaded"):
        sources.load("breastmnist")


def test_the_data_folder_is_searched_before_the_cache(publish, cache, tmp_path, monkeypatch, server):
    publish("good")
    for folder in (cache, tmp_path / "mine"):
        folder.mkdir(parents=True)
        (folder / NAME).write_bytes(CONTENT)
    assert find(NAME) == cache / NAME
    monkeypatch.setenv("MAJORITY_DATA", str(tmp_path / "mine"))
    assert fetch(NAME) == tmp_path / "mine" / NAME
    assert server.requests == []
    monkeypatch.setenv("MAJORITY_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"MAJORITY_DATA .*nowhere.* not a folder"):
        sources.load("breastmnist")


def test_a_damaged_file_is_refused_and_not_changed(publish, cache, server):
    url = publish("good")
    cache.mkdir(parents=True)
    (cache / NAME).write_bytes(CONTENT[:-1])
    with pytest.raises(InputError, match=r"breastmnist\.npz is damaged .*: delete it") as caught:
        sources.load("breastmnist")
    assert url in str(caught.value)
    assert (cache / NAME).read_bytes() == CONTENT[:-1]
    assert server.requests == []
