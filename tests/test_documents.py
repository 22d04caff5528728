"""The tutorial and the examples, executed as a reader would."""

import csv
import io
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import torch
from PIL import Image

from majority.data.batches import Target
from majority.data.segments import Segments
from majority.methods import METHODS, Method, create_head

ROOT = Path(__file__).parents[1]
ENVIRONMENT = os.environ | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "OMP_NUM_THREADS": "1",
}


def fenced(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


def test_the_tutorial_runs_from_images_to_a_report(tmp_path, majority, monkeypatch):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    commands = [line[2:] for block in fenced("tutorial.md", "console") for line in block.splitlines()]
    assert len(commands) == 10
    for command in commands[:2]:
        environment = ENVIRONMENT | {"XDG_CACHE_HOME": str(tmp_path / "cache")}
        done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    for command in commands[2:]:  # without the seconds that a process takes to start
        name, *words = shlex.split(command)
        assert name == "majority"
        code, said, err = majority(*words)
        assert code == 0, f"{command}: {said[-2000:]}{err[-2000:]}"
    with (tmp_path / "classes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 300 * 16
    with (tmp_path / "digits" / "bags.csv").open() as file:
        truth = {row["path"]: row["label"] for row in csv.DictReader(file)}
    right = [row["class"] == truth[row["path"]] for row in rows]
    assert sum(right) / len(right) > 0.9
    assert (tmp_path / "run" / "report.html").stat().st_size > 50_000
    assert (tmp_path / "model.onnx").exists()
    for said in run_snippets():
        assert re.fullmatch(r"\[?'?\d'?\]?", said)


def run_snippets() -> list[str]:
    """What the tutorial's Python prints, of the ONNX file and of the run, where they are in this folder."""
    printed = []
    for snippet in fenced("tutorial.md", "python"):
        with redirect_stdout(io.StringIO()) as said:
            exec(snippet, {"__name__": "__main__"})
        printed.append(said.getvalue().strip())
    assert len(printed) == 2
    return printed


def test_the_tutorial_s_python_takes_colour_images_of_any_size(tmp_path, majority, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    Path("digits/test0").mkdir(parents=True)
    with open("bags.csv", "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["bag", "bag_label", "path"])
        for bag in range(40):
            colour = ("red", "blue")[bag % 2]
            Image.new("RGB", (20 + bag % 3, 30), colour).save(f"digits/test0/{bag}.png")
            table.writerow([bag, colour, f"digits/test0/{bag}.png"])
    words = ("--recipe", "quick", "--image-size", 16, "--epochs", 10, "--out", "run")
    assert majority("train", "bags.csv", *words)[0] == 0
    assert majority("export", "run")[0] == 0
    assert run_snippets() == ["red", "['red']"]


def test_the_recipes_of_the_command_from_python(tmp_path, majority, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    section = (ROOT / "docs" / "training.md").read_text().split("### The recipes of the command, from Python")[1]
    blocks = re.findall(r"```(\w+)\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
    assert [language for language, _ in blocks] == ["python", "sh", "python"]
    (_, write), (_, train), (_, use) = blocks
    names = {"__name__": "__main__"}
    exec(write, names)
    name, *words = shlex.split(train)
    assert name == "majority"
    assert majority(*words)[0] == 0
    exec(use, names)
    said = re.findall(r"\d+", capsys.readouterr().out.splitlines()[-1])
    assert said[0] == "0"  # the first five digits show 0 to 4
    assert len(said) == 5


EXAMPLES = {path.name for path in (ROOT / "examples").glob("*.py")} - {"sklearn_arrays.py"}  # test_estimator.py has it


@pytest.mark.usefixtures("methods")
@pytest.mark.parametrize("script", sorted(EXAMPLES))
def test_examples_run(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.syspath_prepend(ROOT / "examples")
    runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_the_method_that_contributors_are_shown_works_as_it_stands(monkeypatch):
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Add a method")[1].split("\n## ")[0]
    file, import_line, entry = re.findall(r"```(?:python)?\n(.*?)```", section, re.DOTALL)
    init = (ROOT / "src/majority/methods/__init__.py").read_text()
    assert import_line in init
    assert f"        {entry}" in init
    names = {"__name__": "majority.methods.shown", "__package__": "majority.methods"}
    exec(file, names)
    (shown,) = eval(entry, {"Method": Method, "Vote": names["Vote"]})
    outputs = {}
    for method in (METHODS["vote"], shown):
        monkeypatch.setitem(METHODS, "vote", method)
        torch.manual_seed(0)
        head, segments = create_head("vote", 6, 5), Segments([3, 1, 7])
        output = head(torch.randn(11, 6), segments)
        outputs[type(head)] = (*output, head.losses(output, segments, Target(torch.tensor([0, 4, 2]))))
    assert len(outputs) == 2
    torch.testing.assert_close(*outputs.values())


def test_every_link_of_the_documents_leads_somewhere():
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        ROOT / "results/README.md",
        *(ROOT / "docs").glob("*.md"),
    ]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            if not target.startswith("http"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_architecture_page_names_every_room():
    page = (ROOT / "docs" / "architecture.md").read_text()
    named = re.findall(r"^\| `([\w/]+\.py)` \|", page, re.MULTILINE)
    package = ROOT / "src" / "majority"
    assert sorted(named) == sorted(str(path.relative_to(package)) for path in package.rglob("*.py"))
