"""What a training step takes of the machine: instances and threads."""

import numpy as np
import torch

from majority import Bags, Callback, Settings, build_model, fit
from majority.training import loop
from majority.training.loop import largest_step

SIZES = (1, 9, 4, 4, 30)


def bags_of(store):
    return Bags(store, np.arange(48), np.cumsum([0, *SIZES]), [0, 1, 0, 1, 0], ["a", "b"])


def test_the_largest_step_has_the_largest_bags():
    bags = bags_of(np.zeros((48, 2), np.float32))

    def largest(**settings):
        return largest_step(bags, Settings(**settings))

    assert (largest(batch_bags=1), largest(batch_bags=2), largest(batch_bags=9)) == (30, 39, 48)
    assert largest(batch_bags=2, max_instances=6) == 12


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
        monkeypatch.setattr(loop, "SMALL_STEP", 1000)
        assert threads_used(rng.normal(size=(4, 5, 23)).astype("float32")) == 3
        assert threads_used(rng.integers(0, 256, (4, 2, 8, 8, 1)).astype(np.uint8), "tiny") == 3
    finally:
        torch.set_num_threads(before)
