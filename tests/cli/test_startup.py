"""Short commands import only what they need: the rest takes longer than the work itself."""

import subprocess
import sys

import pytest
import torch

COMMAND = """
import sys
from majority.cli import main
try:
    main()
finally:
    print(*sys.modules, file=sys.stderr)
"""


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    path = tmp_path_factory.mktemp("startup") / "bags.csv"
    rows = [f"{bag},{'ab'[bag % 2]},{bag % 2 + i / 10},{bag + i}.5" for bag in range(20) for i in range(5)]
    path.write_text("\n".join(["bag,bag_label,one,two", *rows]))
    return path


def imported(*words):
    """The packages and modules that a process of the command has imported at its end."""
    done = subprocess.run([sys.executable, "-c", COMMAND, *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


def test_list_and_check_do_not_import_torch(table):
    for words, others in ((["list"], {"pandas", "pyarrow"}), (["check", table], {"PIL"})):
        modules = imported(*words)
        assert "majority.sources" in modules
        assert not {"torch", "scipy", "sklearn", "jinja2", *others} & modules


@pytest.mark.skipif(torch.__version__ < (2, 13), reason="older versions of PyTorch and Typer import more themselves")
def test_predict_imports_neither_training_nor_the_compiler(table, tmp_path, majority):
    run = tmp_path / "run"
    assert majority("train", table, "--recipe", "quick", "--epochs", 1, "--out", run)[0] == 0
    modules = imported("predict", run, table, "--out", tmp_path / "classes.csv")
    assert "torch" in modules
    unneeded = {"torch._dynamo", "torch.onnx", "sympy", "scipy", "sklearn", "onnx", "PIL", "jinja2", "rich.table"}
    assert not (unneeded | {"majority.training", "majority.recipes", "majority.report"}) & modules


def test_training_on_a_cpu_does_not_import_the_compiler(table, tmp_path):
    modules = imported("train", table, "--recipe", "quick", "--epochs", 1, "--device", "cpu", "--out", tmp_path / "run")
    assert "majority.training.loop" in modules
    assert not {"torch._dynamo", "sympy", "sklearn", "onnx"} & modules
