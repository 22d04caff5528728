"""The declared dependencies and the public names agree wherever they are listed."""

import ast
import importlib
import re
import tomllib
from pathlib import Path

import majority

ROOT = Path(__file__).parents[1]


def test_the_lowest_versions_are_those_declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    declared = dict(re.fullmatch(r"([\w-]+)>=([\d.]+)", line).groups() for line in
                    [*project["dependencies"], *extras["features"], *extras["onnx"], *extras["ray"]])  # fmt: skip
    pinned = dict(re.findall(r"^([\w-]+)==([\d.]+)$", (ROOT / "constraints-lowest.txt").read_text(), re.MULTILINE))
    assert {name: pinned.get(name) for name in declared} == declared


def test_type_checkers_see_every_public_name():
    tree = ast.parse(Path(majority.__file__).read_text())
    (block,) = [node for node in tree.body if isinstance(node, ast.If)]
    seen = {}
    for line in block.body:
        module = importlib.import_module(f"majority.{line.module}")
        for name in line.names:
            seen[name.asname or name.name] = getattr(module, name.name)
    assert {*seen, "__version__"} == set(majority.__all__)
    for name, value in seen.items():
        assert getattr(majority, name) is value, f"majority.{name} is defined in another module for type checkers"
