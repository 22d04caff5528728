"""A method of one's own in one file, used by the command."""

import csv
import json
import multiprocessing
import os
import re
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from majority import Backbone, InputError, MajorityLabelClassifier, Method, Recipe
from majority import registry as plugins
from majority.io.encoders import Encoder
from majority.nn.methods import METHODS
from majority.registry import _LOADED, PLUGINS
from majority.run.study import cells, workers
from majority.training.augment import Augmentation

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_loss.py"
NO_METHOD = "from majority import register; register('vote')"
TINY = ["--recipe", "quick", "--bags", "20", "--bag-size", "8", "--epochs", "2", "--device", "cpu"]


def python(*words, plugins, cwd=None):
    environment = os.environ | {PLUGINS: str(plugins)}
    return subprocess.run([sys.executable, *words], env=environment, cwd=cwd, capture_output=True, text=True)


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
    train = cells.load_plugins
    monkeypatch.setattr(cells, "load_plugins", lambda: (restore(), train()))
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
        choice = r"\| digits \| large \| quick .* \| 2 \| (entropy|log-mean) 1 \|"
        assert re.search(choice, (tmp_path / "STUDY/tables.md").read_text()), "both are there to choose from"


def test_several_files_are_run_in_their_order_and_listed(here, tmp_path, monkeypatch):
    lines = [
        "from majority import Method, register",
        "from majority.nn.methods import METHODS",
        "register(Method('a', METHODS['vote'].kind, 'one of my own'))",
    ]
    (tmp_path / "first.py").write_text("\n".join(lines))
    (tmp_path / "second.py").write_text(
        "\n".join([*lines[:2], "register(Method('b', METHODS['a'].kind, METHODS['a'].about))"])
    )
    monkeypatch.chdir(tmp_path)
    code, said, err = here("list", plugins=os.pathsep.join(["first.py", "", "second.py"]))
    assert code == 0, err
    assert said.count("one of my own") == 2


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (None, "nowhere.py", "MAJORITY_PLUGINS names nowhere.py, and there is no such Python file: correct the path"),
        ("a: 1", "mine.yaml", "MAJORITY_PLUGINS names mine.yaml, and there is no such Python file: correct the path"),
        ("1 / 0", "mine.py", "mine.py of MAJORITY_PLUGINS fails (ZeroDivisionError: division by zero): fix the file"),
        ("def (", "mine.py", "mine.py of MAJORITY_PLUGINS fails (SyntaxError: "),
        ("import no_such_thing", "mine.py", "fails (ModuleNotFoundError: No module named 'no_such_thing')"),
        ("raise SystemExit(3)", "mine.py", "mine.py of MAJORITY_PLUGINS fails (SystemExit: 3)"),
        (
            NO_METHOD,
            "mine.py",
            "mine.py of MAJORITY_PLUGINS fails (InputError: register() got an object of type str: give a ",
        ),
    ],
)
def test_a_file_that_is_missing_or_fails_is_one_message(content, name, message, here, tmp_path, monkeypatch):
    if content:
        (tmp_path / name).write_text(content)
    monkeypatch.chdir(tmp_path)
    code, printed, err = here("list", plugins=name)
    assert (code, printed) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


WIDE = """
from torch import nn
from majority import Head, Method, register
from majority.losses import LogMeanLoss

class Wide(Head):
    def __init__(self, in_features, n_classes, width=8, power=1.0, hidden=True):
        super().__init__()
        self.hidden, self.power = nn.Linear(in_features, width) if hidden else None, power
        self.classifier = nn.Linear(width if hidden else in_features, n_classes)

    def aggregate(self, features, segments):
        hidden = (features if self.hidden is None else self.hidden(features)) * self.power
        return LogMeanLoss().predict(self.classifier(hidden), segments)

register(Method("wide", Wide, "one of my own"))
"""


@pytest.fixture
def wide(here, tmp_path):
    """Train it with options."""
    (tmp_path / "wide.py").write_text(WIDE)

    def train(*options):
        words = ["train", "digits", "--method", "wide", *(f"--option={option}" for option in options)]
        return here(*words, *TINY, "--out", tmp_path / "run", plugins=tmp_path / "wide.py")

    return train


def test_options_of_one_s_own_method_are_whole_numbers_numbers_and_truths(wide, tmp_path):
    code, _, err = wide("width=5", "power=.5", "hidden=False")
    assert code == 0, err
    options = json.loads((tmp_path / "run/config.json").read_text())["run"]["method_options"]
    assert options == {"width": 5, "power": 0.5, "hidden": False}
    assert isinstance(options["width"], int)
    assert "--option width=5 --option power=0.5 --option hidden=false" in (tmp_path / "run/report.html").read_text()


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("width=a", r"width='a' \(TypeError: .*\)"),
        ("width=-3", r"width=-3 \(RuntimeError: .*negative.*\)"),
        ("power=a", r"power='a' \(TypeError: .*\)"),
        ("power=none", r"power=None \(TypeError: .*\)"),
    ],
)
def test_a_value_that_one_s_own_method_fails_on_is_one_message(option, said, wide):
    code, _, err = wide(option)
    assert code == 2
    assert re.search(rf"method wide cannot take {said}: check each value \(`majority --debug` shows", err)
    assert "Traceback" not in err


def test_debug_shows_where_a_file_fails(tmp_path):
    (tmp_path / "mine.py").write_text("\n\n1 / 0")
    shown = python("-m", "majority", "--debug", "list", plugins="mine.py", cwd=tmp_path)
    assert 'mine.py", line 3' in shown.stderr


def test_processes_that_others_start_know_the_method(run_program):
    """As those of scikit-learn with n_jobs: nobody imports the file there."""
    given = f"import os; os.environ[{PLUGINS!r}] = {str(EXAMPLE)!r}"
    create = "import majority; print(type(majority.nn.methods.create_head('entropy', 3, 2).loss).__name__)"
    assert run_program(f"{given}; {create}") == "EntropyLoss\n"


@pytest.mark.usefixtures("registries")
def test_the_estimator_knows_the_method(monkeypatch):
    X, y, groups = np.random.default_rng(0).normal(size=(40, 3)), np.repeat(np.arange(10) % 2, 4), np.arange(40) // 4
    estimator = MajorityLabelClassifier(method="entropy", epochs=1)
    with pytest.raises(InputError, match="there is no method 'entropy'"):
        estimator.fit(X, y, groups=groups)
    monkeypatch.setenv(PLUGINS, str(EXAMPLE))
    monkeypatch.setattr(plugins, "_LOADED", set())
    assert estimator.fit(X, y, groups=groups).predict(X).shape == (40,)


def test_a_file_that_asks_for_a_method_of_a_later_one_is_told_once(here, tmp_path):
    (tmp_path / "first.py").write_text("from majority.nn.methods import METHODS; METHODS.find('later')")
    code, _, err = here("list", plugins=tmp_path / "first.py")
    assert code == 2
    assert err.count("there is no method 'later'") == err.count("of MAJORITY_PLUGINS fails") == 1


@pytest.mark.parametrize("kind", [Method, Backbone, Encoder, Augmentation, Recipe])
def test_a_description_is_the_third_argument_and_may_be_left_out(kind):
    third = fields(kind)[2]
    assert (third.name, third.default) == ("about", "")
