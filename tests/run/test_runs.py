"""The run folder: started, continued, refused, finished; a kill at any moment loses nothing."""

import json
import resource

import numpy as np
import pytest
import torch

from majority import InputError, TrainingError, train
from majority.run.folder import environment, read_config, run_lock
from majority.run.record import SCHEMA
from majority.run.reopen import reopen
from majority.run.report import page

TINY = {"bags": 20, "bag_size": 8, "method": "log-mean", "recipe": "quick", "epochs": 2}


def run_tiny(folder, verbose=False, **changes):
    return train("digits", **(TINY | changes), device="cpu", verbose=verbose, out=folder).result


def test_a_run_leaves_what_the_design_says(tmp_path):
    result = run_tiny(tmp_path / "run")
    files = {path.name for path in (tmp_path / "run").iterdir() if not path.name.startswith(".")}
    assert files >= {"config.json", "metrics.jsonl", "best.safetensors", "result.json", "report.html"}
    assert "checkpoint.safetensors" not in files, "a finished run needs none"
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    needed = {"test", "val", "best_epoch", "epochs", "seconds", "method", "recipe", "source", "scenario"}
    assert result.keys() >= needed | {"fold", "seed", "data_seed", "version"}
    figures = {"instance_accuracy", "bag_accuracy", "consistency_rate", "overestimation", "macro_f1"}
    assert result["test"].keys() >= figures
    assert result["val"].keys() >= figures
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["schema_version"] == SCHEMA
    assert len(config["fingerprint"]) == 3
    assert config["environment"]["torch"]
    assert len((tmp_path / "run" / "metrics.jsonl").read_text().splitlines()) == 2


def test_a_finished_run_is_not_run_again(tmp_path, capsys):
    first = run_tiny(tmp_path)
    stamp = (tmp_path / "best.safetensors").stat().st_mtime_ns
    assert run_tiny(tmp_path, verbose=True) == first
    assert (tmp_path / "best.safetensors").stat().st_mtime_ns == stamp
    assert "is finished" in capsys.readouterr().out


def test_the_cure_for_a_classifier_that_is_gone_brings_it_back(tmp_path):
    run_tiny(tmp_path)
    first = (tmp_path / "best.safetensors").read_bytes()
    (tmp_path / "best.safetensors").unlink()
    with pytest.raises(InputError, match=r"is finished, but its best\.safetensors is gone: put it back, or rem"):
        reopen(tmp_path, "cpu")
    with pytest.raises(InputError, match=r"is finished, but its best\.safetensors is gone: put it back, or rem"):
        run_tiny(tmp_path)
    (tmp_path / "result.json").unlink()
    run_tiny(tmp_path)
    assert (tmp_path / "best.safetensors").read_bytes() == first


def test_other_settings_in_the_same_folder_are_refused_with_the_difference(tmp_path):
    run_tiny(tmp_path)
    before = (tmp_path / "result.json").read_bytes()
    for other, difference in (
        ({"method": "count"}, "method is log-mean, not count"),
        ({"epochs": 3}, "plan.training.epochs is 2, not 3"),
        ({"fold": 1}, "fold is 0, not 1"),
    ):
        with pytest.raises(InputError, match=difference) as error:
            run_tiny(tmp_path, **other)
        assert "fingerprint" not in str(error.value)
    assert (tmp_path / "result.json").read_bytes() == before


def test_a_run_killed_before_its_page_gets_it_on_repetition(tmp_path):
    run_tiny(tmp_path)
    before = (tmp_path / "report.html").read_bytes()
    (tmp_path / "report.html").unlink()
    (tmp_path / "checkpoint.safetensors").write_bytes(b"left behind")
    run_tiny(tmp_path)
    assert (tmp_path / "report.html").read_bytes() == before
    assert not (tmp_path / "checkpoint.safetensors").exists()


def test_a_run_killed_before_its_model_card_gets_it_on_repetition(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(page, "write_model_card", stop)
        with pytest.raises(KeyboardInterrupt):
            run_tiny(tmp_path)
    run_tiny(tmp_path)
    assert (tmp_path / "model-card.md").exists()


@pytest.mark.parametrize(("name", "text"), [("thesis.tex", "precious"), ("config.json", '{"theme": "dark"}')])
def test_a_folder_with_other_things_in_it_is_refused(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=rf"holds {name} but no run"):
        run_tiny(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == text


def test_a_run_that_never_finished_an_epoch_takes_other_settings(tmp_path):
    with pytest.raises(TrainingError, match="Try a lower learning rate"):
        run_tiny(tmp_path, learning_rate=1e38)
    assert (tmp_path / "config.json").exists()
    run_tiny(tmp_path)
    assert json.loads((tmp_path / "config.json").read_text())["plan"]["training"]["learning_rate"] == 3e-3


def test_the_order_of_columns_without_names_is_taken_on_trust(tmp_path, succeeds):
    rng, labels = np.random.default_rng(0), np.arange(12) % 2
    vectors = (rng.normal(size=(12, 3, 2)) + 2 * labels[:, None, None]).astype(np.float32)
    (tmp_path / "files").mkdir()
    rows = ["bag,bag_label,width,height"]
    for bag, of_bag in enumerate(vectors):
        np.save(tmp_path / "files" / f"b{bag}.npy", of_bag)
        rows += [f"b{bag},{'ab'[labels[bag]]},{x},{y}" for x, y in of_bag]
    (tmp_path / "named.csv").write_text("\n".join(rows))
    listed = [f"b{bag},{'ab'[label]}" for bag, label in enumerate(labels)]
    (tmp_path / "files" / "labels.csv").write_text("\n".join(["bag,label", *listed]))
    options = {"recipe": "quick", "method": "log-mean", "epochs": 1, "device": "cpu", "verbose": False}
    train(tmp_path / "named.csv", out=tmp_path / "run", **options)
    for source, warned in (("named.csv", False), ("files", True)):
        shown = succeeds("predict", tmp_path / "run", tmp_path / source, "--out", tmp_path / "found.csv")
        assert ("their order is taken on trust" in shown) == warned


ROWS = [f"{bag},{'ab'[bag % 2]},{bag % 2 + 0.01 * row}" for bag in range(20) for row in range(3)]


@pytest.fixture
def trained_here(succeeds, tmp_path, monkeypatch):
    """The words of a training in a new folder, whose table is bags.csv beside the folder of the run."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here/bags.csv").write_text("\n".join(["bag,bag_label,f0", *ROWS]) + "\n")
    monkeypatch.chdir(tmp_path / "here")
    words = ["--recipe", "quick", "--method=log-mean", "--epochs", "1"]
    succeeds("train", "bags.csv", *words, "--out", "run")
    return words


def test_a_run_knows_its_files_from_every_folder(refused, succeeds, tmp_path, monkeypatch, trained_here):
    monkeypatch.chdir(tmp_path)
    succeeds("report", "here/run")
    succeeds("predict", "here/run", "--out", "classes.csv")
    assert "is finished" in succeeds("train", "here/bags.csv", *trained_here, "--out", "here/run")
    (tmp_path / "bags.csv").write_text("\n".join(["bag,bag_label,f0", *ROWS[::-1]]) + "\n")
    assert "the data have changed since" in refused("train", "bags.csv", *trained_here, "--out", "here/run")


def test_a_folder_that_was_moved_with_its_files_goes_on(succeeds, tmp_path, monkeypatch, trained_here):
    (tmp_path / "here").rename(tmp_path / "new")
    monkeypatch.chdir(tmp_path / "new")
    assert "is finished" in succeeds("train", "bags.csv", *trained_here, "--out", "run")
    succeeds("predict", "run", "--out", "classes.csv")


def test_on_a_full_disk_a_run_is_one_message_and_continues_with_more_space(tmp_path):
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3_000, hard))  # bytes per file: less than a checkpoint
    try:
        with pytest.raises(InputError, match=r"cannot be written \(File too large\): free disk space and repeat"):
            run_tiny(tmp_path / "run")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    files = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert not [name for name in files if name.endswith((".unfinished", ".lock"))]
    result, whole = run_tiny(tmp_path / "run"), run_tiny(tmp_path / "whole")
    assert (result["test"], result["val"]) == (whole["test"], whole["val"])


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"), run_lock(tmp_path / "file" / "run"):
        pass


def test_the_cure_for_a_damaged_config_works(tmp_path):
    run = tmp_path / "run"
    run_tiny(run)
    whole = (run / "config.json").read_text()
    (run / "config.json").write_text(whole[:100])
    cure = rf"config\.json is damaged .* move {run} away and train again"
    for read in (lambda: run_tiny(run), lambda: read_config(run)):
        with pytest.raises(InputError, match=cure):
            read()
    run.rename(tmp_path / "away")
    run_tiny(run)
    (tmp_path / "away" / "config.json").write_text(whole)
    assert read_config(run) == read_config(tmp_path / "away")


def test_what_is_no_run_folder(tmp_path):
    with pytest.raises(InputError, match="is not a run folder"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text('{"schema_version": 99}')
    with pytest.raises(InputError, match="schema 99"):
        read_config(tmp_path)


def test_reopen_notices_unfinished_runs(tmp_path):
    run_tiny(tmp_path)
    for name in ("best.safetensors", "result.json"):
        (tmp_path / name).unlink()
    with pytest.raises(InputError, match="is not finished"):
        reopen(tmp_path)


def test_a_refused_run_leaves_no_folder_behind(tmp_path):
    with pytest.raises(InputError):
        run_tiny(tmp_path / "run", bag_size=500)
    assert not (tmp_path / "run").exists()


def test_colleagues_can_read_the_classifier(tmp_path):
    run_tiny(tmp_path)
    modes = {(tmp_path / name).stat().st_mode & 0o777 for name in ("best.safetensors", "result.json", "config.json")}
    assert len(modes) == 1


def test_the_device_of_a_run_is_the_one_that_it_uses(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: f"GPU {device.index or 0}")
    assert [environment(name)["device"] for name in ("auto", "cuda:1")] == ["GPU 0", "GPU 1"]
    assert "GPU" not in environment("cpu")["device"]
