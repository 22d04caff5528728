"""The wheel: built, installed into a fresh environment and used outside the checkout."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]

USE = """
import sys
from pathlib import Path

import majority
from majority.cli import main

assert Path(majority.__file__).is_relative_to(sys.prefix), majority.__file__
assert majority.Bags.from_lists([[[0.0], [1.0]]], ["a"], classes=["a", "b"]).classes == ("a", "b")
for command in (
    "list",
    "demo demo",
    "check demo/insects.csv",
    "train bags.csv --recipe quick --epochs 2 --device cpu --out run",
    "predict run bags.csv --out predictions.csv",
    "report run",
):
    Path("run/report.html").unlink(missing_ok=True)  # `train` wrote one
    sys.argv = ["majority", *command.split()]
    try:
        main()
    except SystemExit as stopped:
        assert not stopped.code, command
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Built from a copy: a build leaves files beside the sources."""
    copy = tmp_path_factory.mktemp("checkout")
    shutil.copytree(ROOT / "src", copy / "src", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    subprocess.run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", copy / "dist", copy], check=True)
    (file,) = (copy / "dist").iterdir()
    return file


def test_the_wheel_holds_every_file_of_the_package(wheel):
    package = ROOT / "src/majority"
    sources = {str(path.relative_to(package.parent)) for path in package.rglob("*") if path.is_file()}
    with zipfile.ZipFile(wheel) as file:
        packed = {name for name in file.namelist() if name.startswith("majority/")}
    assert packed == {name for name in sources if "__pycache__" not in name}


def test_the_wheel_works_outside_the_checkout(wheel, tmp_path):
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    paths = {"base": str(environment), "platbase": str(environment)}
    packages, scripts = (Path(sysconfig.get_path(name, "venv", paths)) for name in ("purelib", "scripts"))
    python = scripts / "python"
    subprocess.run([*PIP, "--python", python, "install", "--no-deps", "--no-index", wheel], check=True)
    dependencies = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
    (packages / "dependencies.pth").write_text("\n".join(dependencies))  # those of these tests: nothing is downloaded

    rows = ["bag,bag_label,height,length"]
    rows += [f"{bag},{'ab'[bag % 2]},{bag % 2 + i / 10},{i}" for bag in range(20) for i in range(3)]
    (tmp_path / "bags.csv").write_text("\n".join(rows))
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = {"cwd": tmp_path, "env": variables, "capture_output": True, "text": True}
    version = subprocess.run([scripts / "majority", "--version"], **run)
    assert version.stdout.split()[-1] in wheel.name, version.stderr
    used = subprocess.run([python, "-c", USE], **run)
    assert used.returncode == 0, used.stderr
    assert len((tmp_path / "predictions.csv").read_text().splitlines()) == 20 * 3 + 1
    assert "<html" in (tmp_path / "run/report.html").read_text()
