"""Small vectors are trained with one thread; everything else keeps torch's number."""

import numpy as np
import pytest
import torch

from majority import Bags, Callback, Settings, build_model, fit
from majority.training.threads import enough_threads


class NoteThreads(Callback):
    def __init__(self):
        self.threads = set()

    def on_epoch_end(self, record):
        self.threads.add(torch.get_num_threads())


@pytest.fixture
def three_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def threads_used(instances, backbone="auto"):
    bags = Bags.from_lists(list(instances), ["a", "b"] * (len(instances) // 2))
    note = NoteThreads()
    fit(
        build_model(bags, "count", backbone), bags, bags, Settings(epochs=1), device="cpu", title=None, callbacks=[note]
    )
    assert torch.get_num_threads() == 3, "restored"
    return note.threads


@pytest.mark.usefixtures("three_threads")
def test_small_vectors_use_one_thread_and_large_steps_and_images_all():
    rng = np.random.default_rng(0)
    assert threads_used(rng.normal(size=(4, 5, 23)).astype("float32")) == {1}
    assert threads_used(rng.normal(size=(2, 1000, 1000)).astype("float32")) == {3}, "280 million multiply-adds"
    assert threads_used(rng.integers(0, 256, (4, 2, 8, 8, 1)).astype(np.uint8), "tiny") == {3}


@pytest.mark.usefixtures("three_threads")
def test_overlapping_trainings_restore_the_number_when_the_last_one_ends():
    bags = Bags.from_lists([np.ones((2, 3))] * 4, ["a", "b"] * 2)
    model = build_model(bags, "count")
    first, second = (enough_threads(model, bags, Settings(), torch.device("cpu")) for _ in range(2))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.get_num_threads() == 1, "the second still trains"
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == 3
