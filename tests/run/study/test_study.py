"""A study: every cell once, one table; wrong use is refused before any cell is trained."""

import json
import shutil
import subprocess

import numpy as np
import pytest
from studies import rows_of

from majority.nn.methods import METHODS

SMALL = ["--recipe", "quick", "--bags", "20", "--bag-size", "8", "--epochs", "2", "--device", "cpu"]
COMMAND = ["study", "digits", "--methods", "log-mean,naive", "--scenarios", "large,various", "--folds", "0-1", *SMALL]


@pytest.fixture(scope="module")
def finished(majority, in_process, tmp_path_factory):
    """The folder of a study, and what the command printed."""
    out = tmp_path_factory.mktemp("study") / "out"
    with in_process():
        code, printed, err = majority(*COMMAND, "--jobs", "1", "--out", out)
    assert code == 0, err
    return out, printed


def test_a_study_runs_every_cell_and_prints_mean_and_deviation(finished):
    out, printed = finished
    assert len(list(out.rglob("result.json"))) == 2 * 2 * 2
    rows = rows_of(out)
    assert [(row["scenario"], row["method"], row["n"]) for row in rows] == [
        ("various", "log-mean", "2"), ("various", "naive", "2"), ("large", "log-mean", "2"), ("large", "naive", "2"),
    ]  # fmt: skip
    cells = [json.loads((out / "digits/large/naive" / f"fold{f}" / "result.json").read_text()) for f in (0, 1)]
    a, b = (cell["test"]["instance_accuracy"] for cell in cells)
    assert float(rows[3]["mean"]) == pytest.approx((a + b) / 2, abs=1e-6)
    assert float(rows[3]["sd"]) == pytest.approx(abs(a - b) / 2**0.5, abs=1e-6)
    assert f"{sum(cell['test']['macro_f1'] for cell in cells) / 2:.3f} ± " in printed, "winners are skewed"
    assert f"[8/8] {out}" in printed
    assert len((out / "results.jsonl").read_text().splitlines()) == 8


def test_a_finished_study_starts_no_process_and_gives_the_same_table(succeeds, finished, monkeypatch):
    out, printed = finished
    monkeypatch.setattr(subprocess, "Popen", None)
    again = succeeds(*COMMAND, "--out", out)
    first, _, tables = again.partition("\n")
    assert first == "8 of 8 cells were already finished"
    assert printed.endswith(tables)


@pytest.mark.usefixtures("one_process")
def test_only_deleted_cells_are_trained_again(succeeds, finished, tmp_path):
    out = shutil.copytree(finished[0], tmp_path / "study")
    stamps = {path: path.stat().st_mtime_ns for path in out.rglob("best.safetensors")}
    for folder in out.glob("*/*/naive"):
        shutil.rmtree(folder)
    printed = succeeds(*COMMAND, "--jobs", "1", "--out", out)
    assert printed.startswith("4 of 8 cells were already finished\n")
    trained = {path for path, stamp in stamps.items() if path.stat().st_mtime_ns != stamp}
    assert trained == {path for path in stamps if path.parent.parent.name == "naive"}


def test_other_settings_are_refused_before_anything_runs(refused, finished):
    out, _ = finished
    request = (out / "study.json").read_text()
    assert "training.epochs is 2, not 3" in refused(*COMMAND, "--epochs", "3", "--out", out)
    assert (out / "study.json").read_text() == request


@pytest.mark.usefixtures("one_process")
def test_an_edited_result_is_refused_before_anything_is_written(refused, finished, tmp_path):
    out = shutil.copytree(finished[0], tmp_path / "study")
    file = out / "digits/large/naive/fold0/result.json"
    content = json.loads(file.read_text())
    content["task"]["finds_share"] = None
    file.write_text(json.dumps(content))
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    err = refused(*COMMAND, "--out", out)
    assert "naive/fold0" in err
    assert "finds_share" in err
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_like_says_what_the_images_of_all_sources_show(refused, succeeds, labelled_set, tmp_path):
    words = ["study", labelled_set(), "--methods", "vote", "--scenarios", "large", "--bags", "12", "--bag-size", "8"]
    words += ["--recipe", "census", "--epochs", "1", "--set", "census.teachers=1", "--jobs", "1"]
    for like in ("pathmnist", None):
        out = tmp_path / f"study-{like}"
        succeeds(*words, *(["--like", like] if like else []), "--out", out)
        config = json.loads((out / "own/large/vote/fold0/config.json").read_text())
        assert config["run"]["like"] == like
        assert ({"flip", "rotate90"} <= {*map(str, config["plan"]["training"]["augment"])}) == bool(like)
        assert ("like pathmnist" in rows_of(out)[0]["changed"]) == bool(like)
        assert json.loads((out / "study.json").read_text())["study"]["options"].get("like") == like
    assert "like pathmnist" in refused("study", "digits", "--like", "pathmnist", "--out", tmp_path / "refused")


@pytest.mark.usefixtures("one_process")
def test_a_study_grows_to_all_methods(succeeds, finished, tmp_path):
    out = shutil.copytree(finished[0], tmp_path / "grown")
    grown = ["study", "digits", "--methods", "all", "--scenarios", "large", *SMALL, "--jobs", "1", "--out", out]
    stamp = (out / "digits/large/naive/fold0/best.safetensors").stat().st_mtime_ns
    printed = succeeds(*grown)
    assert len([line for line in printed.splitlines() if line.startswith("[")]) == len(METHODS) - 2
    assert (out / "digits/large/naive/fold0/best.safetensors").stat().st_mtime_ns == stamp
    assert {row["method"] for row in rows_of(out) if row["scenario"] == "large"} == {*METHODS}
    written = json.loads((out / "study.json").read_text())
    assert written["study"]["methods"] == ["all"]
    assert written["cells"] == [f"digits/large/{name}/fold0" for name in METHODS]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["digits", "--methods", "naive,counting"], "there is no method 'counting'"),
        (["digits", "--scenarios", "large,tiny"], "scenario 'tiny' is unknown"),
        (["digits", "digits"], "two cells would share"),
        (["digits", "--methods", "count,vote", "--reference", "naive"], "no such row: give one of count; vote"),
        ([], "no SOURCES"),
    ],
)
def test_wrong_use_is_refused_before_anything_runs(refused, tmp_path, words, message):
    assert message in refused("study", *words, "--out", tmp_path / "out")
    assert not list(tmp_path.rglob("config.json"))


def test_the_folder_of_a_run_is_refused(refused, tmp_path):
    (tmp_path / "config.json").write_text("{}")
    assert "holds a run: choose another folder with --out" in refused("study", "digits", "--out", tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


@pytest.mark.usefixtures("one_process")
def test_methods_are_never_compared_on_different_data(majority, tmp_path):
    rng = np.random.default_rng(0)

    def write():
        images, labels = rng.integers(0, 256, (200, 8, 8), np.uint8), rng.integers(0, 3, (200, 1))
        parts = {"train": slice(0, 140), "val": slice(140, 160), "test": slice(160, 200)}
        arrays = {f"{name}_images": images[part] for name, part in parts.items()}
        np.savez(tmp_path / "own.npz", **arrays, **{f"{name}_labels": labels[part] for name, part in parts.items()})

    def study(methods):
        words = ["--scenarios", "large", "--recipe", "quick", "--epochs", "1", "--bags", "8", "--bag-size", "4"]
        return majority("study", tmp_path / "own.npz", "--methods", methods, *words, "--out", tmp_path / "out")

    write()
    assert study("log-mean")[0] == 0
    before = (tmp_path / "out/tables.csv").read_bytes()
    write()
    code, _, error = study("log-mean,vote")
    assert code == 2
    assert "were trained on different data" in error
    assert (tmp_path / "out/tables.csv").read_bytes() == before
    assert study("log-mean,vote")[0] == 2, "again before anything runs"
    shutil.rmtree(tmp_path / "out/own/large/log-mean")
    assert study("log-mean,vote")[0] == 0
