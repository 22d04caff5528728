"""TensorBoard and MLflow: what was logged is read back from their files. Skipped where they are not installed."""

import json
from importlib.util import find_spec

import pytest

import majority as library
from majority import InputError, Settings, build_model, fit, load_source
from majority.run.trackers import MLflowLog, TensorBoardLog

CHOICES = {"scenario": "large", "bags": 20, "bag_size": 8, "verbose": False, "device": "cpu"}
QUICK = {"method": "count", "recipe": "quick", "settings": {"training.epochs": 3}, **CHOICES}


def events(folder):
    """tag -> values by step."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder)).Reload()
    return {tag: {event.step: event.value for event in read.Scalars(tag)} for tag in read.Tags()["scalars"]}


@pytest.fixture
def store(tmp_path, monkeypatch):
    """A local file store."""
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    uri = (tmp_path / "store").as_uri()
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    return uri


def mlflow_runs(uri):
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    return client, client.search_runs([client.get_experiment_by_name("majority").experiment_id])


# ---------------------------------------------------------------- TensorBoard


def test_the_command_logs_every_epoch_to_tensorboard(majority, tmp_path):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    run = tmp_path / "run"
    words = ("--method", "count", "--recipe", "quick", "--epochs", 3, "--bags", 20, "--bag-size", 8, "--device", "cpu")
    code, _, err = majority("train", "digits", *words, "--log", "tensorboard", "--out", run)
    assert code == 0, err
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


# ---------------------------------------------------------------- MLflow


def test_the_command_logs_settings_epochs_figures_and_the_report_to_mlflow(majority, store, tmp_path):
    run = tmp_path / "run"
    words = ("--method", "count", "--recipe", "quick", "--epochs", 3, "--bags", 20, "--bag-size", 8, "--device", "cpu")
    code, _, err = majority("train", "digits", *words, "--log", "mlflow", "--out", run)
    assert code == 0, err
    client, (logged,) = mlflow_runs(store)
    assert logged.info.status == "FINISHED"
    assert logged.data.params["plan.training.epochs"] == "3"
    assert logged.data.params["method"] == "count"
    result = json.loads((run / "result.json").read_text())
    assert logged.data.metrics["test/instance_accuracy"] == pytest.approx(result["test"]["instance_accuracy"])
    records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    history = client.get_metric_history(logged.info.run_id, "val_loss")
    assert [(point.step, point.value) for point in history] == [
        (r["epoch"], pytest.approx(r["val_loss"])) for r in records
    ]
    assert [file.path for file in client.list_artifacts(logged.info.run_id)] == ["report.html"]


def test_an_interrupted_run_continues_its_mlflow_run(store, tmp_path):
    class Stop(library.Callback):
        def on_epoch_end(self, record):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        library.train("digits", **QUICK, out=tmp_path / "run", callbacks=[MLflowLog(), Stop()])
    library.train("digits", **QUICK, out=tmp_path / "run", callbacks=[MLflowLog()])
    client, (logged,) = mlflow_runs(store)
    assert [point.step for point in client.get_metric_history(logged.info.run_id, "train_loss")] == [0, 1, 2]


def test_fit_is_a_run_of_mlflow(store):
    train, val, _ = load_source("digits").make_parts(scenario="large", bags=20, bag_size=8)
    fit(build_model(train, "count"), train, val, Settings(epochs=2), device="cpu", title=None, callbacks=[MLflowLog()])
    _, (logged,) = mlflow_runs(store)
    assert logged.info.status == "FINISHED"
    assert "train_loss" in logged.data.metrics


def test_a_store_that_mlflow_cannot_use_is_one_message(majority, tmp_path, monkeypatch):
    pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nowhere://store")
    code, _, err = majority("train", "digits", "--log", "mlflow", "--out", tmp_path / "run")
    assert code == 2
    assert "MLFLOW_TRACKING_URI" in err
    assert not (tmp_path / "run").exists()


# ---------------------------------------------------------------- without them


@pytest.mark.parametrize("tracker", ["tensorboard", "mlflow"])
def test_a_tracker_that_is_not_installed_is_one_message(majority, tmp_path, monkeypatch, tracker):
    monkeypatch.setattr("majority.run.trackers.find_spec", lambda name: None if name == tracker else find_spec(name))
    code, _, err = majority("train", "digits", "--log", tracker, "--out", tmp_path / "run")
    assert code == 2
    assert f"majority[{tracker}]" in err
    assert not (tmp_path / "run").exists()


def test_another_tracker_is_refused(majority, tmp_path):
    code, _, err = majority("train", "digits", "--log", "wandb", "--out", tmp_path / "run")
    assert code == 2
    assert "tensorboard" in err
