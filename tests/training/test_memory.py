"""What a training step takes of the machine: memory, estimated before the training starts, and threads."""

import json
import re

import numpy as np
import torch

from majority import Bags, Callback, Settings, build_model, fit
from majority.data.loader import BagLoader
from majority.training import memory
from majority.training.memory import largest_step, step_bytes
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
    words = ["train", "digits", "--recipe", "quick", "--bags", 20, "--bag-size", 8, "--epochs", 1, "--device", "cpu"]
    assert "memory" not in majority(*words, "--out", tmp_path / "enough")[1]
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemFree: 9 kB\nMemAvailable:   64 kB\n")
    monkeypatch.setattr(memory, "MEMINFO", meminfo)
    code, out, _ = majority(*words, "--out", tmp_path / "too little")
    assert code == 0
    out = " ".join(out.split())
    assert re.search(r"warning: a step of 128 instances needs about [\d.]+ GiB .* are free.*--batch-bags", out)
    assert "memory" not in majority(*words, "--max-instances", 1, "--batch-bags", 1, "--out", tmp_path / "part")[1]


class NoteThreads(Callback):
    def on_epoch_end(self, record):
        self.threads = torch.get_num_threads()


def test_small_vectors_use_one_thread_and_large_steps_and_images_all(monkeypatch):
    def threads_used(instances, backbone="auto"):
        bags, note = Bags.from_lists(list(instances), ["a", "b"] * (len(instances) // 2)), NoteThreads()
        fit(build_model(bags, "count", backbone), bags, None, Settings(epochs=1), title=None, callbacks=[note])
        assert torch.get_num_threads() == 3, "restored"
        return note.threads

    rng, before = np.random.default_rng(0), torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert threads_used(rng.normal(size=(4, 5, 23)).astype("float32")) == 1
        monkeypatch.setattr(memory, "SMALL_STEP", 1000)
        assert threads_used(rng.normal(size=(4, 5, 23)).astype("float32")) == 3
        assert threads_used(rng.integers(0, 256, (4, 2, 8, 8, 1)).astype(np.uint8), "tiny") == 3
    finally:
        torch.set_num_threads(before)
