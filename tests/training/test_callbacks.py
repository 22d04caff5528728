"""Callbacks as a user of `fit` sees them, and the files that one of them writes."""

import copy

import numpy as np
import pytest
import torch

from majority import Bags, Callback, InputError, Settings, build_model, fit
from majority.training import checkpoint
from majority.training.checkpoint import CHECKPOINT, METRICS

EPOCHS = 4


def bags_of(n_bags=12, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, n_bags)
    lists = [rng.normal(size=(5, 3)).astype(np.float32) + 2 * label for label in labels]
    return Bags.from_lists(lists, labels, ["a", "b"])


TRAIN, VAL = bags_of(), bags_of(6, seed=1)


def train(*callbacks, folder=None, epochs=EPOCHS, **options):
    model = build_model(TRAIN, "log-mean")
    settings = Settings(epochs=epochs, batch_bags=4)
    options = {"device": "cpu", "folder": folder, "title": None} | options
    return model, fit(model, TRAIN, VAL, settings, callbacks=callbacks, **options)


class Recorder(Callback):
    def __init__(self):
        self.calls = []

    def on_fit_start(self, title, done, total):
        self.calls.append(("start", title, done, total))

    def on_epoch_end(self, record):
        self.calls.append(("epoch", record))

    def on_fit_end(self, fitted):
        self.calls.append(("end", fitted))


def test_the_order_and_content_of_calls():
    recorder = Recorder()
    _, fitted = train(recorder, title="my training")
    assert recorder.calls == [
        ("start", "my training", 0, EPOCHS),
        *(("epoch", record) for record in fitted.history),
        ("end", fitted),
    ]
    assert [record["epoch"] for record in fitted.history] == list(range(EPOCHS))
    figures = {"train_loss", "train_bag_accuracy", "val_loss", "val_bag_accuracy", "learning_rate", "seconds"}
    assert figures <= fitted.history[0].keys()


def test_files_are_written_before_a_callback_is_called(tmp_path):
    lines = []

    class Count(Callback):
        def on_epoch_end(self, record):
            assert (tmp_path / CHECKPOINT).exists()
            lines.append(len((tmp_path / METRICS).read_text().splitlines()))

    train(Count(), folder=tmp_path)
    assert lines == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("device", "epoch_seconds", "expected", "last"),
    [("cpu", 0.4, [None, None, 3, 3, 3], 3), ("cuda", 14, [None, None, 3, 3, 3], 5)],
)
def test_checkpoints_are_a_second_apart_and_on_a_gpu_half_a_minute(
    tmp_path, monkeypatch, device, epoch_seconds, expected, last
):
    """A kill loses less than that, and at the end of a training less than a second. The line of an epoch is written
    before its checkpoint: a kill between the two leaves a line too many, which is dropped; one too few is refused."""
    now, saved, lines = 0.0, [], []
    monkeypatch.setattr(checkpoint, "CHECKPOINT_SECONDS", 1)
    monkeypatch.setattr(checkpoint.time, "monotonic", lambda: now)
    network = torch.nn.Linear(2, 2)
    state = checkpoint.TrainingState(network, torch.optim.AdamW(network.parameters()))
    files = checkpoint.RunFiles(tmp_path, state, torch.device(device))
    files.resume()
    save = checkpoint.save_checkpoint

    def watched(path, state):
        lines.append(len((tmp_path / METRICS).read_text().splitlines()))
        save(path, state)

    monkeypatch.setattr(checkpoint, "save_checkpoint", watched)

    def epochs():
        path = tmp_path / CHECKPOINT
        return checkpoint.load_checkpoint(path, copy.deepcopy(state), torch.device("cpu")) if path.exists() else None

    for epoch in range(5):
        now += epoch_seconds
        state.fitted.history.append({"epoch": epoch})
        state.fitted.best_epoch, state.fitted.best_loss = epoch, 1.0
        files.on_epoch_end({"epoch": epoch})
        saved.append(epochs())
    assert saved == expected
    files.save_after(1)
    assert epochs() == last
    assert lines == sorted({*expected, last} - {None})


def test_an_error_in_a_callback_ends_the_training_which_can_continue(tmp_path):
    class Fail(Callback):
        def on_epoch_end(self, record):
            if record["epoch"] == 1:
                raise ZeroDivisionError

    whole, fitted = train()
    with pytest.raises(ZeroDivisionError):
        train(Fail(), folder=tmp_path)
    recorder = Recorder()
    again, resumed = train(recorder, folder=tmp_path, title="again")
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in whole.state_dict().items())
    assert [record["val_loss"] for record in resumed.history] == [record["val_loss"] for record in fitted.history]
    assert recorder.calls[0] == ("start", "again", 2, EPOCHS)
    assert [record["epoch"] for _, record in recorder.calls[1:-1]] == [2, 3], "only the epochs of this call"


@pytest.mark.parametrize("wrong", [Recorder, print])
def test_other_objects_are_refused(wrong):
    with pytest.raises(InputError, match=r"callbacks holds <.*: give .*objects of subclasses of majority\.Callback"):
        train(wrong)
