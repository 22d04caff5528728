"""What all tests share. The controller of the test workers reads this file too, so large imports are in fixtures."""

import gc
import io
import multiprocessing
import pickle
import shutil
import sys
import uuid
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest

collect_ignore = ["process_groups.py"]  # a script, which tests run

KILLS = Path(__file__).with_name("nightly") / "kills.py"
GROUPS, PROCESS_SECONDS = Path(__file__).with_name("process_groups.py"), 300  # a process that takes longer hangs

CHROMIUM = Path(shutil.which("chromium") or "chromium")
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run", "--disable-sync"]
SCREEN = {"width": 1280, "height": 800}
SMALL_FOREST, WHOLE_FOREST = (3, (0.5,), (0.5,)), {}  # numbers of trees, strengths and signals of corrections
WHOLE_FORESTS = ("forest", "quick", "members", "census_of_vectors", "distributed")  # test_NAME.py


# Set-ups that take seconds. Files with tests that need them come first, one after the other: one test worker then runs
# most of them.
SHARED = ("nodes", "processes", "onnx_operators", "browser")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """What is imported and collected stays: the garbage collector need not look at it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Of a test that is marked `sample(n)`, all cases but the first n run only in `make nightly`."""
    ranks, seen = {}, Counter()
    for item in items:
        if sample := item.get_closest_marker("sample"):
            test = (item.path, item.originalname)
            seen[test] += 1
            if seen[test] > sample.args[0]:
                item.add_marker("nightly")
    for item in items:
        needed = [SHARED.index(name) for name in getattr(item, "fixturenames", ()) if name in SHARED]
        ranks[item.path] = min([ranks.get(item.path, len(SHARED)), *needed])
    items.sort(key=lambda item: ranks[item.path])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """A run on vectors grows a forest, if only to be compared with: a small one, but for tests of what it learns."""
    if members := sys.modules.get("majority.recipes.census.members"):
        whole = WHOLE_FOREST.setdefault("whole", (members.TREES, members.STRENGTHS, members.SIGNALS))
        is_small = item.path.stem.removeprefix("test_") not in WHOLE_FORESTS
        members.TREES, members.STRENGTHS, members.SIGNALS = SMALL_FOREST if is_small else whole


@pytest.fixture
def gpu():
    import torch

    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


@pytest.fixture(scope="session", autouse=True)
def _session(tmp_path_factory):
    """Decoded images stay out of the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        if torch := sys.modules.get("torch"):  # each seed formats the stack, for devices that are started later
            for devices in (torch.cuda, torch.xpu, torch.mtia):
                patch.setattr(devices, "traceback", SimpleNamespace(format_stack=list), raising=False)
        yield


@pytest.fixture(scope="session")
def onnx_operators():
    """PyTorch's exporter lists the operators of ONNX once, not in every export, which takes a second."""
    pytest.importorskip("onnxscript", reason="pip install onnx onnxscript onnxruntime")
    registration = pytest.importorskip("torch.onnx._internal.exporter._registration")
    registry = getattr(registration, "ONNXRegistry", None)
    with pytest.MonkeyPatch.context() as patch:
        if hasattr(registry, "from_torchlib"):
            patch.setattr(registry, "from_torchlib", staticmethod(cache(registry.from_torchlib)))
        yield


@pytest.fixture(scope="session")
def majority():
    """Run the command in this process: exit code, standard output, standard error."""
    from majority.cli.app import main

    def run(*words):
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setattr(sys, "argv", ["majority", *map(str, words)])
            with pytest.raises(SystemExit) as stopped:
                main()
        return stopped.value.code or 0, out.getvalue(), err.getvalue()

    return run


@pytest.fixture(scope="session")
def succeeds(majority):
    """Run a command that succeeds: what it prints."""

    def run(*words):
        code, printed, error = majority(*words)
        assert code == 0, (words, error or printed)
        return printed

    return run


@pytest.fixture(scope="session")
def refused(majority):
    """Run a command that cannot be followed as it is written: its message."""

    def run(*words):
        code, printed, error = majority(*words)
        assert code == 2, (words, error or printed)
        return error

    return run


@pytest.fixture(scope="session")
def processes():
    """Starts processes as copies of one that has imported the package: an import takes seconds."""
    context = multiprocessing.get_context("forkserver")
    package = ["majority.cli.train", "majority.run.experiment", "majority.run.report.page"]
    needed_later = ["pydantic", "scipy.sparse"]  # commands import these when they need them
    context.set_forkserver_preload([*package, *needed_later, "pytest"])
    return context


@pytest.fixture
def in_processes(processes, tmp_path):
    """Call `function(rank, size, folder, *args)` of a module's file in several processes at once: exit codes, and the
    result of each process, None if it did not return."""

    def run(module, function, size, *args):
        folder = tmp_path / f"processes-{uuid.uuid4().hex}"
        folder.mkdir()
        started = []
        for rank in range(size):
            call = f"be_process({module!r}, {function!r}, {rank}, {size}, {str(folder)!r}, {args!r})"
            program = f"import runpy; be_process = runpy.run_path({str(GROUPS)!r})['be_process']; {call}"
            started.append(processes.Process(target=exec, args=(program, {})))
            started[-1].start()
        for process in started:
            process.join(PROCESS_SECONDS)
        hanging = [process for process in started if process.exitcode is None]
        for process in hanging:
            process.kill()
        assert not hanging, "a process hangs"
        files = [folder / f"result-{rank}" for rank in range(size)]
        results = [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]
        return [process.exitcode for process in started], results

    return run


@pytest.fixture
def run_program(processes, tmp_path):
    """Run a program in a new process: what it prints. Memory that it measures is that of the package at first."""

    def run(program, *words):
        printed = tmp_path / "printed"
        program = f"import sys; sys.stdout = open({str(printed)!r}, 'w')\n{program}\nsys.stdout.close()"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "argv", ["-c", *map(str, words)])
            process = processes.Process(target=exec, args=(program, {}))
            process.start()
        process.join()
        assert process.exitcode == 0
        return printed.read_text()

    return run


@pytest.fixture
def run_kills(processes, tmp_path):
    """Run tests/nightly/kills.py in a process that has imported the package: its exit code and what it prints."""

    def run(*words, before=""):
        printed = tmp_path / "printed"
        program = f"""
import os, runpy, sys
file = open({str(printed)!r}, "w")
os.dup2(file.fileno(), 1)
os.dup2(file.fileno(), 2)
sys.path.insert(0, {str(KILLS.parents[1])!r})
{before}
sys.argv = ["kills.py", *{[*map(str, words)]!r}]
runpy.run_path({str(KILLS)!r}, run_name="__main__")
"""
        process = processes.Process(target=exec, args=(program, {}))
        process.start()
        process.join()
        return process.exitcode, printed.read_text()

    return run


@pytest.fixture
def labelled_set(tmp_path):
    """Write a small set of images; a process reads it without scikit-learn, whose import takes a second."""
    import numpy as np

    def write(name="own.npz", classes=3):
        rng = np.random.default_rng(0)
        arrays = {f"{part}_images": rng.integers(0, 256, (200, 8, 8), np.uint8) for part in ("train", "val", "test")}
        arrays |= {f"{part}_labels": np.arange(200)[:, None] % classes for part in ("train", "val", "test")}
        np.savez(tmp_path / name, **arrays)
        return str(tmp_path / name)

    return write


@pytest.fixture
def registries():
    """What a test registers is removed after it."""
    from majority import registry as plugins

    before = [dict(registry) for registry in plugins._REGISTRIES]
    yield
    for registry, entries in zip(plugins._REGISTRIES, before, strict=False):
        registry.clear()
        registry.update(entries)


@pytest.fixture(scope="session")
def browser():
    if not CHROMIUM.exists():
        pytest.skip(f"no {CHROMIUM}: the page is not opened in a browser")
    playwright = pytest.importorskip("playwright.sync_api", reason="no playwright: the page is not opened in a browser")
    with playwright.sync_playwright() as engine:
        chromium = engine.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_ARGS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def only_page(browser):
    return browser.new_page(viewport=SCREEN)


@pytest.fixture
def page(only_page):
    """An empty page. All tests share it, one after the other: a new one is a new window, which takes half a second."""
    yield only_page
    only_page.goto("about:blank")
    only_page.emulate_media(media="null")
    only_page.set_viewport_size(SCREEN)


@pytest.fixture
def opened(page):
    """Open a file; at the end of the test there were no messages and no other requests."""
    shown, messages, requests = [], [], []
    heard = {
        "console": lambda message: messages.append(message.text),
        "pageerror": lambda error: messages.append(str(error)),
        "dialog": lambda dialog: (messages.append(dialog.message), dialog.dismiss()),
        "request": lambda request: requests.append(request.url),
    }

    def show(path):
        page.goto(path.as_uri())
        shown.append(path)
        return page

    for event, hear in heard.items():
        page.on(event, hear)
    yield show
    for event, hear in heard.items():
        page.remove_listener(event, hear)
    assert messages == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == len(shown)
