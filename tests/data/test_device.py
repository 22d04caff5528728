"""Devices by name, and what differs between them. MPS is imitated: no test runs on it."""

import numpy as np
import pytest
import torch

from majority.data.bags import Bags
from majority.data.device import (
    choose_device,
    is_out_of_memory,
)
from majority.data.loader import BagLoader
from majority.errors import InputError

MPS = torch.device("mps")


@pytest.fixture
def gpus(monkeypatch):
    """Imitate a machine with this number of CUDA GPUs."""

    def imitate(number):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: number > 0)
        monkeypatch.setattr(torch.cuda, "device_count", lambda: number)

    return imitate


def test_auto_takes_a_cuda_gpu_and_never_mps(gpus, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    gpus(0)
    assert choose_device() == torch.device("cpu")
    gpus(2)
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("mps") == MPS


@pytest.mark.parametrize(
    ("number", "name", "message"),
    [
        (0, "cuda", "device cuda: torch finds 0 cuda devices .*use cpu or auto"),
        (2, "cuda:2", "device cuda:2: torch finds 2 cuda devices"),
        (2, "mps", "device mps: torch finds 0 mps devices"),
        (2, "tpu", "'tpu' is unknown: use auto, cpu, cuda, cuda:N or mps"),
    ],
)
def test_a_device_that_is_not_there_is_one_message(gpus, monkeypatch, number, name, message):
    gpus(number)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(InputError, match=message):
        choose_device(name)


def test_stores_of_float64_are_loaded_as_float32_on_mps(monkeypatch):
    """The copy to the device itself is left out."""
    moved = []
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, device, **how: moved.append((device, how)) or tensor)
    bags = Bags.from_lists([np.ones((3, 2)), np.zeros((1, 2))], ["a", "b"])
    for loader in (BagLoader(bags, MPS), BagLoader(bags, MPS, stream=True)):
        batch = next(iter(loader.in_order(10)))
        assert batch.instances.dtype == torch.float32
        assert batch.target.labels.tolist() == [0, 1]
    assert {device for device, _ in moved} == {MPS}
    assert not any(how.get("non_blocking") for _, how in moved), "only pinned memory may be copied without waiting"


@pytest.mark.parametrize("message", ["MPS backend out of memory (MPS allocated: 9 GB)", "not enough memory: you tried"])
def test_errors_about_memory_are_recognised(message):
    assert is_out_of_memory(RuntimeError(message))
    assert is_out_of_memory(torch.OutOfMemoryError())
    assert not is_out_of_memory(RuntimeError("shapes do not fit"))
