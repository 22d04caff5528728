"""Captured steps. Without a GPU, the tests show that the captured function is the plain step with its own inputs."""

from functools import partial

import numpy as np
import pytest
import torch

from majority import Settings, build_model, fit, make_bags
from majority.data.loader import BagLoader
from majority.training import steps
from majority.training.augment import AUGMENTATIONS
from majority.training.callbacks import Fitted
from majority.training.cuda_graphs import Captured, cudnn_benchmark
from majority.training.loop import run
from majority.training.objectives import Averaged, BagLoss, Contrastive, Distill

gpu = pytest.mark.usefixtures("gpu")
ROUNDING = 1e-4  # float32 sums in another order, over three epochs


@pytest.fixture(autouse=True)
def one_thread():
    """Sums in the same order every time. The gradient of a bias before batch norm is a rounding error, which Adam makes
    as large as any step: with several threads such biases differ, though no output depends on them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def bags(n_bags=10, size=4, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, 300)
    store = (np.eye(3)[labels] + 0.3 * rng.standard_normal((300, 3))).astype(np.float32)
    return make_bags(store, labels, ["a", "b", "c"], n_bags=n_bags, size=size, scenario="large", rng=rng)


class Replayed:
    """Used in place of `Captured`: copies its inputs, and calls the function instead of replaying it."""

    made = []  # noqa: RUF012

    def __init__(self, function, state, fitted):
        self.function, self.state, self.fitted = function, state, fitted
        self.made.append(self)
        self.shapes = set()

    def __call__(self, *inputs):
        self.fitted.capture_seconds += 1e-9
        self.shapes.add(tuple(tensor.shape for tensor in inputs if tensor is not None))
        assert all(isinstance(tensor, torch.Tensor) for tensor in self.state().values())
        self.function(*[tensor if tensor is None else tensor.clone() for tensor in inputs])


def run_captured(model, train, val, settings, keep=None):
    """Train on the CPU with the steps of a GPU."""
    if not model.head.sees_instance_labels:
        train, val = train.without_instance_labels(), val.without_instance_labels()
    fast = steps.CapturedSteps(model, BagLoader(train, torch.device("cpu"), keep=keep), val, settings, BagLoss())
    return run(fast, None, None, [])


@pytest.mark.parametrize("method", ["count", "attention", "supervised"])
def test_captured_training_is_plain_training(method, monkeypatch):
    monkeypatch.setattr(steps, "Captured", Replayed)
    train, val, settings = bags(), bags(4, seed=1), Settings(epochs=3, batch_bags=4)
    plain, fast = build_model(train, method), build_model(train, method)
    fitted = fit(plain, train, val, settings, device="cpu")
    again = run_captured(fast, train, val, settings)
    assert again.capture_seconds > fitted.capture_seconds == 0
    for one, other in zip(fitted.history, again.history, strict=True):
        assert other["train_loss"] == pytest.approx(one["train_loss"], rel=ROUNDING)
        assert other["val_loss"] == pytest.approx(one["val_loss"], rel=ROUNDING)
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[name], value, rtol=ROUNDING, atol=ROUNDING)
    step = Replayed.made[-1]
    assert len(step.shapes) == 2, "ten bags, four per step: one shape for full steps, one for the last step"


def test_the_captured_step_gets_what_to_keep(monkeypatch):
    monkeypatch.setattr(steps, "Captured", Replayed)
    train, val, settings = bags(), bags(4, seed=1), Settings(epochs=3, batch_bags=4)
    keep = np.arange(len(train.index)) % 4 != 2
    for method in ("count", "supervised"):
        plain, fast, whole = (build_model(train, method) for _ in range(3))
        fitted = fit(plain, train, val, settings, device="cpu", keep=keep)
        again = run_captured(fast, train, val, settings, keep)
        losses = [[record["train_loss"] for record in one.history] for one in (fitted, again)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-6)
        assert losses[0] != [record["train_loss"] for record in fit(whole, train, val, settings).history]


def ragged_bags(n_bags=30, seed=0):
    """Bags of 1 to 9 instances."""
    sizes = np.random.default_rng(seed).integers(1, 10, n_bags)
    whole = bags(n_bags, 10, seed)
    rows = np.concatenate([np.arange(10 * bag, 10 * bag + size) for bag, size in enumerate(sizes)])
    labels = None if whole.instance_labels is None else whole.instance_labels[rows]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return whole._with(index=whole.index[rows], offsets=offsets, instance_labels=labels)


@pytest.mark.parametrize(
    "method",
    ["count", "adjusted-mean", "attention", "additive-transmil", "supervised"],
)
def test_captured_training_on_ragged_bags_is_plain_training(method, monkeypatch):
    """The instances that fill the steps have no influence, because this network has no batch norm."""
    monkeypatch.setattr(steps, "Captured", Replayed)
    train, val, settings = ragged_bags(), ragged_bags(6, seed=1), Settings(epochs=3, batch_bags=8)
    plain, fast = (build_model(train, method, "linear") for _ in range(2))
    fitted = fit(plain, train, val, settings, device="cpu")
    again = run_captured(fast, train, val, settings)
    for one, other in zip(fitted.history, again.history, strict=True):
        assert other["train_loss"] == pytest.approx(one["train_loss"], rel=ROUNDING)
        assert other["train_bag_accuracy"] == one["train_bag_accuracy"]
        assert other["val_loss"] == pytest.approx(one["val_loss"], rel=ROUNDING)
    for name, value in plain.state_dict().items():
        if (method, value.shape) != ("attention", (1,)):  # no output depends on the bias of its softmax
            torch.testing.assert_close(fast.state_dict()[name], value, rtol=ROUNDING, atol=ROUNDING)


@pytest.mark.parametrize("objective", [Averaged, Distill])
def test_captured_stages_of_census_on_ragged_bags_are_plain_ones(objective, monkeypatch):
    monkeypatch.setattr(steps, "Captured", Replayed)
    train, val, settings = ragged_bags(), ragged_bags(6, seed=1), Settings(epochs=2, batch_bags=8)
    soft_labels = np.random.default_rng(0).dirichlet(np.ones(3), len(train.index)).astype(np.float32)
    more = {"soft_labels": soft_labels} if objective is Distill else {}
    objective = partial(Distill, mixup=0) if objective is Distill else objective
    plain, fast = (build_model(train, "adjusted-mean", "linear") for _ in range(2))
    fitted = fit(plain, train, val, settings, device="cpu", objective=objective(plain), **more)
    hidden = train.without_instance_labels(), val.without_instance_labels()
    loader = BagLoader(hidden[0], torch.device("cpu"), **more)
    again = run(steps.CapturedSteps(fast, loader, hidden[1], settings, objective(fast)), None, None, [])
    assert [r["train_loss"] for r in again.history] == pytest.approx(
        [r["train_loss"] for r in fitted.history], rel=1e-5
    )
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(fast.state_dict()[name], value)


@pytest.mark.parametrize("deterministic", [False, True])
def test_the_cudnn_settings_of_the_caller_are_kept(monkeypatch, deterministic):
    theirs = {"enabled": False, "deterministic": deterministic, "allow_tf32": False, "benchmark": False}
    for name, value in theirs.items():
        monkeypatch.setattr(torch.backends.cudnn, name, value)
    with cudnn_benchmark(True):
        assert torch.backends.cudnn.benchmark is not deterministic, "the fastest algorithm may differ each time"
        assert {name: getattr(torch.backends.cudnn, name) for name in theirs} | {"benchmark": False} == theirs
    assert torch.backends.cudnn.benchmark is False


@gpu
def test_a_function_that_cannot_be_captured_runs_eagerly(capsys):
    total = torch.zeros(3, device="cuda")

    def reads(values):
        total.add_(values * values.sum().item())

    add = Captured(reads, lambda: {"total": total}, Fitted())
    add(torch.ones(3, device="cuda"))
    assert total.tolist() == [3.0, 3.0, 3.0]
    assert "could not be captured" in capsys.readouterr().err


@gpu
def test_random_draws_are_the_same_if_a_capture_fails(capsys):
    drawn = torch.zeros(3, device="cuda")

    def draws(values):
        drawn.copy_(values + torch.rand(3, device="cuda"))
        values.sum().item()

    torch.manual_seed(0)
    expected = [torch.rand(3, device="cuda").tolist() for _ in range(2)]
    torch.manual_seed(0)
    step, seen = Captured(draws, lambda: {"drawn": drawn}, Fitted()), []
    for _ in range(2):
        step(torch.zeros(3, device="cuda"))
        seen.append(drawn.tolist())
    assert seen == expected
    assert "could not be captured" in capsys.readouterr().err


@gpu
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("make", [BagLoss, Contrastive, partial(Contrastive, mixed_views=0.5), Averaged, Distill])
def test_every_augmentation_and_objective_is_captured(make, optimizer, capsys):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 300)
    store = (80 * labels[:, None, None, None] + rng.integers(0, 64, (300, 16, 16, 3))).astype(np.uint8)
    options = {"size": 8, "scenario": "large", "rng": rng}
    train, val = (make_bags(store, labels, ["a", "b", "c"], n_bags=n, **options) for n in (16, 8))
    views = tuple(AUGMENTATIONS)
    settings = Settings(8, 4, drop_last=True, optimizer=optimizer, augment=views, precision="bf16")
    model = build_model(train, "log-mean", "resnet18-small")
    if Contrastive in (make, getattr(make, "func", None)):
        train, val, objective = train.one_per_instance(), None, make(model.n_features)
    else:
        objective = BagLoss() if make is BagLoss else make(model)
    soft_labels = rng.dirichlet([1, 1, 1], 16 * 8).astype(np.float32) if make is Distill else None
    fitted = fit(model, train, val, settings, device="cuda", objective=objective, soft_labels=soft_labels)
    assert "could not be captured" not in capsys.readouterr().err
    losses = [record["train_loss"] for record in fitted.history]
    assert np.isfinite(losses).all()
    assert len({*losses}) == settings.epochs, "the weights change"


@gpu
@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("method", ["count", "log-mean", "attention"])
def test_on_a_gpu_captured_training_follows_eager_training(method, some, optimizer):
    train, val, settings = bags(), bags(4, seed=1), Settings(epochs=3, batch_bags=4, optimizer=optimizer)
    keep = np.arange(len(train.index)) % 4 != 2 if some else None
    eager, fast = build_model(train, method), build_model(train, method)
    one = fit(eager, train, val, settings, device="cuda", eager=True, keep=keep)
    other = fit(fast, train, val, settings, device="cuda", keep=keep)
    for a, b in zip(one.history, other.history, strict=True):
        assert b["val_loss"] == pytest.approx(a["val_loss"], rel=1e-3)


@gpu
@pytest.mark.parametrize("method", ["count", "log-mean", "adjusted-mean", "attention"])
def test_on_a_gpu_captured_training_on_ragged_bags_follows_eager_training(method, capsys):
    train, val, settings = ragged_bags(), ragged_bags(6, seed=1), Settings(epochs=5, batch_bags=8)
    eager, fast = (build_model(train, method, "linear") for _ in range(2))
    one = fit(eager, train, val, settings, device="cuda", eager=True)
    other = fit(fast, train, val, settings, device="cuda")
    assert other.capture_seconds > 0
    assert "could not be captured" not in capsys.readouterr().err
    for a, b in zip(one.history, other.history, strict=True):
        assert b["train_loss"] == pytest.approx(a["train_loss"], rel=1e-3)
        assert b["val_loss"] == pytest.approx(a["val_loss"], rel=1e-3)
