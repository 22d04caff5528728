"""`majority.fit` as a user sees it: what it learns from, keeps and writes, and how it continues after a stop."""

import json
import math

import numpy as np
import pytest
import torch

from majority import Bags, InputError, Settings, TrainingError, build_model, fit, make_bags
from majority.data.device import choose_device
from majority.losses import CountLoss
from majority.predict.evaluate import all_batches, outputs
from majority.training.checkpoint import CHECKPOINT, METRICS
from majority.training.steps import Steps


def blobs(n_bags=24, size=6, seed=0, spread=0.3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 600)
    store = (np.eye(3)[labels] + spread * rng.standard_normal((600, 3))).astype(np.float32)
    return make_bags(store, labels, ["a", "b", "c"], n_bags=n_bags, size=size, scenario="large", rng=rng)


TRAIN, VAL = blobs(seed=0), blobs(n_bags=12, seed=1)
SHORT = Settings(epochs=4, batch_bags=8, warmup_epochs=1)


def trained(folder=None, settings=SHORT, method="log-mean", train=TRAIN, val=VAL, callbacks=()):
    model = build_model(train, method)
    return model, fit(model, train, val, settings, folder=folder, device="cpu", callbacks=callbacks)


def same_weights(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True))


def validation_loss(model, val):
    total = 0.0
    for batch, output in outputs(model, all_batches(val.without_instance_labels(), choose_device("cpu"))):
        total += model.head.losses(output, batch.segments, batch.target).sum().item()
    return total / len(val)


def test_the_model_is_left_at_the_epoch_of_lowest_validation_loss():
    model, fitted = trained(settings=Settings(epochs=12, batch_bags=8, learning_rate=0.05))
    losses = [record["val_loss"] for record in fitted.history]
    assert fitted.best_epoch == int(np.argmin(losses))
    assert fitted.best_epoch < 11, "the last epoch was best: this test shows nothing"
    assert validation_loss(model, VAL) == pytest.approx(min(losses), rel=1e-5)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    one, _ = trained()
    two, _ = trained()
    three, _ = trained(settings=Settings(epochs=4, batch_bags=8, warmup_epochs=1, seed=1))
    assert same_weights(one, two)
    assert not same_weights(one, three)


@pytest.mark.parametrize("epochs", [1, 3])
def test_an_interrupted_training_ends_with_the_same_weights(tmp_path, stop_after, epochs):
    whole, fitted = trained(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "stopped", callbacks=[stop_after(epochs)])
    assert len((tmp_path / "stopped" / METRICS).read_text().splitlines()) == epochs
    resumed, again = trained(tmp_path / "stopped")
    assert same_weights(whole, resumed)
    assert again.best_epoch == fitted.best_epoch
    assert [line["val_loss"] for line in again.history] == [line["val_loss"] for line in fitted.history]
    lines = [json.loads(line) for line in (tmp_path / "stopped" / METRICS).read_text().splitlines()]
    assert [line["epoch"] for line in lines] == [0, 1, 2, 3]
    assert again.seconds == pytest.approx(sum(line["seconds"] for line in lines)), "those before the stop count too"


def test_a_training_interrupted_in_the_middle_of_an_epoch_ends_with_the_same_weights(tmp_path, monkeypatch):
    whole, _ = trained(tmp_path / "whole")
    real, steps = Steps.step, 0

    def stops(self, batch):
        nonlocal steps
        steps += 1
        if steps == 8:  # the second of three steps in the third epoch
            raise KeyboardInterrupt
        real(self, batch)

    with monkeypatch.context() as patched:
        patched.setattr(Steps, "step", stops)
        with pytest.raises(KeyboardInterrupt):
            trained(tmp_path / "stopped")
    assert len((tmp_path / "stopped" / METRICS).read_text().splitlines()) == 2
    assert same_weights(whole, trained(tmp_path / "stopped")[0])


def test_a_damaged_checkpoint_is_named(tmp_path):
    (tmp_path / CHECKPOINT).write_bytes(b"not a checkpoint")
    with pytest.raises(InputError, match=r"checkpoint.safetensors is .*damaged.*remove it"):
        trained(tmp_path)


def test_a_damaged_line_is_named_before_training_goes_on(tmp_path, stop_after):
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path, callbacks=[stop_after(2)])
    lines = (tmp_path / METRICS).read_text().replace('"epoch": 1', '"epoch": null')
    (tmp_path / METRICS).write_text(lines)
    with pytest.raises(InputError, match=r"metrics.jsonl, line 2 is damaged \(epoch is null"):
        trained(tmp_path)
    assert (tmp_path / METRICS).read_text() == lines


def test_patience_stops_after_epochs_without_a_better_loss():
    settings = Settings(epochs=50, batch_bags=8, learning_rate=0.2, schedule="constant", patience=3)
    _, fitted = trained(settings=settings)
    assert fitted.epochs < 50
    assert fitted.epochs == fitted.best_epoch + 1 + 3


def test_a_loss_that_is_not_finite_stops_and_saves_nothing_of_it(tmp_path):
    settings = Settings(epochs=30, learning_rate=1e38, schedule="constant", optimizer="adam", batch_bags=8)
    with pytest.raises(TrainingError, match=r"(train|val)_loss is (nan|inf).*lower learning rate"):
        trained(tmp_path, settings)
    saved = (tmp_path / METRICS).read_text()
    assert "NaN" not in saved
    assert "Infinity" not in saved


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9.00 GiB"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8053063680 bytes."),
    ],
)
def test_too_little_memory_is_reported_with_the_cure(monkeypatch, error):
    def full(*ignored):
        raise error

    monkeypatch.setattr(Steps, "step", full)
    message = r"steps of 3 bags, up to 15 instances of shape \(\d+,\): .*--batch-bags.*--max-instances"
    with pytest.raises(TrainingError, match=message):
        fit(build_model(TRAIN, "log-mean"), TRAIN, VAL, Settings(batch_bags=3, max_instances=5), device="cpu")
    ragged = Bags.from_lists([np.ones((size, 3), np.float32) for size in (9, 2, 5, 3)], ["a", "b"] * 2)
    with pytest.raises(TrainingError, match="steps of 2 bags, up to 14 instances"):
        fit(build_model(ragged), ragged, ragged, Settings(batch_bags=2), device="cpu")


def test_instance_labels_do_not_reach_training(monkeypatch):
    given, compute = [], CountLoss.compute

    def watched(self, output, segments, target):
        given.append(target.instance_labels)
        return compute(self, output, segments, target)

    monkeypatch.setattr(CountLoss, "compute", watched)
    assert TRAIN.instance_labels is not None
    assert VAL.instance_labels is not None
    trained(method="count")
    assert given
    assert all(labels is None for labels in given), "of training and validation bags"


def without(bags, keep):
    """The same bags without the instances that are not kept."""
    sizes = np.add.reduceat(keep, bags.offsets[:-1], dtype=np.int64)
    return Bags(bags.store, bags.index[keep], np.cumsum([0, *sizes]), bags.labels, bags.classes)


@pytest.mark.parametrize("method", ["count", "vote", "feature-lse"])
def test_training_with_instances_left_out_is_training_on_bags_without_them(method):
    keep = np.arange(len(TRAIN.index)) % 3 != 1
    models = [build_model(TRAIN, method, torch.nn.Linear(3, 3)) for _ in range(2)]  # without batch norm
    models[1].load_state_dict(models[0].state_dict())
    one = fit(models[0], TRAIN, VAL, SHORT, keep=keep)
    other = fit(models[1], without(TRAIN, keep), VAL, SHORT)
    for a, b in zip(one.history, other.history, strict=True):
        assert {**a, "seconds": 0} == pytest.approx({**b, "seconds": 0}, rel=1e-4)
    for name, value in models[0].state_dict().items():
        torch.testing.assert_close(value, models[1].state_dict()[name], rtol=1e-3, atol=1e-5)


def test_wrong_masks_are_refused():
    keep = np.ones(len(TRAIN.index), dtype=bool)
    none_of_a_bag = np.where((keep.cumsum() > 6) & (keep.cumsum() <= 12), False, keep)
    for wrong in (keep[:5], keep * 1.0, none_of_a_bag):
        with pytest.raises(InputError, match=r"keep: give 144 booleans, .* with a True in every bag"):
            fit(build_model(TRAIN), TRAIN, VAL, SHORT, keep=wrong)


@pytest.mark.parametrize(
    ("name", "value", "cure"),
    [
        ("epochs", -1, "give a whole number from 1"),
        ("epochs", True, "give a whole number"),
        ("learning_rate", math.nan, "give a number above 0"),
        ("optimizer", "sgd", "give adam or adamw or muon"),
        ("augment", "crop", "give a list"),
    ],
)
def test_settings_are_checked_when_they_are_created(name, value, cure):
    with pytest.raises(InputError, match=f"{name} is .*: {cure}"):
        Settings(**{name: value})
    Settings(epochs=np.int64(3), learning_rate=np.float32(0.1), patience=None, max_instances=None, compile=None)


def test_the_cosine_schedule_rises_to_the_rate_and_falls_to_zero():
    settings = Settings(epochs=10, batch_bags=8, learning_rate=1e-2, warmup_epochs=2)
    rates = [record["learning_rate"] for record in trained(settings=settings)[1].history]
    assert rates[0] == pytest.approx(5e-3)
    assert max(rates) == pytest.approx(1e-2)
    assert rates[2:] == sorted(rates[2:], reverse=True)
    last_step = (10 - 2) * 3 - 1
    assert rates[-1] == pytest.approx(1e-2 * 0.5 * (1 + math.cos(math.pi * last_step / 24)))


def test_the_loop_is_a_plain_loop():
    """The loop against one that is written here: the same order, losses, gradients and updates."""
    settings = Settings(epochs=2, batch_bags=5, optimizer="adam", schedule="constant", learning_rate=1e-2)
    model, fitted = trained(settings=settings, method="count")
    plain = build_model(TRAIN, "count")
    optimizer = torch.optim.Adam(plain.parameters(), lr=1e-2)
    best, best_weights = math.inf, None
    for epoch in range(2):
        order = np.random.default_rng([0, epoch]).permutation(len(TRAIN))
        losses = []
        for start in range(0, len(order), 5):
            step_losses = []
            for i in order[start : start + 5]:
                logits = plain.head.classifier(plain.backbone(plain.normalise(torch.from_numpy(TRAIN.bag(i)))))
                shares = (logits / 0.1).softmax(dim=1).mean(dim=0)
                step_losses.append(-(shares / 0.1).log_softmax(dim=0)[TRAIN.labels[i]])
            losses += [loss.item() for loss in step_losses]
            optimizer.zero_grad()
            torch.stack(step_losses).mean().backward()
            optimizer.step()
        assert fitted.history[epoch]["train_loss"] == pytest.approx(np.mean(losses), rel=1e-4)
        if validation_loss(plain, VAL) < best:
            best, best_weights = validation_loss(plain, VAL), {k: v.clone() for k, v in plain.state_dict().items()}
    for name, value in model.state_dict().items():
        torch.testing.assert_close(value, best_weights[name], rtol=1e-3, atol=1e-5)


def test_max_instances_bounds_a_step_and_still_learns():
    seen = []
    model = build_model(TRAIN, "log-mean")
    model.backbone.register_forward_hook(lambda module, inputs, output: seen.append(len(output)))
    settings = Settings(epochs=15, batch_bags=4, max_instances=3, learning_rate=1e-2)
    fitted = fit(model, TRAIN, VAL, settings)
    assert max(n for n in seen if n != VAL.index.size) == 4 * 3
    assert fitted.history[-1]["train_bag_accuracy"] > 0.9
