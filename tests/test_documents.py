"""README, pages and examples: their commands and code are executed, their links and tables checked."""

import ast
import csv
import doctest
import io
import re
import runpy
import shlex
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import majority
from majority.cli.app import COMMANDS
from majority.data.segments import Segments
from majority.data.targets import Target
from majority.nn.methods import METHODS, Method, create_head

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src" / "majority"
PAGES = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "results/README.md")]
PAGES += sorted(DOCS.rglob("*.md"))


def fenced(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def run_lines(majority, block: str) -> None:
    """Run each line of a block with the command in this process."""
    for line in block.splitlines():
        name, *words = shlex.split(line, comments=True)
        assert name == "majority"
        code, out, err = majority(*words)
        assert code == 0, f"{line}: {out[-2000:]}{err[-2000:]}"


def write_colour_manifest(path: Path, names: tuple[str, str], folder: str, heights: tuple[int, ...]) -> None:
    """40 bags of one red or blue image each."""
    Path(folder).mkdir(parents=True)
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["bag", "bag_label", "path"])
        for bag in range(40):
            image = Image.new("RGB", (13, heights[bag % len(heights)]), ("red", "blue")[bag % 2])
            image.save(f"{folder}/{bag}.png")
            table.writerow([bag, names[bag % 2], f"{folder}/{bag}.png"])


def use_bags(monkeypatch, **choices) -> None:
    """Benchmark bags by these choices, whatever a script asks for: fewer files are written and read."""
    make_parts = majority.LabelledSet.make_parts
    monkeypatch.setattr(majority.LabelledSet, "make_parts", lambda self, **given: make_parts(self, **given | choices))


# ---------------------------------------------------------------------- commands and code


@pytest.mark.usefixtures("onnx_operators")
def test_the_commands_of_the_readme_lead_from_a_csv_to_predictions(tmp_path, majority, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    (header,) = {block.splitlines()[0] for block in fenced(ROOT / "README.md", "csv")}
    write_colour_manifest(Path("slides.csv"), ("lepidic", "acinar"), "tiles", heights=(13,))
    assert Path("slides.csv").read_text().splitlines()[0] == header
    (block,) = fenced(ROOT / "README.md", "sh")
    assert len(block.splitlines()) == 5
    run_lines(majority, re.sub(r"^(majority train .*?) *#", r"\1 --recipe quick #", block, flags=re.MULTILINE))
    with Path("classes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["class"] for row in rows] == ["lepidic", "acinar"] * 20
    assert Path("run/report.html").exists()
    assert Path("model.onnx").exists()


@pytest.mark.usefixtures("onnx_operators")
def test_the_tutorial_runs_from_images_to_a_report(tmp_path, majority, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    tutorial = DOCS / "get-started/tutorial.md"
    first, *commands = (line[2:] for block in fenced(tutorial, "console") for line in block.splitlines())
    assert len(commands) == 9
    python, script, *words = shlex.split(first)
    assert python == "python"
    monkeypatch.setattr(sys, "argv", [script, *words])
    use_bags(monkeypatch, bag_size=5)
    runpy.run_path(str(ROOT / script), run_name="__main__")
    epochs = {"compared/": 1, "run": 12}
    short = [
        re.sub(r"(--out (compared/|run).*)", lambda m: f"{m[1]} --epochs {epochs[m[2]]}", line) for line in commands
    ]
    run_lines(majority, "\n".join(short))  # in this process: a new one takes seconds to start
    with (tmp_path / "classes.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 300 * 5
    with (tmp_path / "example" / "bags.csv").open() as file:
        true_class = {row["path"]: row["label"] for row in csv.DictReader(file)}
    correct = [row["class"] == true_class[row["path"]] for row in rows]
    assert sum(correct) / len(correct) > 0.9
    assert (tmp_path / "run" / "report.html").stat().st_size > 50_000
    assert (tmp_path / "model.onnx").exists()
    for printed in run_tutorial_snippets():
        assert re.fullmatch(r"\[?'?\d'?\]?", printed)


def run_tutorial_snippets() -> list[str]:
    """The output of the tutorial's Python code for the ONNX file and for the run of the current folder."""
    outputs = []
    for snippet in fenced(DOCS / "get-started/tutorial.md", "python"):
        with redirect_stdout(io.StringIO()) as printed:
            exec(snippet, {"__name__": "__main__"})
        outputs.append(printed.getvalue().strip())
    assert len(outputs) == 2
    return outputs


@pytest.mark.usefixtures("onnx_operators")
def test_the_python_code_of_the_tutorial_takes_colour_images_of_any_size(tmp_path, majority, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    write_colour_manifest(Path("bags.csv"), ("red", "blue"), "example/test0", heights=(20, 21, 22))
    words = ("--recipe", "quick", "--image-size", 8, "--epochs", 10, "--out", "run")
    assert majority("train", "bags.csv", *words)[0] == 0
    assert majority("export", "run")[0] == 0
    assert run_tutorial_snippets() == ["red", "['red']"]


IN_PAGES = {"sklearn_arrays.py", "write_digits.py", "fields_to_bags.py", "digit_tables.py"}
RUN_ELSEWHERE = {*IN_PAGES, "own_loop.py", "lightning_loop.py", "timm_backbone.py"}
EXAMPLES = {path.name for path in (ROOT / "examples").glob("*.py")} - RUN_ELSEWHERE


def write_fields(path: Path) -> None:
    """A table of the form that the tutorial needs: 30 cells of eight fields, with the classes of one mixed."""
    rng, rows = np.random.default_rng(0), []
    dates = [f"d{day}" for day in range(1, 354, 16)]
    for cell in range(30):
        for i in range(8):
            summer = (cell % 2 == 0) == (i < 5)
            x, y = 60.001 + 0.05 * cell + 0.005 * i, 40.001 + 0.003 * rng.random()
            profile = np.sin(np.linspace(0, np.pi, len(dates)) * (1 if summer else 2)) + rng.normal(0, 0.1, len(dates))
            rows.append([2011, x, y, "summer" if summer else "winter", *profile])
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([["year", "x", "y", "label", *dates], *rows])


def test_the_tutorial_of_fields_runs_from_a_table_to_a_map(tmp_path, majority, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tutorial = DOCS / "get-started/fields.md"
    first, *commands = (line[2:] for block in fenced(tutorial, "console") for line in block.splitlines())
    write_fields(Path("fields.csv"))
    _, script, *words = shlex.split(first)
    monkeypatch.setattr(sys, "argv", [script, *words])
    runpy.run_path(str(ROOT / script), run_name="__main__")
    assert "240 fields in 30 bags" in capsys.readouterr().out
    with Path("crops.csv").open() as file:
        labels = {row["bag"]: row["bag_label"] for row in csv.DictReader(file)}
    assert [labels[f"2011_{1200 + cell}_800"] for cell in range(30)] == ["summer", "winter"] * 15
    quick = (line.replace("--out run", "--recipe quick --epochs 3 --out run") for line in commands)
    run_lines(majority, "\n".join(quick))
    assert len(commands) == 5
    for name in ("map/all.geojson", "map/all.png", "run/report.html", "run/model-card.md", "classes.csv"):
        assert Path(name).is_file(), name


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("script", sorted(EXAMPLES))
def test_examples_run(script, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [script])
    monkeypatch.syspath_prepend(ROOT / "examples")
    fit = majority.fit

    def fit_two_epochs(model, train, val, settings=None, **more):
        return fit(model, train, val, majority.Settings(epochs=2), **more)

    monkeypatch.setattr(majority, "fit", fit_two_epochs, raising=False)
    use_bags(monkeypatch, bag_size=3)
    runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_the_method_in_contributing_works_as_it_is_written(monkeypatch):
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## Add a method")[1].split("\n## ")[0]
    file, line = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    names = {"__name__": "majority.losses.shown", "__package__": "majority.losses"}
    exec(file, names)
    assert eval(line, {"Method": Method}) == METHODS["vote"]
    shown = Method("vote", names["VoteLoss"])
    outputs = {}
    for method in (METHODS["vote"], shown):
        monkeypatch.setitem(METHODS, "vote", method)
        torch.manual_seed(0)
        head, segments = create_head("vote", 6, 5), Segments([3, 1, 7])
        output = head(torch.randn(11, 6), segments)
        outputs[method.about] = (*output, head.losses(output, segments, Target.of(torch.tensor([0, 4, 2]), 5)))
    assert len(outputs) == 2
    torch.testing.assert_close(*outputs.values())


def test_the_reference_of_the_command_line_has_every_command_and_option():
    page = "".join((DOCS / f"reference/{name}.md").read_text() for name in ("commands", "settings"))
    options = {f"--{option.in_command}" for one in COMMANDS.values() if one.takes for option in one.takes().values()}
    assert all(f"`majority {name}" in page for name in COMMANDS)
    assert not {option for option in options if f"`{option}" not in page}


def test_the_api_reference_has_every_public_name():
    pages = "".join(path.read_text() for path in (DOCS / "reference/api").glob("*.md"))
    documented = set(re.findall(r"^::: majority\.(?:\w+\.)*(\w+)$", pages, re.MULTILINE))
    assert set(majority.__all__) - documented == {"__version__"}


def test_type_checkers_see_the_examples_that_documents_show():
    readme = (ROOT / "README.md").read_text()
    documents = {"readme": readme, "docstring_of_load": majority.load_source.__doc__}
    documents |= {"docstring_of_train": majority.train.__doc__}
    tree = ast.parse((ROOT / "tests/typed_usage.py").read_text())
    checked = {function.name: function.body for function in tree.body if isinstance(function, ast.FunctionDef)}
    for name, text in documents.items():
        shown = ast.parse("".join(example.source for example in doctest.DocTestParser().get_examples(text))).body
        imports = [line for line in checked[name] if isinstance(line, ast.ImportFrom)]  # a doctest needs none
        assert [ast.unparse(line) for line in checked[name][len(imports) :]] == [ast.unparse(line) for line in shown]


# ---------------------------------------------------------------------- links


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and common Markdown viewers make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"[`*]", "", heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def test_every_link_leads_to_a_file_and_to_a_heading_in_it():
    for page in PAGES:
        for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
            if "://" in target:
                continue
            file = (page.parent / target).resolve() if target else page
            assert file.is_file(), f"{page.relative_to(ROOT)} links to {target}"
            if anchor:
                assert anchor in anchors(file), f"{page.relative_to(ROOT)} links to {target}#{anchor}"


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE)
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted([*pages, "results/README.md", "CONTRIBUTING.md", "CHANGELOG.md"])


# ---------------------------------------------------------------------- architecture


def test_the_architecture_page_has_every_package_in_the_order_of_imports():
    page = (DOCS / "concepts/architecture.md").read_text()
    rows = re.findall(r"^\| (\d+) \| `([\w.]+)/?` \|", page, re.MULTILINE)
    modules = {path.stem for path in PACKAGE.glob("*.py")} - {"__init__", "__main__"}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert sorted(name.removesuffix(".py") for _, name in rows) == sorted(modules | packages)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    levels = {}
    for level, name in rows:
        levels.setdefault(int(level), set()).add(name.removesuffix(".py"))
    assert [levels[level] for level in sorted(levels)] == [set(layer.split(" | ")) for layer in layers]


def test_the_architecture_page_names_files_that_exist():
    section = (DOCS / "concepts/architecture.md").read_text().split("## Where to find")[1].split("\n## ")[0]
    files = re.findall(r"`([\w/.]+\.(?:py|csv|jinja))`", section)
    assert len(files) > 10
    for file in files:
        assert (PACKAGE / file).is_file(), file
