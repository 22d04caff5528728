"""A method of one's own in one file, used by the command."""

import csv
import json
import multiprocessing
import re
import shutil
from pathlib import Path

import pytest

from majority.nn.methods import METHODS
from majority.registry import _LOADED, PLUGINS
from majority.run.study import workers

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_loss.py"
NO_METHOD = "from majority import register; register('vote')"
TINY = ["--recipe", "quick", "--bags", "20", "--bag-size", "8", "--epochs", "2", "--device", "cpu"]


@pytest.fixture(scope="module")
def restore():
    """Forget the plugins that were run in this process."""
    shipped = dict(METHODS)

    def restore():
        METHODS.clear()
        METHODS.update(shipped)
        _LOADED.clear()

    return restore


@pytest.fixture(scope="module")
def here(majority, restore):
    """Run the command with these plugins in this process, which takes no seconds to start."""

    def run(*words, plugins=""):
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(PLUGINS, str(plugins))
            restore()
            result = majority(*words)
            restore()
            return result

    return run


@pytest.fixture(scope="module")
def run(here, tmp_path_factory):
    """A file with a method, and a run that was trained with it."""
    folder = tmp_path_factory.mktemp("own")
    plugin = shutil.copy(EXAMPLE, folder / "mine.py")
    code, _, err = here("train", "digits", "--method", "entropy", *TINY, "--out", folder / "run", plugins=plugin)
    assert code == 0, err
    return plugin, folder / "run"


def test_a_run_of_one_s_own_method_predicts_and_reports(run, here, tmp_path):
    plugin, folder = run
    result = json.loads((folder / "result.json").read_text())
    assert (result["method"], result["sees_instance_labels"]) == ("entropy", False)
    code, _, err = here("predict", folder, "--out", tmp_path / "classes.csv", plugins=plugin)
    assert code == 0, err
    with (tmp_path / "classes.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 5 * 8
    (folder / "report.html").unlink()
    code, _, err = here("report", folder, plugins=plugin)
    assert code == 0, err
    assert "entropy" in (folder / "report.html").read_text()


def test_a_run_without_its_method_tells_the_cure(run, here):
    code, _, err = here("evaluate", run[1])
    assert code == 2
    assert "there is no method 'entropy'" in err
    assert err.endswith("or register your own, in a file that MAJORITY_PLUGINS names\n")


def test_the_workers_of_a_study_know_it(run, here, restore, tmp_path, monkeypatch):
    """Each is a copy of this process that has forgotten its plugins: a new process takes seconds to start."""
    train = workers.load_plugins
    monkeypatch.setattr(workers, "load_plugins", lambda: (restore(), train()))
    monkeypatch.setattr(workers, "CONTEXT", multiprocessing.get_context("fork"))
    words = ["digits", "--methods", "entropy,log-mean", "--scenarios", "large", *TINY, "--jobs", "1", "--out", "STUDY"]
    shutil.copy(run[0], tmp_path / "mine.py")
    monkeypatch.chdir(tmp_path)
    code, _, err = here("study", *words, plugins="mine.py")  # workers begin in the same folder
    assert code == 0, err
    for plugin in (run[0], ""):  # the page of a study needs figures alone
        code, _, err = here("report", "STUDY", plugins=plugin)
        assert code == 0, err
        with (tmp_path / "STUDY/tables.csv").open() as file:
            assert {row["method"] for row in csv.DictReader(file)} == {"entropy", "log-mean"}
        choice = r"\| digits \| large \| quick .*(entropy|log-mean)"
        assert re.search(choice, (tmp_path / "STUDY/tables.md").read_text()), "both are there to choose from"


def test_a_file_that_is_missing_or_fails_is_one_message(here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, content, message in (
        ("nowhere.py", None, "MAJORITY_PLUGINS names nowhere.py, and there is no such Python file: correct the path"),
        ("a.py", "1 / 0", "a.py of MAJORITY_PLUGINS fails (ZeroDivisionError: division by zero): fix the file"),
        ("b.py", "def (", "b.py of MAJORITY_PLUGINS fails (SyntaxError: "),
        ("c.py", "raise SystemExit(3)", "c.py of MAJORITY_PLUGINS fails (SystemExit: 3)"),
        (
            "d.py",
            NO_METHOD,
            "d.py of MAJORITY_PLUGINS fails (InputError: register() got an object of type str: give a ",
        ),
    ):
        if content:
            Path(name).write_text(content)
        code, printed, err = here("list", plugins=name)
        assert (code, printed) == (2, "")
        assert message in err
        assert len(err.splitlines()) == 1
