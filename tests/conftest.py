import io
import shutil
import sys
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
import typer

from majority.cli.app import main
from majority.methods import METHODS

collect_ignore = ["fuzz.py", "fuzzing", "kills.py"]  # scripts, which test_fuzz.py and test_kills.py run

CHROMIUM = Path(shutil.which("chromium") or "chromium")
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync"]


@pytest.fixture
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


@pytest.fixture(scope="session", autouse=True)
def _session(tmp_path_factory):
    """Decoded images stay out of the user's cache; the command's parsers are built once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(typer.main, "get_command", cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session")
def majority():
    """Run the command in this process: exit code, standard output, standard error."""

    def run(*words):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["majority", *map(str, words)])
            with pytest.raises(SystemExit) as stopped:
                main()
        return stopped.value.code or 0, out.getvalue(), err.getvalue()

    return run


@pytest.fixture
def labelled_set(tmp_path):
    """Write a small set of images; a process reads it without scikit-learn, whose import takes a second."""

    def write(name="own.npz", classes=3):
        rng = np.random.default_rng(0)
        arrays = {f"{part}_images": rng.integers(0, 256, (200, 8, 8), np.uint8) for part in ("train", "val", "test")}
        arrays |= {f"{part}_labels": np.arange(200)[:, None] % classes for part in ("train", "val", "test")}
        np.savez(tmp_path / name, **arrays)
        return str(tmp_path / name)

    return write


@pytest.fixture
def methods():
    """Methods that a test registers are removed after it."""
    shipped = dict(METHODS)
    yield METHODS
    METHODS.clear()
    METHODS.update(shipped)


@pytest.fixture(scope="session")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: the page is not opened in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: the page is not opened in a browser")
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_ARGS)
        yield chromium
        chromium.close()


@pytest.fixture
def opened(browser):
    """Open a file; at the end of the test there were no messages and no other requests."""
    pages, messages, requests = [], [], []

    def show(path):
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.on("console", lambda message: messages.append(message.text))
        page.on("pageerror", lambda error: messages.append(str(error)))
        page.on("dialog", lambda dialog: (messages.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        pages.append(page)
        return page

    yield show
    for page in pages:
        page.close()
    assert messages == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == len(pages)
