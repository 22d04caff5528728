"""TensorBoard: what was logged is read back from its files. Skipped where it is not installed."""

import json

import pytest

import majority as library
from majority import InputError, Settings, build_model, fit, load_source
from majority.run.trackers import TensorBoardLog

CHOICES = {"scenario": "large", "bags": 20, "bag_size": 8, "verbose": False, "device": "cpu"}


def events(folder):
    """tag -> values by step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder)).Reload()
    return {tag: {event.step: event.value for event in read.Scalars(tag)} for tag in read.Tags()["scalars"]}


def test_the_command_logs_every_epoch_to_tensorboard(succeeds, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    run = tmp_path / "run"
    words = ("--method", "count", "--recipe", "quick", "--epochs", 3, "--bags", 20, "--bag-size", 8, "--device", "cpu")
    succeeds("train", "digits", *words, "--log", "tensorboard", "--out", run)
    written = events(run / "tensorboard")
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert written["val_loss"] == pytest.approx({record["epoch"]: record["val_loss"] for record in records})
    figures = json.loads((run / "result.json").read_text())["test"]
    assert written["test/instance_accuracy"][0] == pytest.approx(figures["instance_accuracy"])


def test_each_stage_is_a_run_of_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    settings = {"census.teachers": 1, "training.epochs": 2}
    choices = CHOICES | {"method": "vote", "recipe": "census", "settings": settings}
    run = library.train("digits", **choices, out=tmp_path / "run", callbacks=[TensorBoardLog()])
    for stage, facts in run.result["stages"].items():
        assert len(events(run.folder / "tensorboard" / stage)["train_loss"]) == facts["epochs"]


def test_fit_needs_a_folder_for_tensorboard(tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    train, val, _ = load_source("digits").make_parts(scenario="large", bags=20, bag_size=8)
    options = {"settings": Settings(epochs=2), "device": "cpu", "title": None}
    fit(build_model(train, "count"), train, val, callbacks=[TensorBoardLog(tmp_path / "logs")], **options)
    assert len(events(tmp_path / "logs")["train_loss"]) == 2
    with pytest.raises(InputError, match="name one"):
        fit(build_model(train, "count"), train, val, callbacks=[TensorBoardLog()], **options)


def test_a_tracker_that_is_not_installed_is_one_message(refused, tmp_path, monkeypatch):
    monkeypatch.setattr("majority.run.trackers.find_spec", lambda name: None)
    err = refused("train", "digits", "--log", "tensorboard", "--out", tmp_path / "run")
    assert "majority[tensorboard]" in err
    assert not (tmp_path / "run").exists()
