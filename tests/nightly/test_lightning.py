"""Our losses in PyTorch Lightning, which `make nightly` installs."""

import runpy
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly
EXAMPLE = Path(__file__).parents[2] / "examples" / "lightning_loop.py"


def test_the_example_learns_the_digits(capsys):
    pytest.importorskip("lightning", reason="the package lightning is not installed")
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert float(capsys.readouterr().out.split()[-1]) > 0.93
