"""What a training step takes of the machine: instances and threads."""

import numpy as np
import torch

from majority import Bags, Callback, Settings, build_model, fit
from majority.training import loop


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
