"""What a step of training takes, told before it is taken."""

import numpy as np
import pytest
import torch

from majority import Bags, Settings, build_model
from majority.training import memory as memory_room
from majority.training.memory import BACKWARD_FACTOR, free_bytes, largest_step, step_bytes

SIZES = (1, 9, 4, 4, 30)


def bags_of(store):
    return Bags(store, np.arange(48), np.cumsum([0, *SIZES]), [0, 1, 0, 1, 0], ["a", "b"])


class Exponential(torch.nn.Module):
    """Keeps what it gives, and a weight that no instance adds to."""

    out_features = 1_000

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(500, 500))

    def forward(self, x):
        return (x + self.scale.exp().mean()).exp()


def test_steps_are_of_the_largest_bags():
    bags = bags_of(np.zeros((48, 2), np.float32))
    most = lambda **settings: largest_step(bags, Settings(**settings))
    assert (most(batch_bags=1), most(batch_bags=2), most(batch_bags=9)) == (30, 39, 48)
    assert most(batch_bags=2, max_instances=6) == 12


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_what_each_instance_adds_is_counted(dtype):
    bags = bags_of(np.random.default_rng(0).normal(size=(48, 1_000)).astype(dtype))
    model = build_model(bags, "log-mean", Exponential())
    made = step_bytes(model, bags, Settings(batch_bags=2))
    assert made == pytest.approx(39 * 1_000 * (np.dtype(dtype).itemsize + BACKWARD_FACTOR * 4), rel=0.05)


def test_what_a_head_alone_keeps_is_counted():
    bags = bags_of(np.zeros((48, 1_000), np.float32))
    made = step_bytes(build_model(bags, "log-mean", "linear"), bags, Settings(batch_bags=2))
    assert made == pytest.approx(39 * 1_000 * (4 + BACKWARD_FACTOR * 4), rel=0.05)


def test_nothing_is_changed_by_it():
    bags = bags_of(np.random.default_rng(0).normal(size=(48, 5)).astype(np.float32))
    network = torch.nn.Sequential(torch.nn.BatchNorm1d(5), torch.nn.Dropout(0.5))
    network.out_features = 5
    model = build_model(bags, "log-mean", network).eval()
    before, seed = [value.clone() for value in model.state_dict().values()], torch.get_rng_state()
    step_bytes(model, bags, Settings())
    assert all(torch.equal(*pair) for pair in zip(before, model.state_dict().values(), strict=True))
    assert torch.equal(seed, torch.get_rng_state())
    assert not model.training


def test_images_of_a_convolutional_network_grow_with_their_pixels():
    of = lambda side: bags_of(np.zeros((48, side, side, 3), np.uint8))
    small, large = (step_bytes(build_model(of(side), "count", "cnn"), of(side), Settings()) for side in (16, 32))
    assert large / small == pytest.approx(4, rel=0.03)


def test_a_step_that_is_too_large_is_warned_of_with_the_cure(majority, tmp_path, monkeypatch):
    assert free_bytes() > 2**20
    words = ["train", "digits", "--recipe", "quick", "--bags", 20, "--bag-size", 8, "--epochs", 1, "--device", "cpu"]
    code, out, _ = majority(*words, "--out", tmp_path / "roomy")
    assert code == 0
    assert "memory" not in out
    monkeypatch.setattr(memory_room, "free_bytes", lambda: 2**16)
    code, out, _ = majority(*words, "--out", tmp_path / "tight")
    assert code == 0
    said = " ".join(out.split())
    assert "warning: a step of 128 instances takes about 0." in said
    assert "so that the run may be killed: take fewer bags a step (--batch-bags" in said
    assert "memory" not in majority(*words, "--max-instances", 1, "--batch-bags", 1, "--out", tmp_path / "part")[1]
    monkeypatch.setattr(memory_room, "free_bytes", lambda: None)
    assert "memory" not in majority(*words, "--out", tmp_path / "not told")[1]
