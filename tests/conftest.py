import io
import sys
from contextlib import redirect_stderr, redirect_stdout

import pytest
import torch

from majority.cli import main
from majority.methods import METHODS


@pytest.fixture
def gpu():
    if not torch.cuda.is_available():
        pytest.skip("needs a GPU")


@pytest.fixture(scope="session", autouse=True)
def _cache_of_the_tests(tmp_path_factory):
    """What is decoded here stays out of the user's own cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def majority():
    """Run the command in this process: exit code, standard output, standard error."""

    def run(*words):
        said, complained = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(said), redirect_stderr(complained):
            patch.setattr(sys, "argv", ["majority", *map(str, words)])
            with pytest.raises(SystemExit) as stopped:
                main()
        return stopped.value.code or 0, said.getvalue(), complained.getvalue()

    return run


@pytest.fixture
def methods():
    """Methods that a test adds are gone after it."""
    shipped = dict(METHODS)
    yield METHODS
    METHODS.clear()
    METHODS.update(shipped)
