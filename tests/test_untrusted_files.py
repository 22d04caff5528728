"""Special files are refused at once, and sizes are asked before memory is taken."""

import json
import os
import shutil
import signal
import socket

import h5py
import numpy as np
import pandas as pd
import pytest
import torch

from majority import load_source
from majority.data.feature_files import inspect_feature_file
from majority.errors import InputError
from majority.files import check_regular, write_text

SECONDS = 60


@pytest.fixture(autouse=True)
def _no_hang():
    def stop(*_):
        raise TimeoutError("it does not end")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, succeeds):
    """A small table and a finished run."""
    folder = tmp_path_factory.mktemp("finished")
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(90, 2)), columns=["a", "b"])
    table.insert(0, "bag", np.repeat(np.arange(18), 5))
    table.insert(1, "bag_label", np.repeat(["x", "y", "z"] * 6, 5))
    table.to_csv(folder / "bags.csv", index=False)
    train = ["train", folder / "bags.csv", "--recipe", "quick", "--method=log-mean", "--epochs", 1, "--device", "cpu"]
    succeeds(*train, "--out", folder / "run")
    return folder


KINDS = {
    "named pipe": os.mkfifo,
    "folder": os.mkdir,
    "device": lambda path: os.symlink("/dev/zero", path),
}


def nightly(*values):
    return pytest.param(*values, marks=pytest.mark.nightly)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bags.csv", ["check", "bags.csv"]),
        nightly("run/config.json", ["evaluate", "run"]),
        nightly("run/result.json", ["report", "run"]),
        nightly("run/metrics.jsonl", ["report", "run"]),
        nightly("run/best.safetensors", ["evaluate", "run"]),
        nightly("run/.report.html.lock", ["report", "run"]),
        nightly("run/.report.html.unfinished", ["report", "run"]),
        nightly("lines.jsonl", ["report", "lines.jsonl"]),
    ],
)
def test_a_special_file_is_one_message_at_once(finished, majority, tmp_path, monkeypatch, name, words, kind):
    shutil.copytree(finished, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    if os.path.exists(name):
        os.unlink(name)
    KINDS[kind](name)
    code, out, err = majority(*words)
    assert code in (1, 2)
    assert len((err or out).splitlines()) <= 6


def test_a_history_that_ends_before_the_kept_epoch_is_one_message(finished, refused, tmp_path):
    shutil.copytree(finished, tmp_path / "copy")
    result = tmp_path / "copy/run/result.json"
    result.write_text(json.dumps(json.loads(result.read_text()) | {"best_epoch": 3, "epochs": 4}))
    err = refused("report", tmp_path / "copy/run")
    assert "metrics.jsonl" in err
    assert len(err.splitlines()) == 1


def test_special_files_are_named(tmp_path):
    server = socket.socket(socket.AF_UNIX)
    monkey = tmp_path / "s"
    server.bind(str(monkey))
    with pytest.raises(InputError, match="is a socket, not a file"):
        check_regular(monkey)
    server.close()
    os.mkfifo(tmp_path / "page.html")
    with pytest.raises(InputError, match=r"page\.html is a named pipe"):
        write_text(tmp_path / "page.html", "text")
    check_regular(tmp_path / "missing")


def bomb_npz(path):
    np.savez_compressed(path, features=np.zeros((2_000_000, 4), np.float32))


def bomb_pt(path):
    torch.save(torch.zeros(1).expand(10**9, 3), path)


def bomb_h5(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("features", (10**12, 8), "float32", chunks=(1024, 8))


def linked_h5(path):
    with h5py.File(path.with_name("other.hdf5"), "w") as file:
        file["features"] = np.zeros((3, 2), np.float32)
    with h5py.File(path, "w") as file:
        file["features"] = h5py.ExternalLink("other.hdf5", "/features")


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("a.npz", bomb_npz, "GB of memory.*MAJORITY_MAX_GB"),
        ("a.pt", bomb_pt, "GB of memory.*MAJORITY_MAX_GB"),
        ("a.h5", bomb_h5, "GB of memory.*MAJORITY_MAX_GB"),
        ("a.h5", linked_h5, "holds nothing"),
    ],
)
def test_a_small_file_cannot_claim_much_memory(tmp_path, monkeypatch, name, make, message):
    monkeypatch.setenv("MAJORITY_MAX_GB", "0.005")
    make(tmp_path / name)
    with pytest.raises(InputError, match=message):
        inspect_feature_file(tmp_path / name)


def test_the_limit_can_be_raised(tmp_path, monkeypatch):
    bomb_npz(tmp_path / "a.npz")
    monkeypatch.setenv("MAJORITY_MAX_GB", "1")
    assert inspect_feature_file(tmp_path / "a.npz").rows == 2_000_000
    monkeypatch.setenv("MAJORITY_MAX_GB", "much")
    with pytest.raises(InputError, match="MAJORITY_MAX_GB is 'much'"):
        inspect_feature_file(tmp_path / "a.npz")


def test_parquet_of_repeated_values_and_columns_of_bytes(tmp_path, refused, succeeds, monkeypatch):
    table = pd.DataFrame({"bag": np.arange(40) // 4, "bag_label": ["x", "y"] * 20, "a": np.arange(40.0) % 7})
    table["bag_label"] = np.where(table["bag"] % 2, "x", "y")
    table["raw"] = [b"\x00\xff"] * 40
    table["bag"] = [str(name).encode() for name in table["bag"]]
    table.to_parquet(tmp_path / "bags.parquet")
    assert "column raw is not used: bytes" in succeeds("check", tmp_path / "bags.parquet")
    assert load_source(tmp_path / "bags.parquet").bags.bag_names()[3] == "3"
    pd.DataFrame({"bag": 1, "a": np.zeros(2_000_000)}).to_parquet(tmp_path / "many.parquet")
    monkeypatch.setenv("MAJORITY_MAX_GB", "0.001")
    assert "MAJORITY_MAX_GB" in refused("check", tmp_path / "many.parquet")


def test_figures_without_a_number_of_bags_are_one_message(finished, refused, tmp_path):
    shutil.copytree(finished / "run", tmp_path / "run")
    result = json.loads((tmp_path / "run/result.json").read_text())
    test = {name: figure for name, figure in result["test"].items() if name != "bags"}
    for damaged, fact in ((result | {"test": test}, "test.bags"), (result | {"baseline": {}}, "baseline.name")):
        (tmp_path / "run/result.json").write_text(json.dumps(damaged))
        error = refused("report", tmp_path / "run")
        assert "result.json" in error
        assert fact in error


def test_a_run_with_an_unknown_fact_about_its_task_is_left_as_it_is(finished, refused, tmp_path):
    shutil.copytree(finished / "run", tmp_path / "run")
    config = json.loads((tmp_path / "run/config.json").read_text())
    config["task"]["colour"] = "red"
    (tmp_path / "run/config.json").write_text(json.dumps(config))
    (tmp_path / "run/result.json").unlink()
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}
    train = ["train", finished / "bags.csv", "--recipe", "quick", "--method=log-mean", "--epochs", 1, "--device", "cpu"]
    assert "colour" in refused(*train, "--out", tmp_path / "run")
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == before


def test_a_path_that_is_not_utf_8_is_one_message(finished, majority):
    for words in (["train", finished / "caf\udce9.csv"], ["evaluate", finished / "run", "caf\udce9"]):
        code, _, error = majority(*words)
        assert (code, "source" in error, "UTF-8" in error) == (2, True, True)
