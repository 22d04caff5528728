"""The memory that a training step needs, estimated before the training starts."""

import json
import re

import numpy as np
import torch

from majority import Bags, Settings, build_model
from majority.data.loader import BagLoader
from majority.training import memory
from majority.training.memory import free_bytes, largest_step, step_bytes
from majority.training.objectives import BagLoss

SIZES = (1, 9, 4, 4, 30)


def bags_of(store):
    return Bags(store, np.arange(48), np.cumsum([0, *SIZES]), [0, 1, 0, 1, 0], ["a", "b"])


def test_the_largest_step_has_the_largest_bags():
    bags = bags_of(np.zeros((48, 2), np.float32))

    def largest(**settings):
        return largest_step(bags, Settings(**settings))

    assert (largest(batch_bags=1), largest(batch_bags=2), largest(batch_bags=9)) == (30, 39, 48)
    assert largest(batch_bags=2, max_instances=6) == 12


def peak_bytes(function, path):
    """The most memory that PyTorch has allocated at one time while the function runs, by its profiler."""
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        function()
    profile.export_chrome_trace(str(path))
    events = [event for event in json.loads(path.read_text())["traceEvents"] if event["name"] == "[memory]"]
    changes = [event["args"]["Bytes"] for event in sorted(events, key=lambda event: event["ts"])]
    assert changes
    return np.cumsum(changes).max()


def test_the_estimate_covers_a_measured_step_and_is_not_far_above_it(tmp_path):
    rng = np.random.default_rng(0)
    bags = bags_of(rng.integers(0, 256, (48, 24, 24, 3)).astype(np.uint8)).without_instance_labels()
    model, settings = build_model(bags, "log-mean", "cnn"), Settings(batch_bags=5)
    estimate = step_bytes(model, bags, settings)
    model.train().to(memory_format=torch.channels_last)
    (batch,) = BagLoader(bags, torch.device("cpu")).shuffled(settings.batch_bags, rng)

    def step():
        losses, _ = BagLoss().losses(model, batch, None)
        losses.mean().backward()

    step()  # allocates the gradients
    measured = peak_bytes(step, tmp_path / "trace.json")
    assert measured <= estimate <= 1.2 * measured


def test_a_step_that_is_too_large_is_warned_of_with_the_cure(majority, tmp_path, monkeypatch):
    assert free_bytes() > 2**20
    words = ["train", "digits", "--recipe", "quick", "--bags", 20, "--bag-size", 8, "--epochs", 1, "--device", "cpu"]
    code, out, _ = majority(*words, "--out", tmp_path / "enough")
    assert code == 0
    assert "memory" not in out
    monkeypatch.setattr(memory, "free_bytes", lambda: 2**16)
    monkeypatch.setattr(memory, "GIB", 2**10)
    code, out, _ = majority(*words, "--out", tmp_path / "too little")
    assert code == 0
    out = " ".join(out.split())
    assert "warning: a step of 128 instances needs about " in out
    needed, free = re.search(r"about ([\d,.]+) GiB of memory, and ([\d,.]+) GiB are free", out).groups()
    assert float(needed.replace(",", "")) > float(free) == 64
    assert "may be killed" in out
    assert "--batch-bags" in out
    assert "memory" not in majority(*words, "--max-instances", 1, "--batch-bags", 1, "--out", tmp_path / "part")[1]
    monkeypatch.setattr(memory, "free_bytes", lambda: None)
    assert "memory" not in majority(*words, "--out", tmp_path / "unknown")[1]
