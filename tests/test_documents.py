"""Every command and snippet of the README and of the pages runs, in the order of its page; links lead somewhere.

Blocks by their language: `sh` is run line by line and `python` executed, with short trainings; `text` is what they
print, compared without its numbers; a block with a title is written to that file. `bash` is not run: such lines
install something, or need several machines.
"""

import inspect
import io
import json
import re
import runpy
import shlex
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from cases import each

import majority as package
from majority.cli.app import COMMANDS, main
from majority.io import demo
from majority.io.benchmarks.catalogue import known_sources

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "src/majority"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
NOTES = [ROOT / "CHANGELOG.md", *sorted((ROOT / "results").rglob("*.md"))]
BLOCK = re.compile(r'^( *)```(\w*)(?: title="(\S+)")?[^\n]*\n(.*?)^ *```$', re.MULTILINE | re.DOTALL)
NOT_RUN = {"pip", "make", "git", "ray", "torchrun", "sbatch"}
NIGHTLY = {"docs/how-to/compare.md", "docs/how-to/scale.md"}  # pages of studies, which other tests run, too


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[tuple[str, str, str]]:
    """Language, title and text of each block."""
    found = BLOCK.findall(page.read_text())
    return [(language, title, inspect.cleandoc(f"\n{text}")) for _, language, title, text in found]


def short(words: list[str]) -> list[str]:
    """A training of few epochs, of one network."""
    if words[1] not in ("train", "study") or "--help" in words:
        return words
    said = " ".join(words)
    if "--recipe" not in said and "census." not in said:
        words = [*words, "--recipe", "quick"]
    return words if "--epochs" in said else [*words, "--epochs", "2"]


def run_line(words: list[str], monkeypatch) -> None:
    if words[0] == "export":
        name, value = words[1].split("=")
        monkeypatch.setenv(name, value.replace("$PWD", str(ROOT if "examples/" in value else Path.cwd())))
    elif words[0] == "python":
        monkeypatch.setattr(sys, "argv", words[1:])
        runpy.run_path(str(ROOT / words[1]), run_name="__main__")
    else:
        assert words[0] == "majority", words
        monkeypatch.setattr(sys, "argv", short(words))
        with pytest.raises(SystemExit) as stopped:
            main()
        assert not stopped.value.code, words


def loosely(text: str) -> list[str]:
    """The lines of an output without numbers, boxes and quotes."""
    lines = (re.sub(r"[-+]?\d[\d,.]*", "#", line) for line in text.splitlines())
    return [" ".join(re.findall(r"[\w#/.]+", line)) for line in lines]


def assert_printed(shown: str, printed: str) -> None:
    """Every line that a page shows is in a line of what is printed, in this order."""
    lines = iter(loosely(printed))
    for line in filter(None, loosely(shown)):
        assert any(line in other for other in lines), f"{line!r} is not printed, in this order, in:\n{printed[-3000:]}"


@pytest.fixture
def _few_images(request, monkeypatch):
    """Of the demo, and none where a page needs none: to write, read and remove thousands of files takes long."""
    write, has_images = demo._write_images, "demo/images" in request.getfixturevalue("page").read_text()

    def write_some(insects, folder):
        return write([row for row in insects if has_images and row["bag"][-1] in "0367"], folder)

    monkeypatch.setattr(demo, "_write_images", write_some)


@pytest.fixture
def _in_a_new_folder(tmp_path, monkeypatch, registries, onnx_operators):
    """Trainings from Python are short, too."""
    train = package.train
    few = {"recipe": "quick", "epochs": 2, "verbose": False}
    monkeypatch.setattr(package, "train", lambda *given, **options: train(*given, **few | options))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)


def cases():
    for page in PAGES:
        if any(language in ("sh", "python") for language, _, _ in blocks_of(page)):
            marks = [pytest.mark.nightly] if name_of(page) in NIGHTLY else []
            yield pytest.param(page, id=name_of(page), marks=marks)


@pytest.mark.usefixtures("_in_a_new_folder", "_few_images")
@pytest.mark.parametrize("page", [*cases()])
def test_a_page_runs_as_it_is_written(page, monkeypatch, capsys):
    printed, names = "", {"__name__": "page"}
    for language, title, text in blocks_of(page):
        if title:
            Path(title).parent.mkdir(parents=True, exist_ok=True)
            Path(title).write_text(f"{text}\n")
        if language == "text":
            assert_printed(text, printed)
        if language in ("sh", "python"):
            with redirect_stdout(io.StringIO()) as out, redirect_stderr(out):
                if language == "python":
                    exec(text, names)
                for line in text.splitlines() if language == "sh" else ():
                    if words := shlex.split(line, comments=True):
                        run_line(words, monkeypatch)
            printed = out.getvalue()


@each(page=PAGES)
def test_what_is_copied_can_be_pasted(page):
    """No prompts; and what is not run cannot be run here."""
    for language, _, text in blocks_of(page):
        assert not re.search(r"^(\$|>>>) ", text, re.MULTILINE), text
        if language == "bash":
            first = {re.sub(r"^(\w+=\S+ )+", "", line).split()[0] for line in text.splitlines() if line}
            assert first <= NOT_RUN or "RAY_ADDRESS" in text or "--on ray" in text, text


# ---------------------------------------------------------------------- links, navigation, reference


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site and common Markdown viewers make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = [re.sub(r"[`*]", "", heading) for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    return {re.sub(r"[^\w\s-]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@each(page=[*PAGES, *NOTES])
def test_every_link_leads_to_a_file_and_to_a_heading_in_it(page):
    for target, anchor in re.findall(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)", page.read_text()):
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (page.parent / target).resolve() if target else page
        assert file.is_file(), f"{name_of(page)} links to {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{name_of(page)} links to {target}#{anchor}"


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    listed = re.findall(r"([\w/-]+\.md)$", navigation, re.MULTILINE)
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted([*pages, "results/README.md", "CONTRIBUTING.md", "CHANGELOG.md"])


def test_the_reference_has_every_command_option_and_public_name():
    commands = "".join((DOCS / f"reference/{name}.md").read_text() for name in ("commands", "settings"))
    options = {f"--{option.in_command}" for one in COMMANDS.values() for option in one.options().values()}
    assert all(f"`majority {name}" in commands for name in COMMANDS)
    assert not {option for option in options if f"`{option}" not in commands}
    pages = "".join((DOCS / f"reference/{name}.md").read_text() for name in ("api", "extending"))
    documented = set(re.findall(r"^::: majority\.(?:\w+\.)*(\w+)$", pages, re.MULTILINE))
    assert set(package.__all__) - documented == {"__version__"}


@pytest.mark.parametrize("script", ["scripts/reference.py", "benchmarks/pages.py"])
def test_what_is_made_by_a_script_is_what_it_makes(script, monkeypatch):
    monkeypatch.setattr(sys, "argv", [script, "--check"])
    monkeypatch.syspath_prepend(ROOT / script.split("/")[0])
    runpy.run_path(str(ROOT / script), run_name="__main__")


def test_every_public_name_has_an_example():
    without = set(package.__all__) - {"__version__", "InputError", "TrainingError"}
    without = {name for name in without if ">>>" not in (inspect.getdoc(getattr(package, name)) or "")}
    assert not without, without


def test_the_table_of_augmentations_is_that_of_the_program():
    rows = re.findall(r"^\| (`[a-z].*?) \|(.*)\|$", (DOCS / "how-to/images.md").read_text(), re.MULTILINE)
    known = known_sources()
    written = {name: cells for names, cells in rows for name in re.findall(r"`(\w+)`", names) if name in known}
    assert {*known} - {*written} == {"organcmnist", "organsmnist"}, "and the other organ sets"
    for name, cells in written.items():
        allowed = [view in known[name] for view in ("flip", "rotate90", "colour", "grey")]
        assert [cell.strip() == "yes" for cell in cells.split("|")] == allowed, name


@pytest.mark.nightly
@pytest.mark.usefixtures("_in_a_new_folder")
def test_the_notebook_runs():
    names = {}
    for cell in json.loads((ROOT / "examples/insects.ipynb").read_text())["cells"]:
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    assert len(names["new"]) == 32


@pytest.mark.usefixtures("registries")
@pytest.mark.parametrize("script", ["own_loss.py", "own_recipe.py"])
def test_examples_run(script, tmp_path, monkeypatch, capsys):
    fit = package.fit
    short = package.Settings(epochs=2)
    monkeypatch.setattr(package, "fit", lambda model, train, val, *_, **more: fit(model, train, val, short, **more))
    make_parts = package.LabelledSet.make_parts
    monkeypatch.setattr(
        package.LabelledSet, "make_parts", lambda self, **given: make_parts(self, **given | {"bag_size": 3})
    )
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_the_architecture_names_files_that_exist():
    named = re.findall(r"`([\w/]+\.py)`", (DOCS / "concepts/architecture.md").read_text())
    assert len(named) > 25
    assert [name for name in named if not ((PACKAGE / name).is_file() or (ROOT / name).is_file())] == []
