"""Labelled sets that a user registers, from Python and in a file that MAJORITY_PLUGINS names."""

import numpy as np
import pytest

from majority import InputError, LabelledSet, load_source, register
from majority import io as sources
from majority.io import NamedSource
from majority.registry import _LOADED, PLUGINS

PLUGIN = """
import numpy as np
from majority import LabelledSet, register
from majority.io import NamedSource

def load():
    rng = np.random.default_rng(0)
    labels = np.arange(200) % 2
    return LabelledSet("clouds", rng.normal(size=(200, 3)) + 3 * labels[:, None], labels, ("left", "right"), bag_size=8)

register(NamedSource("clouds", load, classes=("left", "right"), instances=200, shape=(3,), licence="CC0"))
"""


pytestmark = pytest.mark.usefixtures("registries")


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(PLUGIN)
    monkeypatch.setenv(PLUGINS, str(tmp_path / "mine.py"))
    yield tmp_path / "mine.py"
    _LOADED.discard(str(tmp_path / "mine.py"))


def load_stripes() -> LabelledSet:
    images = np.zeros((100, 4, 4, 1), np.uint8)
    images[50:, ::2] = 255
    return LabelledSet("stripes", images, np.repeat([0, 1], 50), ("plain", "striped"))


def test_only_a_name_and_a_loader_are_needed():
    register(NamedSource("stripes", load_stripes))
    assert repr(load_source("stripes")) == "LabelledSet(stripes: 100 instances of shape (4, 4, 1), 2 classes)"
    assert load_source("stripes").kind == "stripes"
    info = sources.describe()[-1]
    assert (info.name, info.locate()[0], info.classes, info.instances, info.shape) == ("stripes", True, (), None, None)


def test_a_registered_source_replaces_one_of_the_same_name():
    before = sources.names()
    register(NamedSource("digits", load_stripes, location="somewhere else"))
    assert sources.names() == before
    assert len(load_source("digits").store) == 100
    assert sources.describe()[0].locate()[1] == "somewhere else"


def test_a_plugin_file_is_found_by_load_describe_and_names(plugin):
    assert len(load_source("clouds").make_parts(bags=8).train) == 8
    assert "clouds" in sources.names()
    assert [info.licence for info in sources.describe() if info.name == "clouds"] == ["CC0"]


def test_a_run_on_it_is_trained_and_evaluated(plugin, majority, tmp_path):
    words = ("--recipe", "quick", "--bags", 20, "--epochs", 1, "--device", "cpu", "--out", tmp_path / "run")
    code, _, err = majority("train", "clouds", *words)
    assert code == 0, err
    code, out, err = majority("evaluate", tmp_path / "run")
    assert code == 0, err
    assert "instance accuracy" in out


def test_a_loader_that_returns_something_else_is_refused():
    register(NamedSource("wrong", lambda: np.zeros(3)))
    with pytest.raises(InputError, match=r"wrong.*ndarray.*LabelledSet"):
        load_source("wrong")
