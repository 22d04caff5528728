"""Short commands import only what they need: the rest takes longer than the work itself."""

import json
import subprocess
import sys

import pytest
import torch

PROGRAM = """
import json, sys
from majority.cli import main
modules = []
for words in json.loads(sys.argv[1]):
    sys.argv = ["majority", *words]
    try:
        main()
    except SystemExit as stopped:
        assert not stopped.code, words
    modules.append(list(sys.modules))
print(json.dumps(modules), file=sys.stderr)
"""


@pytest.fixture(scope="module")
def imported(majority, tmp_path_factory):
    """The modules that a process has imported at the end of each command. Commands share processes: the first of each
    needs the least."""
    folder = tmp_path_factory.mktemp("startup")
    table, run = folder / "bags.csv", folder / "run"
    rows = [f"{bag},{'ab'[bag % 2]},{bag % 2 + i / 10},{bag + i}.5" for bag in range(20) for i in range(5)]
    table.write_text("\n".join(["bag,bag_label,one,two", *rows]))
    train = ["train", table, "--recipe", "quick", "--method=log-mean", "--epochs", 1, "--device", "cpu", "--out"]
    assert majority(*train, run)[0] == 0
    predict, modules = ["predict", run, table, "--out", folder / "classes.csv"], {}
    for commands in (["--help"], ["list"], ["check", table]), (predict, [*train, folder / "again"]):
        words = json.dumps([[str(word) for word in command] for command in commands])
        done = subprocess.run([sys.executable, "-c", PROGRAM, words], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stderr.splitlines()[-1])
        modules |= {command[0]: set(names) for command, names in zip(commands, found, strict=True)}
    return modules


def test_help_list_and_check_do_not_import_torch(imported):
    for command, others in {"--help": {"pandas"}, "list": {"pandas", "pyarrow"}, "check": {"PIL"}}.items():
        assert "majority.cli" in imported[command]
        assert not {"torch", "scipy", "sklearn", "jinja2", *others} & imported[command], command


@pytest.mark.skipif(torch.__version__ < (2, 13), reason="older versions of PyTorch import more themselves")
def test_predict_imports_neither_training_nor_the_compiler(imported):
    assert "torch" in imported["predict"]
    unneeded = {"torch._dynamo", "torch.onnx", "sympy", "scipy", "sklearn", "onnx", "PIL", "jinja2", "rich.table"}
    assert not (unneeded | {"majority.training", "majority.recipes", "majority.run.report"}) & imported["predict"]


def test_training_on_a_cpu_does_not_import_the_compiler(imported):
    assert "majority.training.loop" in imported["train"]
    assert not {"torch._dynamo", "onnx"} & imported["train"]
    if torch.__version__ >= (2, 11):  # before, PyTorch itself checks shapes with it
        assert "sympy" not in imported["train"]
